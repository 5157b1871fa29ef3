"""Plain sequential decoding of a vendor's file: displayed frames in order, upright."""

import struct
from collections.abc import Generator, Iterator
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
from av.error import FFmpegError
from av.filter import Graph
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from egodata.errors import VideoError
from egodata.video.colour import to_rgb
from egodata.video.program import ProgramContainer, open_with_program

_TRANSPOSE = {90: ("transpose=cclock",), 270: ("transpose=clock",), 180: ("hflip", "vflip")}


def open_video(path: Path) -> tuple[Any, Any]:
    """Open a file and its first video stream, one decode thread; where PyAV lacks the codec, through the ffmpeg program.

    Returns:
        The av container and stream, or what stands for them; the caller closes the container.

    Raises:
        VideoError: No such file, empty, not a video, no index, or no video stream.
    """
    name = path.name
    try:
        if path.exists() and not path.is_file():  # a pipe or a device would block for ever
            raise VideoError(f"video {name}: not a regular file. Deliver the file itself.")
        if path.stat().st_size == 0:
            raise VideoError(f"video {name}: 0 bytes. Get the file again.")
        container = av.open(str(path), mode="r", options={"protocol_whitelist": "file"})  # a playlist may not lead to the network
    except FileNotFoundError as error:
        raise VideoError(f"video {name}: no such file.") from error
    except FFmpegError as error:
        raise VideoError(f"video {name}: not a readable video ({_reason(path)}). Get the file again.") from error
    if not container.streams.video:
        kinds = ", ".join(sorted({stream.type for stream in container.streams})) or "no stream"
        container.close()
        raise VideoError(f"video {name}: no video stream in it, only {kinds}.")
    stream = cast(Any, container.streams.video[0])
    if stream.codec_context is None:
        container.close()
        piped = open_with_program(path)
        return piped, piped.streams.video[0]
    stream.codec_context.thread_count = 1
    stream.codec_context.thread_type = "NONE"
    return container, stream


def _reason(path: Path) -> str:
    """Say why a file does not open: its box structure tells a cut mp4 from something else."""
    with path.open("rb") as file:
        head = file.read(16)
        if head[4:8] not in (b"ftyp", b"moov", b"mdat", b"wide", b"free"):
            return "no known container"
        found, position, size = set(), 0, path.stat().st_size
        while position + 8 <= size:
            file.seek(position)
            length, kind = struct.unpack(">I4s", file.read(8))
            if length == 1:
                length = struct.unpack(">Q", file.read(8).ljust(8, b"\0"))[0]
            found.add(kind)
            position = size if length == 0 else position + max(length, 8)
    if b"moov" not in found:
        return "mp4 without its index, moov missing: the recording or the copy was cut off"
    return "mp4 cut off" if position > size else "mp4 structure damaged"


def rotation_deg(frame: av.VideoFrame, *, where: str) -> int:
    """Return the clockwise turn (0, 90, 180, 270) that shows a frame upright, by its display matrix.

    Raises:
        VideoError: The matrix mirrors, or turns by another angle.
    """
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 0
    a, b, _, c, d = struct.unpack("<5i", bytes(cast(Any, matrix))[:20])
    if a * d - b * c <= 0 or frame.rotation % 90:
        raise VideoError(f"video {where}: display matrix mirrors or turns by {frame.rotation} degrees; only 90, 180, 270 are supported.")
    return int(-frame.rotation) % 360


class _Upright:
    """Turns frames by a display matrix, with one filter graph."""

    def __init__(self, turn_deg: int) -> None:
        self._turn = turn_deg
        self._graph: Graph | None = None

    def __call__(self, frame: av.VideoFrame) -> av.VideoFrame:
        if self._turn == 0:
            return frame
        if self._graph is None:
            graph = Graph()
            nodes = [graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=frame.time_base)]
            for text in _TRANSPOSE[360 - self._turn if self._turn != 180 else 180]:
                name, _, arguments = text.partition("=")
                nodes.append(graph.add(name, arguments or None))
            nodes.append(graph.add("buffersink"))
            for left, right in pairwise(nodes):
                left.link_to(right)
            graph.configure()
            self._graph = graph
        self._graph.push(frame)
        turned = cast(av.VideoFrame, self._graph.pull())
        turned.colorspace, turned.color_range = frame.colorspace, frame.color_range
        turned.color_trc = frame.color_trc
        return turned


def displayed_frames(path: Path, *, turned: bool = True, first: int = 0) -> Generator[av.VideoFrame, None, None]:
    """Yield the frames that a player shows, in display order, in the source's pixel format and size.

    Args:
        path: The file.
        turned: Turn them upright by the display matrix.
        first: Displayed frame to start at; the ones before its keyframe are not decoded.

    Raises:
        VideoError: The file cannot be opened or decoded to its end.
    """
    container, stream = open_video(path)
    with container:
        upright: _Upright | None = None
        try:
            for frame in _from(container, stream, first):
                if upright is None:
                    upright = _Upright(rotation_deg(frame, where=path.name) if turned else 0)
                yield upright(frame)
        except FFmpegError as error:
            raise VideoError(f"video {path.name}: decoding stopped ({error.strerror or error}). Get the file again.") from error


def _from(container: Any, stream: Any, first: int) -> Iterator[av.VideoFrame]:
    """Decode from displayed frame `first` on, over its keyframe where the container leads to it, else from the start."""
    if first == 0:
        yield from container.decode(stream)
        return
    if isinstance(container, ProgramContainer):
        yield from islice(container.decode(stream), first, None)
        return
    pts = sorted(packet.pts for packet in container.demux(stream) if packet.size and not packet.is_discard and packet.pts is not None)
    if first < len(pts):
        container.seek(pts[first], stream=stream, backward=True)
        frames = container.decode(stream)
        frame = next(frames, None)
        if frame is not None and frame.pts is not None and frame.pts <= pts[first]:
            yield from (shown for shown in chain([frame], frames) if shown.pts is None or shown.pts >= pts[first])
            return
    container.seek(_earliest(stream), stream=stream, backward=True)
    yield from islice(container.decode(stream), first, None)


def _earliest(stream: Any) -> int:
    return min(0, int(stream.start_time or 0))


def rgb_array(frame: av.VideoFrame) -> NDArray[np.uint8]:
    """View an rgb24 frame as (H, W, 3); valid while the frame lives."""
    plane = cast(Any, frame.planes[0])
    rows: NDArray[np.uint8] = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    return rows[: frame.height, : frame.width * 3].reshape(frame.height, frame.width, 3)


def decode_video(path: Path, *, size: tuple[int, int] | None = None, limit: int | None = None) -> Iterator[NDArray[np.uint8]]:
    """Decode a file from its start, by its colour tags.

    Args:
        path: Any video that ffmpeg's libraries read.
        size: (width, height) in pixels to scale to; None keeps the source's.
        limit: Stop after this many frames.

    Yields:
        Displayed frames (H, W, 3) uint8 RGB, upright.

    Raises:
        VideoError: The file cannot be opened or decoded.
    """
    reformatter = VideoReformatter()
    for number, frame in enumerate(displayed_frames(path)):
        if limit is not None and number >= limit:
            return
        yield rgb_array(to_rgb(frame, reformatter, size=size, where=path.name)).copy()
