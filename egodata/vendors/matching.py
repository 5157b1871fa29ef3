"""Streams with time stamps of their own, matched to video frames; and counts that should be equal."""

import numpy as np
from numpy.typing import NDArray

from egodata.findings import Severity
from egodata.vendors.base import Notes
from egodata.vendors.frames import nearest_rows
from egodata.video import VideoScan


def increasing(
    stamps: NDArray[np.int64], values: NDArray[np.float64], *, stream: str, notes: Notes
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return a stream whose time increases: exact repeats are dropped and counted.

    Args:
        stamps: (N,) times.
        values: (N, D) rows.
        stream: Name for findings.
        notes: Told of it.

    Raises:
        SetAside: Time goes back, or one time has two values.
    """
    steps = np.diff(stamps)
    back = np.flatnonzero(steps < 0)
    same = np.flatnonzero(steps == 0)
    differs = [at for at in same if not np.array_equal(values[at], values[at + 1], equal_nan=True)]
    if len(back) or differs:
        at = int(back[0] if len(back) else differs[0]) + 1
        what = f"time goes back at row {at}" if len(back) else f"row {at} has the time of row {at - 1} and another value"
        notes.refuse(
            "time-reset", f"{stream}: {what}. A reset or a second take is not sorted away; ask for one take per file.", stream=stream
        )
    if not len(same):
        return stamps, values
    notes.add("duplicates-dropped", f"{stream}: {len(same)} rows repeat another one exactly; dropped", stream=stream)
    keep = np.concatenate([[True], steps > 0])
    return stamps[keep], values[keep]


def at_frames(
    frames_ns: NDArray[np.int64], stream: tuple[NDArray[np.int64], NDArray[np.float64]], *, limit_ns: float
) -> NDArray[np.float64]:
    """Take for every frame the nearest row of a stream, NaN where none is within `limit_ns`.

    Args:
        frames_ns: (T,) increasing.
        stream: Times (N,), increasing, on the same clock, and rows (N, D).
        limit_ns: Largest distance.

    Returns:
        (T, D) float64.
    """
    stamps_ns, values = stream
    out = np.full((len(frames_ns), *values.shape[1:]), np.nan)
    if len(stamps_ns):
        rows, distance = nearest_rows(frames_ns, stamps_ns)
        near = distance <= limit_ns
        out[near] = values[rows[near]]
    return out


def common_length(rows: int, frames: int, *, tail: int, what: str, notes: Notes) -> int:
    """Settle how many frames an episode has where rows and video frames should be equally many.

    Args:
        rows: Rows of the vendor's file.
        frames: Frames of the video.
        tail: How many may be cut from the end of the longer one.
        what: Name of the rows' file.
        notes: Told of a cut.

    Returns:
        The shorter of the two.

    Raises:
        SetAside: They differ by more than `tail`, or there is none.
    """
    if abs(rows - frames) > tail or min(rows, frames) < 1:
        notes.refuse(
            "frame-count",
            f"{what}: {rows} rows but {frames} video frames: more than {tail} apart. Ask for the video again.",
            expected=str(rows),
            got=str(frames),
        )
    if rows != frames:
        notes.add(
            "tail-trimmed",
            f"{what}: {rows} rows and {frames} video frames; every stream ends at frame {min(rows, frames)}",
            expected=str(rows),
            got=str(frames),
        )
    return min(rows, frames)


def check_clock(frames_ns: NDArray[np.int64], stamps_ns: NDArray[np.int64], *, stream: str, tolerance_s: float, notes: Notes) -> None:
    """Compare where a stream lies in time with where the frames lie: one that is as long but shifted has another clock.

    Args:
        frames_ns: (T,) increasing, T at least 1.
        stamps_ns: (N,) times of the stream, any order; nothing is checked if there are none.
        stream: Its name.
        tolerance_s: Shift at both ends, in one direction, from which it is a finding.
        notes: Told of it.

    Raises:
        SetAside: The stream lies wholly before or behind the frames.
    """
    if not len(stamps_ns):
        return
    start_s, end_s = (int(stamps_ns.min()) - int(frames_ns[0])) / 1e9, (int(stamps_ns.max()) - int(frames_ns[-1])) / 1e9
    first, last = 0.0, (int(frames_ns[-1]) - int(frames_ns[0])) / 1e9
    if start_s > last + tolerance_s or end_s + last < first - tolerance_s:
        text = f"{stream}: lies {start_s:.3f} s from the first frame, the video lasts {last:.3f} s: another clock. Ask for one clock."
        notes.refuse("clock-offset", text, stream=stream, expected="0 s", got=f"{start_s:.3f} s")
    shifted = min(abs(start_s), abs(end_s)) > tolerance_s and start_s * end_s > 0
    if shifted and abs(start_s - end_s) <= tolerance_s:
        text = f"{stream}: starts {start_s:+.3f} s and ends {end_s:+.3f} s from the frames, as a clock does that is off; its times count"
        notes.add("clock-offset", text, stream=stream, expected="0 s", got=f"{start_s:.3f} s")


def report_header(scan: VideoScan, *, name: str, notes: Notes) -> None:
    """Note a video whose header tells another number of frames than it holds, and one that only the ffmpeg program could read."""
    report_program(scan, name=name, notes=notes)
    if scan.declared_frames and scan.declared_frames != scan.frames:
        notes.add(
            "video-header",
            f"{name}: its header says {scan.declared_frames} frames, it holds {scan.frames}; what it holds counts",
            stream=name,
            expected=str(scan.declared_frames),
            got=str(scan.frames),
        )


def report_program(scan: VideoScan, *, name: str, notes: Notes) -> None:
    """Note a video that only the ffmpeg program could read."""
    if scan.by_program:
        text = f"{name}: PyAV's build lacks its codec ({scan.codec}); the ffmpeg program read it, as 8-bit RGB"
        notes.add("video-by-program", text, severity=Severity.INFO, stream=name, got=scan.codec)
