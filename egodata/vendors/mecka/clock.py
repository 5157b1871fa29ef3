"""Frames and their times: frames.csv against the video's own pts."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egodata.findings import Severity
from egodata.vendors.base import Notes
from egodata.vendors.frames import RELATIVE, judge_unit, measured_rate, parse_decimal, standard_rate, to_ns
from egodata.vendors.mecka.config import MeckaConfig
from egodata.vendors.tables import TableError, integers, read_table
from egodata.video import VideoScan

RATE_DIFFERS = Fraction(1, 100)


@dataclass(frozen=True, slots=True)
class Clock:
    """The frames of an episode.

    Attributes:
        stamps_ns: (T,) int64, increasing.
        name: ``unix`` or ``frame0``.
        fps: Measured.
        listed: Frames before a tail was cut: rows of frames.csv or frames of the video, whichever are more.
    """

    stamps_ns: NDArray[np.int64]
    name: str
    fps: Fraction
    listed: int


def read_clock(path: Path | None, scan: VideoScan, *, config: MeckaConfig, notes: Notes) -> Clock:
    """Read frames.csv and settle the episode's frames; without the file times are the video's pts from frame 0.

    Raises:
        SetAside: The table is unusable, stamps repeat or go back, or rows and frames differ by more than the tail that may be cut.
    """
    if path is None:
        notes.add("frames-absent", "frames.csv not delivered: times are the video's own, from its first frame", severity=Severity.INFO)
        return Clock(scan.pts_ns - scan.pts_ns[0], "frame0", standard_rate(scan.fps), scan.frames)
    try:
        stamps, name = _read_frames(path, notes)
    except TableError as error:
        notes.refuse(error.code, str(error), stream=path.name)
    listed, total = len(stamps), min(len(stamps), scan.frames)
    notes.counts["frames"] = {"frames.csv": listed, "video": scan.frames, "declared": scan.declared_frames}
    if abs(listed - scan.frames) > config.trim_tail_frames:
        notes.refuse(
            "frame-count",
            f"frames.csv has {listed} rows, the video {scan.frames} frames: more than {config.trim_tail_frames} apart. "
            "Ask for the video again.",
            expected=str(listed),
            got=str(scan.frames),
        )
    if listed != scan.frames:
        notes.add(
            "tail-trimmed",
            f"frames.csv has {listed} rows, the video {scan.frames} frames: every stream ends at frame {total}",
            expected=str(listed),
            got=str(scan.frames),
        )
    return Clock(stamps[:total], name, _rate(stamps[:total], scan, config, notes), max(listed, scan.frames))


def _read_frames(path: Path, notes: Notes) -> tuple[NDArray[np.int64], str]:
    table = read_table(path)
    index = integers(table.require("index", "frame"), where=f"{path.name} index")
    cells = table.require("unix_timestamp")
    values = [parse_decimal(cell if "." in cell else cell.replace(",", ".")) for cell in cells]
    rows: dict[int, Decimal | None] = {}
    for at, value in zip(index.tolist(), values, strict=True):
        if rows.setdefault(at, value) != value:
            notes.refuse(
                "frames-reset",
                f"{path.name}: frame {at} comes twice with different times. A second take or a reset is not sorted away.",
                stream=path.name,
            )
    if len(rows) < len(index):
        notes.counts["frames_duplicates"] = len(index) - len(rows)
        notes.add("duplicates-dropped", f"{path.name}: {len(index) - len(rows)} rows repeat another one exactly; dropped", stream=path.name)
    if list(rows) != sorted(rows):
        notes.add("rows-shuffled", f"{path.name}: rows are not in the order of their index; the index counts", stream=path.name)
    ordered = [rows.get(frame) for frame in range(len(rows))]
    stamps = [value for value in ordered if value is not None]
    if len(stamps) < len(ordered) or not stamps:
        first = next((at for at, value in enumerate(ordered) if value is None), 0)
        notes.refuse(
            "frames-gap",
            f"{path.name}: no usable time for frame {first} of {len(ordered)}, frames count from 0. Ask for the file again.",
            stream=path.name,
            frames=(first, first + 1),
        )
    return _to_stamps(stamps, path, notes)


def _to_stamps(values: list[Decimal], path: Path, notes: Notes) -> tuple[NDArray[np.int64], str]:
    unit = judge_unit(values)
    if unit is None:
        notes.refuse(
            "time-unit",
            f"{path.name}: stamps from {min(values)} to {max(values)} are not of one unit, or beyond 64-bit nanoseconds. "
            "Ask for the file again.",
            stream=path.name,
        )
    stamps = np.array([to_ns(value, unit) for value in values], np.int64)
    back = np.flatnonzero(np.diff(stamps) <= 0)
    if len(back):
        at = int(back[0]) + 1
        notes.refuse(
            "time-reset",
            f"{path.name}: time does not increase at frame {at} ({len(back)} such steps). A reset is not sorted away.",
            stream=path.name,
            frames=(at, at + 1),
        )
    return (stamps - stamps[0], "frame0") if unit == RELATIVE else (stamps, "unix")


def _rate(stamps: NDArray[np.int64], scan: VideoScan, config: MeckaConfig, notes: Notes) -> Fraction:
    video, table = standard_rate(scan.fps), measured_rate(stamps)
    if table is not None and abs(table - video) > video * RATE_DIFFERS:
        fps = standard_rate(table)
        notes.add(
            "fps-differs",
            f"frames.csv gives {float(table):.3f} fps, the video's pts {float(video):.3f}; frames.csv counts",
            stream="fps",
            expected=str(fps),
            got=str(video),
        )
        return fps
    pts = scan.pts_ns[: len(stamps)]
    drift = np.abs((stamps - stamps[0]) - (pts - pts[0]))
    if len(drift) and drift.max() > config.clock_drift_s * 1e9:
        at = int(drift.argmax())
        notes.add(
            "clock-drift",
            f"frames.csv and the video's pts are {drift[at] / 1e6:.0f} ms apart at frame {at}, allowed {config.clock_drift_s * 1e3:.0f} ms",
            stream="frames.csv",
            frames=(at, at + 1),
        )
    return video
