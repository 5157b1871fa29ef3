"""Encoding into self-contained mp4 elements, streamed: decoding and scaling run ahead of the encoder, each in a thread."""

from collections.abc import Generator, Iterable, Iterator
from fractions import Fraction
from io import BytesIO
from itertools import chain, islice

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from egodata.episode import VideoSource
from egodata.errors import VideoError
from egodata.video.ahead import ahead
from egodata.video.colour import BT709, LIMITED, to_stored
from egodata.video.settings import EncodeSettings
from egodata.video.source import displayed_frames
from egodata.video.undistort import Undistorter

DECODED_FRAMES, QUEUE_FRAMES = 4, 8


def encode_video(source: VideoSource, *, fps: Fraction, settings: EncodeSettings) -> Iterator[bytes]:
    """Encode the displayed frames that an episode's rows name.

    Args:
        source: File, rows (non-decreasing displayed-frame numbers) and the stored (width, height), both even.
        fps: Frame rate of the stored stream.
        settings: Encoder settings.

    Yields:
        One self-contained mp4 per `settings.frames_per_chunk` rows; the last is shorter.

    Raises:
        VideoError: Fewer frames decode than the rows need, rows go back, the size is odd, or the file cannot be decoded.
    """
    where = source.path.name
    _check_size(source.size, where)
    rows = np.asarray(source.rows, np.int64)
    if rows.ndim != 1 or (rows.size and (rows[0] < 0 or bool((np.diff(rows) < 0).any()))):
        raise VideoError(f"video {where}: rows must be displayed-frame numbers from 0 that never go back.")
    with (
        ahead(displayed_frames(source.path, first=int(rows[0]) if rows.size else 0), depth=DECODED_FRAMES) as decoded,
        ahead(_picked(source, rows, decoded), depth=QUEUE_FRAMES) as frames,
    ):
        yield from _encode_chunks(frames, fps=fps, settings=settings, where=where)


def encode_frames(frames: Iterable[NDArray[np.uint8]], *, fps: Fraction, settings: EncodeSettings) -> Iterator[bytes]:
    """Encode RGB frames in memory.

    Args:
        frames: Each (H, W, 3) uint8 RGB, all of one size, H and W even.
        fps: Frame rate of the stored stream.
        settings: Encoder settings.

    Yields:
        One self-contained mp4 per `settings.frames_per_chunk` frames; the last is shorter.

    Raises:
        VideoError: The size is odd or changes, or the encoder fails.
    """
    yield from _encode_chunks(_from_arrays(frames), fps=fps, settings=settings, where="frames in memory")


def _check_size(size: tuple[int, int], where: str) -> None:
    if size[0] % 2 or size[1] % 2 or min(size) < 2:
        raise VideoError(f"video {where}: stored size {size[0]}x{size[1]} must be even (yuv420p). Round it down to even numbers.")


def _from_arrays(frames: Iterable[NDArray[np.uint8]]) -> Iterator[av.VideoFrame]:
    reformatter = VideoReformatter()
    size: tuple[int, int] | None = None
    for array in frames:
        found = (int(array.shape[1]), int(array.shape[0]))
        if size is None:
            _check_size(found, "frames in memory")
            size = found
        if found != size or array.dtype != np.uint8:
            raise VideoError(f"video frames in memory: expected uint8 of {size[0]}x{size[1]}, got {array.dtype} of {found[0]}x{found[1]}.")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(array), format="rgb24")
        yield to_stored(frame, reformatter, size=size, where="frames in memory")


def _picked(source: VideoSource, rows: NDArray[np.int64], decoded: Iterator[av.VideoFrame]) -> Generator[av.VideoFrame, None, None]:
    """Yield one stored-form frame per row, the same one again where a row repeats."""
    where, reformatter, row, count = source.path.name, VideoReformatter(), 0, int(rows[0]) if rows.size else 0
    undistort = None if source.undistort is None else Undistorter(source.undistort, where=where)
    if not rows.size:
        return
    for number, frame in enumerate(decoded, int(rows[0])):
        count = number + 1
        if rows[row] != number:
            continue
        if undistort is not None:
            frame = undistort(frame)
        stored = to_stored(frame, reformatter, size=source.size, where=where)
        while row < len(rows) and rows[row] == number:
            yield stored
            row += 1
        if row == len(rows):
            return
    raise VideoError(f"video {where}: {count} frames decode, the rows need {int(rows[-1]) + 1}. Trim the rows or get the file again.")


def _encode_chunks(frames: Iterator[av.VideoFrame], *, fps: Fraction, settings: EncodeSettings, where: str) -> Iterator[bytes]:
    for first in frames:
        part = chain([first], islice(frames, settings.frames_per_chunk - 1))
        try:
            yield _encode_one(part, size=(first.width, first.height), fps=fps, settings=settings)
        except FFmpegError as error:
            raise VideoError(f"video {where}: encoding failed ({error.strerror or error}).") from error


def _encode_one(frames: Iterable[av.VideoFrame], *, size: tuple[int, int], fps: Fraction, settings: EncodeSettings) -> bytes:
    buffer = BytesIO()
    with av.open(buffer, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", rate=fps, options=settings.x264_options())
        stream.width, stream.height = size
        stream.pix_fmt = settings.pix_fmt
        context = stream.codec_context
        context.time_base = 1 / fps
        context.thread_count = settings.threads
        context.color_primaries = context.color_trc = context.colorspace = BT709
        context.color_range = LIMITED
        for number, frame in enumerate(frames):
            frame.pts, frame.time_base = number, 1 / fps
            frame.pict_type = 0  # a source's own frame types would otherwise be forced on the encoder
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()
