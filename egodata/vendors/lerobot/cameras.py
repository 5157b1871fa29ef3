"""A LeRobot episode's cameras: which frames of which file are its own, and what the dataset says wrongly about them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.vendors.base import Notes, RecordingRef
from egodata.vendors.frames import nearest_rows
from egodata.vendors.lerobot.config import LeRobotConfig
from egodata.vendors.matching import report_program
from egodata.video import VideoScan, scan_video

_CODECS = {"h265": "hevc", "libdav1d": "av1", "libsvtav1": "av1", "libx264": "h264", "libx265": "hevc", "avc": "h264", "avc1": "h264"}
_SCANS = 8


@dataclass(frozen=True, slots=True)
class Footage:
    """One camera's frames of one episode.

    Attributes:
        name: Camera name.
        path: The file, which other episodes may share.
        scan: As if the episode were alone in its file: times count from its own first frame.
        first: Its first displayed frame in the file.
    """

    name: str
    path: Path
    scan: VideoScan
    first: int


@dataclass(frozen=True, slots=True)
class Matched:
    """Footage with a frame for every row.

    Attributes:
        rows: (T,) displayed frames of the file.
        distance_ns: (T,) how far in time each is from its row.
    """

    footage: Footage
    rows: NDArray[np.int64]
    distance_ns: NDArray[np.int64]


def scan_cameras(ref: RecordingRef, config: LeRobotConfig, *, notes: Notes) -> dict[str, Footage]:
    """Scan the videos of an episode, by camera name.

    Raises:
        SetAside: A video is not there, two features have one name, there is none, or a file has no frame in the episode's range.
        VideoError: A video cannot be read.
    """
    found: dict[str, Footage] = {}
    for feature, relative in sorted(ref.details["videos"].items()):
        path = ref.root / relative
        if not path.is_file():
            notes.refuse("file-missing", f"{relative}: not delivered. Ask for the file.", stream=path.name)
        name = config.cameras.get(feature) or "".join(c if c.isalnum() else "_" for c in feature.rpartition(".")[2].lower())
        if name in found:
            notes.refuse(
                "camera-twice", f"{feature}: would be camera {name} again. Map it to another name in the vendor config.", stream=feature
            )
        scan = _scan(path)
        report_program(scan, name=path.name, notes=notes)
        _check_declared(feature, scan, ref.details["declared"].get(feature, {}), notes)
        span = ref.details["spans_s"].get(feature)
        found[name] = Footage(name, path, scan, 0) if span is None else _part(name, path, scan, span=span, notes=notes)
    if not found:
        notes.refuse("no-camera", "meta/info.json names no feature of dtype video, an episode needs one camera.")
    return found


def _scan(path: Path) -> VideoScan:
    """Scan a file once for all the episodes that it holds."""
    stat = path.stat()
    return _scan_version(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=_SCANS)
def _scan_version(path: Path, size_bytes: int, mtime_ns: int) -> VideoScan:
    return scan_video(path)


def _part(name: str, path: Path, scan: VideoScan, *, span: tuple[float, float], notes: Notes) -> Footage:
    """Cut an episode's range out of a shared file: the frames from half a step before `from` to half a step before `to`."""
    half = Fraction(10**9) / scan.fps / 2
    start_ns, end_ns = (round(Fraction(str(edge)) * 10**9) for edge in span)
    first, last = (int(np.searchsorted(scan.pts_ns, int(edge - half))) for edge in (start_ns, end_ns))
    listed = round((end_ns - start_ns) * scan.fps / 10**9)
    if first >= last:
        notes.refuse(
            "range-empty",
            f"{path.name}: no frame in {span[0]:g} to {span[1]:g} s, the file has {scan.frames} frames in {scan.pts_ns[-1] / 1e9:g} s. "
            "Ask for the video again.",
            stream=path.name,
            expected=str(listed),
            got="0",
        )
    if last - first < listed:
        notes.add(
            "video-short",
            f"{path.name}: {last - first} frames in {span[0]:g} to {span[1]:g} s, the metadata implies {listed}",
            stream=path.name,
            expected=str(listed),
            got=str(last - first),
        )
    own = replace(scan, frames=last - first, pts_ns=scan.pts_ns[first:last] - start_ns)
    return Footage(name, path, own, first)


def match(footage: Footage, stamps: NDArray[np.int64]) -> Matched:
    """Take for every row the frame nearest in time; of a file that is one episode, time counts from its first frame."""
    rows, distance = nearest_rows(stamps, footage.scan.pts_ns)
    return Matched(footage, rows + footage.first, distance)


def check_match(camera: Matched, fps: Fraction, *, config: LeRobotConfig, notes: Notes) -> None:
    """Refuse an episode whose rows have no frame near enough in the reference camera.

    Raises:
        SetAside: At least one row.
    """
    limit_ns = float(config.match_tolerance * 1e9 / fps)
    far = np.flatnonzero(camera.distance_ns > limit_ns)
    if len(far):
        name = camera.footage.path.name
        notes.refuse(
            "frame-match",
            f"{name}: {len(far)} of {len(camera.rows)} rows have no frame within {limit_ns / 1e6:.1f} ms, first row {far[0]}. "
            "Ask for the video again.",
            stream=name,
            frames=(int(far[0]), int(far[-1]) + 1),
        )


def _check_declared(feature: str, scan: VideoScan, declared: Mapping[str, Any], notes: Notes) -> None:
    """Note what info.json says of a video that the file does not bear out; the file counts."""
    height, width = _declared_size(declared)
    codec = str(declared.get("video.codec") or scan.codec).lower()
    told = {
        "codec": (_CODECS.get(codec, codec), scan.codec),
        "pixel format": (str(declared.get("video.pix_fmt") or scan.pix_fmt), scan.pix_fmt),
        "size": (f"{width or scan.width}x{height or scan.height}", f"{scan.width}x{scan.height}"),
        "audio": (bool(declared.get("has_audio", scan.has_audio)), scan.has_audio),
    }
    wrong = {what: pair for what, pair in told.items() if pair[0] != pair[1]}
    if wrong:
        text = ", ".join(f"{what} {said} where the file has {true}" for what, (said, true) in wrong.items())
        notes.add(
            "video-declared",
            f"{feature}: meta/info.json says {text}; the file counts",
            stream=feature,
            expected=", ".join(str(said) for said, _ in wrong.values()),
            got=", ".join(str(true) for _, true in wrong.values()),
        )


def _declared_size(declared: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return (height, width) by `info`, else by the shape and its names, where they can be told."""
    height, width = declared.get("video.height"), declared.get("video.width")
    shape = declared.get("shape")
    if (height is None or width is None) and isinstance(shape, list) and len(shape) == 3:
        names = [str(name) for name in declared.get("names") or []]
        if {"height", "width"} <= set(names):
            height, width = shape[names.index("height")], shape[names.index("width")]
        elif shape[2] in (1, 3, 4):
            height, width = shape[0], shape[1]
        elif shape[0] in (1, 3, 4):
            height, width = shape[1], shape[2]
    return (height if isinstance(height, int) else None), (width if isinstance(width, int) else None)
