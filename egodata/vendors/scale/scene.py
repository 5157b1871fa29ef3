"""The scene: a binary JSON container with a camera's poses, frame times and intrinsics."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.vendors.base import Notes
from egodata.vendors.extras import require

SENSOR = "left_rectified"
NS_PER_US = 1000
MAX_US = (2**63 - 1) // NS_PER_US


@dataclass(frozen=True, slots=True)
class Sensor:
    """A camera of the scene.

    Attributes:
        id: Such as ``left_rectified``.
        stamps_ns: (N,) int64 times of its poses.
        poses: (N, 7) x y z qx qy qz qw, quaternion w last, `world_T_camera`, OpenCV axes.
        frames_ns: (M,) int64 times of its video frames, or None where the scene has none of their own.
        intrinsics: fx fy cx cy width height, and distortion, as they are; empty where there are none.
    """

    id: str
    stamps_ns: NDArray[np.int64]
    poses: NDArray[np.float64]
    frames_ns: NDArray[np.int64] | None
    intrinsics: Mapping[str, Any]


def read_sensor(path: Path, wanted: str, *, notes: Notes) -> Sensor:
    """Read the camera of a scene whose video was delivered.

    Args:
        path: The scene.
        wanted: Name of that camera; where the scene lacks it, `SENSOR` gives the poses and the intrinsics are unknown.
        notes: Told of that.

    Raises:
        SetAside: The scene cannot be read, or has neither camera, or no usable poses.
    """
    sensors = _sensors(path, notes)
    found = sensors.get(wanted)
    if found is None:
        found = sensors.get(SENSOR)
        if found is None:
            known = ", ".join(sorted(sensors)) or "none"
            notes.refuse("sensor-missing", f"{path.name}: no sensor {wanted}, it has {known}. Ask for the scene again.", stream=path.name)
        notes.add(
            "sensor-differs",
            f"{path.name}: the video is {wanted}, the scene has only {SENSOR}: poses are those of {SENSOR}, intrinsics are unknown",
            stream=path.name,
        )
        found = {**found, "intrinsics": {}}
    poses = found.get("poses")
    if not isinstance(poses, dict):
        notes.refuse("scene-unusable", f"{path.name}: sensor {wanted} has no poses. Ask for the scene again.", stream=path.name)
    where = f"{path.name} {wanted} poses"
    stamps, values = timed(poses.get("timestamps"), poses.get("values"), width=7, where=where, notes=notes)
    intrinsics = found.get("intrinsics")
    return Sensor(wanted, stamps, values, _frame_times(found, where, notes), intrinsics if isinstance(intrinsics, dict) else {})


def _sensors(path: Path, notes: Notes) -> dict[str, dict[str, Any]]:
    library = require("scale_json_binary", extra="scale", vendor="scale")
    try:
        scene = library.read_file(str(path))
    except Exception as error:  # noqa: BLE001  the library raises Exception itself, and whatever damaged bytes lead to
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        notes.refuse(
            "scene-unreadable",
            f"{path.name}: {path.stat().st_size} bytes, no readable scene ({reason}). Ask for it again.",
            stream=path.name,
        )
    sensors = scene.get("sensors") if isinstance(scene, dict) else None
    if not isinstance(sensors, list):
        notes.refuse("scene-unusable", f"{path.name}: no list of sensors. Ask for the scene again.", stream=path.name)
    notes.counts["dropped_sensors"] = sorted(
        str(item.get("id"))[:40] for item in sensors if isinstance(item, dict) and item.get("id") != SENSOR
    )
    return {str(item["id"]): item for item in sensors if isinstance(item, dict) and isinstance(item.get("id"), str)}


def _frame_times(sensor: Mapping[str, Any], where: str, notes: Notes) -> NDArray[np.int64] | None:
    video = sensor.get("video")
    given = video.get("timestamps") if isinstance(video, dict) else None
    if given is None or not len(given):
        return None
    times = to_ns(given, where=where.replace(" poses", " video"), notes=notes)
    if (np.diff(times) <= 0).any():
        at = int(np.flatnonzero(np.diff(times) <= 0)[0]) + 1
        notes.refuse(
            "time-reset", f"{where}: the video's time does not increase at frame {at}. A reset is not sorted away.", frames=(at, at + 1)
        )
    return times


def timed(stamps: Any, values: Any, *, width: int, where: str, notes: Notes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read a stream of rows with their times.

    Args:
        stamps: Microseconds.
        values: One row of `width` numbers per stamp.
        width: Numbers per row.
        where: Name of the stream.
        notes: Where a refusal goes.

    Raises:
        SetAside: Not numbers, another width, or not one row per stamp.
    """
    try:
        rows = np.asarray(values, np.float64).reshape(-1, width) if len(values) else np.zeros((0, width))
        count = len(stamps)
    except (TypeError, ValueError):
        notes.refuse("stream-unusable", f"{where}: expected rows of {width} numbers. Ask for the file again.", stream=where)
    if count != len(rows):
        notes.refuse("stream-unusable", f"{where}: {count} times for {len(rows)} rows. Ask for the file again.", stream=where)
    return to_ns(stamps, where=where, notes=notes), rows


def to_ns(stamps: Any, *, where: str, notes: Notes) -> NDArray[np.int64]:
    """Turn microseconds into integer nanoseconds; a fraction is rounded to whole microseconds.

    Raises:
        SetAside: Not numbers, or beyond 64-bit nanoseconds, as where the unit is another one.
    """
    try:
        given = np.asarray(stamps)
        whole = given if given.dtype.kind in "iu" else np.rint(given.astype(np.float64))
    except (TypeError, ValueError):
        notes.refuse("stream-unusable", f"{where}: times that are no numbers. Ask for the file again.", stream=where)
    if whole.ndim != 1 or not np.isfinite(whole).all() or (np.abs(whole) > MAX_US).any():
        notes.refuse("time-unit", f"{where}: times are not microseconds within 64-bit nanoseconds. Ask for the file again.", stream=where)
    return whole.astype(np.int64) * NS_PER_US
