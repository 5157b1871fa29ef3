"""RGB frames in memory brought to the stored size."""

from collections.abc import Iterable, Iterator

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from egodata.video.source import rgb_array

_SCALING = Interpolation.BICUBIC | Interpolation.ACCURATE_RND


def scaled_frames(frames: Iterable[NDArray[np.uint8]], *, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
    """Scale frames one at a time; those that have the size already pass unchanged.

    Args:
        frames: (H, W, 3) uint8 RGB of any size.
        size: (width, height) in pixels.

    Yields:
        (height, width, 3) uint8 RGB.
    """
    reformatter = VideoReformatter()
    for array in frames:
        if (array.shape[1], array.shape[0]) == size:
            yield array
            continue
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(array), format="rgb24")
        made = reformatter.reformat(frame, width=size[0], height=size[1], format="rgb24", interpolation=_SCALING, threads=1)
        yield rgb_array(made).copy()
