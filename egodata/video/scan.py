"""What a video file holds, by reading its packets: displayed frames, their times, the measured frame rate."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from av.error import FFmpegError
from numpy.typing import NDArray

from egodata.errors import VideoError
from egodata.video.program import ProgramContainer
from egodata.video.source import displayed_frames, open_video, rotation_deg

_MAX_RATE_HZ = 480
_RATE_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class VideoScan:
    """A file's first video stream. Only the first frame is decoded, for its rotation.

    Attributes:
        frames: Displayed frames: packets that the container does not mark as cut away.
        pts_ns: (frames,) int64, sorted; time of each displayed frame in ns, counted from the first displayed one.
        fps: Measured from the time stamps, snapped to a common rate that explains them.
        width: Pixels, upright (after rotation).
        height: Pixels, upright.
        rotation_deg: Clockwise turn that the display matrix asks for: 0, 90, 180 or 270.
        codec: Such as ``h264``, ``hevc``, ``av1``.
        pix_fmt: Pixel format of the source.
        declared_frames: Frame count in the container's header, 0 where it has none.
        has_audio: Whether there is an audio stream beside it.
        by_program: The ffmpeg program read it, since PyAV's build lacks the codec, and gave RGB.
    """

    frames: int
    pts_ns: NDArray[np.int64]
    fps: Fraction
    width: int
    height: int
    rotation_deg: int
    codec: str
    pix_fmt: str
    declared_frames: int
    has_audio: bool
    by_program: bool = False


def scan_video(path: Path) -> VideoScan:
    """Scan a file: read all packets, decode one frame.

    Raises:
        VideoError: One line: no such file, 0 bytes, no video container, missing moov, no video stream, cut off,
            no frames, or an unsupported rotation.
    """
    name = path.name
    container, stream = open_video(path)
    with container:
        by_program = isinstance(container, ProgramContainer)
        if by_program:
            codec, pix_fmt, has_audio = container.codec, container.pix_fmt, container.has_audio
        else:
            codec, pix_fmt = stream.codec_context.codec.canonical_name, stream.codec_context.pix_fmt or ""
            has_audio = bool(container.streams.audio)
        pts = _displayed_pts(container, stream, name)
        time_base, declared = stream.time_base, int(stream.frames)
        rates = [rate for rate in (stream.average_rate, stream.guessed_rate) if rate]
    first = next(displayed_frames(path, turned=False), None)
    if first is None:
        raise VideoError(f"video {name}: no frame decodes. Get the file again.")
    turn = rotation_deg(first, where=name)
    ns = np.array([(int(t) - int(pts[0])) * time_base.numerator * 1_000_000_000 // time_base.denominator for t in pts], np.int64)
    width, height = (first.height, first.width) if turn in (90, 270) else (first.width, first.height)
    return VideoScan(
        frames=len(pts),
        pts_ns=ns,
        fps=measured_rate(pts, time_base, candidates=rates),
        width=width,
        height=height,
        rotation_deg=turn,
        codec=codec,
        pix_fmt=pix_fmt,
        declared_frames=declared,
        has_audio=has_audio,
        by_program=by_program,
    )


def _displayed_pts(container: Any, stream: Any, name: str) -> NDArray[np.int64]:
    """Return the sorted pts of packets that are shown; a cut-off file is an error, whatever its header says."""
    pts: list[int] = []
    cut: str | None = None
    try:
        for packet in container.demux(stream):
            if packet.size == 0:
                continue
            if packet.is_corrupt:
                cut = "its last packet is incomplete"
                break
            if packet.is_discard:
                continue
            pts.append(packet.pts if packet.pts is not None else packet.dts)
    except FFmpegError as error:
        cut = error.strerror or str(error)
    listed = sum(1 for entry in stream.index_entries if not entry.is_discard)
    if cut is None and listed > len(pts) and stream.frames > len(pts):
        cut = "the data ends before its index does"
    if cut is not None:
        of = f" of {stream.frames}" if stream.frames else ""
        raise VideoError(f"video {name}: cut off after {len(pts)}{of} frames ({cut}). Get the file again.")
    if not pts:
        raise VideoError(f"video {name}: no frames in its video stream. Get the file again.")
    if any(value is None for value in pts):
        raise VideoError(f"video {name}: frames without time stamps. Remux the file.")
    return np.sort(np.array(pts, np.int64))


def measured_rate(pts: NDArray[np.int64], time_base: Fraction, *, candidates: list[Fraction]) -> Fraction:
    """Measure a frame rate from time stamps.

    The mean rate over the file, snapped to the nearest candidate, whole rate or whole x 1000/1001 whose span over the file
    agrees with the time stamps to one tick or 1e-4; else the mean itself with a denominator of at most 100000.

    Args:
        pts: (N,) sorted time stamps in ticks.
        time_base: Seconds per tick.
        candidates: Rates that the container names.
    """
    if len(pts) < 2 or pts[-1] == pts[0]:
        return Fraction(candidates[0]) if candidates else Fraction(30)
    span = int(pts[-1] - pts[0]) * Fraction(time_base)
    mean = Fraction(len(pts) - 1) / span
    whole = {Fraction(n) for n in (int(mean), int(mean) + 1, round(mean)) if 0 < n <= _MAX_RATE_HZ}
    common = {*whole, *(rate * 1000 / 1001 for rate in whole), *(rate * 1000 / 1001 for rate in {r + 1 for r in whole})}
    allowed = max(Fraction(time_base), span * Fraction(_RATE_TOLERANCE).limit_denominator(1_000_000))
    fits = [rate for rate in {*common, *map(Fraction, candidates)} if abs((len(pts) - 1) / rate - span) <= allowed]
    if fits:
        return min(fits, key=lambda rate: (abs(rate - mean), rate.denominator))
    return mean.limit_denominator(100_000)
