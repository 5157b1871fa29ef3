"""A plain mp4 writer for generated footage; episodes are encoded by `egodata.video.encode_video`."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from egodata.errors import InputError, VideoError

BT709 = 1
PTS_BASE = Fraction(1, 90_000)


def write_mp4(
    path: Path,
    frames: Iterable[NDArray[np.uint8]],
    *,
    fps: Fraction | float,
    preset: str = "ultrafast",
    crf: int = 18,
    gop: int = 30,
    timestamps: Sequence[int] | None = None,
) -> int:
    """Write RGB frames as H.264, yuv420p, tagged bt709 limited range; one thread, bit-exact muxing.

    Args:
        path: File to write.
        frames: (H, W, 3) uint8 RGB, all of one even size; taken one at a time.
        fps: Frames per second.
        preset: x264 preset.
        crf: x264 quality.
        gop: Largest distance of keyframes.
        timestamps: Presentation time per frame in nanoseconds, increasing; None for constant 1 / fps.

    Returns:
        The number of frames written.

    Raises:
        InputError: No frames, an odd size, or fewer time stamps than frames.
        VideoError: The encoder refused.
    """
    rate = Fraction(fps).limit_denominator(1001)
    pictures = iter(frames)
    first = next(pictures, None)
    if first is None:
        raise InputError(f"{path.name}: no frames to write")
    height, width = first.shape[:2]
    if height % 2 or width % 2:
        raise InputError(f"{path.name}: size {width}x{height}: expected even numbers (yuv420p). Choose another size.")
    count = 0
    try:
        with av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact"}) as container:
            stream = container.add_stream("libx264", rate=rate, options={"preset": preset, "crf": str(crf), "g": str(gop), "threads": "1"})
            _configure(stream, width, height, rate if timestamps is None else None)
            reformatter = VideoReformatter()
            picture: NDArray[np.uint8] | None = first
            while picture is not None:
                frame = _yuv_frame(reformatter, picture)
                frame.pts, frame.time_base = _pts(path, count, timestamps, rate)
                container.mux(stream.encode(frame))
                count += 1
                picture = next(pictures, None)
            container.mux(stream.encode())
    except av.FFmpegError as error:
        raise VideoError(f"{path.name}: frame {count} of {width}x{height} could not be encoded ({error})") from error
    return count


def _configure(stream: VideoStream, width: int, height: int, rate: Fraction | None) -> None:
    context = stream.codec_context
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.time_base = PTS_BASE if rate is None else 1 / rate
    context.color_primaries = context.color_trc = context.colorspace = BT709
    context.color_range = ColorRange.MPEG


def _yuv_frame(reformatter: VideoReformatter, picture: NDArray[np.uint8]) -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
    return reformatter.reformat(
        frame, format="yuv420p", src_color_range=ColorRange.JPEG, dst_color_range=ColorRange.MPEG, dst_colorspace=Colorspace.ITU709
    )


def _pts(path: Path, index: int, timestamps: Sequence[int] | None, rate: Fraction) -> tuple[int, Fraction]:
    if timestamps is None:
        return index, 1 / rate
    if index >= len(timestamps):
        raise InputError(f"{path.name}: frame {index} has no time stamp, got {len(timestamps)}")
    return round(Fraction(int(timestamps[index]) - int(timestamps[0]), 1_000_000_000) / PTS_BASE), PTS_BASE
