"""Video of a Lance copy that is encoded again for size, with its measured loss."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeReader, VideoInfo
from egodata.video import AV1, AV1_SETTINGS, FrameReader, encode_av1

VIDEO_MODES = ("copy", AV1)
_AT_ONCE = 32
_SSIM_EVERY = 10


def again(reader: EpisodeReader, camera: str, *, rows: tuple[int, int]) -> tuple[bytes, dict[str, Any]]:
    """Encode the frames of one element again and measure what that costs.

    Args:
        reader: The episode as published.
        camera: Its camera.
        rows: First frame, and how many.

    Returns:
        The AV1 element, and ``codec``, ``pixel_mae``, ``psnr_db`` (means over its frames) and ``ssim`` (over every tenth).
    """
    first, count = rows
    info = reader.video_info(camera)
    element = encode_av1((frame for batch in _batches(reader, camera, first, count) for frame in batch), fps=info.fps)
    made = replace(recoded(info), frames=count, frames_per_chunk=count)
    again = FrameReader(made, lambda _: element, where=f"episode {reader.meta.episode_id}: camera {camera} as AV1")
    mae: list[float] = []
    square: list[float] = []
    ssim: list[float] = []
    place = 0
    for batch in _batches(reader, camera, first, count):
        got = again.frames(range(place, place + len(batch)))
        difference = np.abs(batch.astype(np.int16) - got)
        mae.extend(difference.mean((1, 2, 3)).tolist())
        square.extend(np.square(difference, dtype=np.float64).mean((1, 2, 3)).tolist())
        ssim.extend(similarity(batch[at], got[at]) for at in range(len(batch)) if (place + at) % _SSIM_EVERY == 0)
        place += len(batch)
    again.close()
    psnr_db = 10 * np.log10(255.0**2 / np.maximum(np.array(square), 1e-12))
    return element, {"codec": AV1, "pixel_mae": float(np.mean(mae)), "psnr_db": float(psnr_db.mean()), "ssim": float(np.mean(ssim))}


def recoded(info: VideoInfo) -> VideoInfo:
    """Return what is stored for a camera once it was encoded again: the same frames in the same elements, other settings."""
    settings: Mapping[str, Any] = AV1_SETTINGS.to_json()
    return replace(info, settings=settings)


def similarity(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Return the SSIM of two frames (H, W, 3) uint8; 1 is equal."""
    from skimage import metrics  # half a second to import, needed only here

    side = min(7, *one.shape[:2])
    return float(metrics.structural_similarity(one, other, channel_axis=-1, data_range=255, win_size=side - (side + 1) % 2))  # type: ignore[no-untyped-call]


def _batches(reader: EpisodeReader, camera: str, first: int, count: int) -> Iterator[NDArray[np.uint8]]:
    for start in range(first, first + count, _AT_ONCE):
        yield reader.frames(camera, range(start, min(start + _AT_ONCE, first + count)))
