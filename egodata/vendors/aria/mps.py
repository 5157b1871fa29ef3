"""MPS output: hands in the device's coordinate frame, and the device's way through the world."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egodata.schema.features import SIDES
from egodata.vendors.aria.columns import header_of, read_columns
from egodata.vendors.aria.layout import HAND_FILES, WRIST_FILES
from egodata.vendors.base import Notes
from egodata.vendors.human import clean_points, poses_from_xyz_quat
from egodata.vendors.matching import increasing

STAMP = "tracking_timestamp_us"
LANDMARKS = 21
NATIVE_OF_MANO = (5, None, 6, 7, 0, 8, 9, 10, 1, 11, 12, 13, 2, 14, 15, 16, 3, 17, 18, 19, 4)
"""For each MANO point Aria's landmark; Aria has none at the base of the thumb, and its palm centre (20) has no place in MANO."""

QUAT_TOLERANCE = 0.01
_NS = 1000


@dataclass(frozen=True, slots=True)
class Track:
    """Where the device was.

    Attributes:
        source: File or stream.
        stamps_ns: (N,) increasing, the device's clock.
        poses: (N, 7) ``world_T_device``, NaN where unusable.
    """

    source: str
    stamps_ns: NDArray[np.int64]
    poses: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hands:
    """Tracked hands in the device's coordinate frame.

    Attributes:
        source: File or stream.
        stamps_ns: (N,) increasing, the device's clock.
        points: By side (N, 21, 3) metres, MANO order, NaN where missing.
    """

    source: str
    stamps_ns: NDArray[np.int64]
    points: dict[str, NDArray[np.float64]]


def to_mano(landmarks_m: NDArray[np.floating]) -> NDArray[np.float64]:
    """Put Aria's landmarks (N, 21, 3) into MANO order (N, 21, 3); the base of the thumb is NaN, for Aria has none."""
    out = np.full(landmarks_m.shape, np.nan)
    for mano, native in enumerate(NATIVE_OF_MANO):
        if native is not None:
            out[:, mano] = landmarks_m[:, native]
    return out


def hands_from_landmarks(
    landmarks_m: NDArray[np.floating], confidence: NDArray[np.floating], *, min_confidence: float
) -> NDArray[np.float64]:
    """Return keypoints (N, 21, 3) in MANO order, NaN where the confidence (N,) is not above `min_confidence` or a point is missing."""
    points = clean_points(landmarks_m)
    with np.errstate(invalid="ignore"):
        points[~(confidence > min_confidence)] = np.nan
    return to_mano(points)


def read_track(path: Path, notes: Notes) -> Track:
    """Read a closed loop trajectory.

    Raises:
        SetAside: It cannot be read, or its time goes back.
    """
    position, quat = [f"t{axis}_world_device" for axis in "xyz"], [f"q{axis}_world_device" for axis in "wxyz"]
    table = read_columns(path, STAMP, wanted=[*position, *quat], notes=notes)
    rows = np.concatenate([table.stack(position), table.stack(quat)], axis=-1)
    stamps, rows = increasing(table.stamps * _NS, rows, stream=path.name, notes=notes)
    poses, usable = poses_from_xyz_quat(rows[:, :3], rows[:, 3:], tolerance=QUAT_TOLERANCE)
    if not usable.all():
        first = int(np.flatnonzero(~usable)[0])
        notes.add(
            "pose-unusable",
            f"{path.name}: {int((~usable).sum())} of {len(usable)} rows without a unit quaternion or a finite position, first row {first}; "
            "invalid",
            stream=path.name,
        )
    return Track(path.name, stamps, poses)


def read_hands(path: Path, *, min_confidence: float, notes: Notes) -> Hands:
    """Read a table of hand tracking: all landmarks, or wrists and palms only, of which the wrist is a keypoint.

    Raises:
        SetAside: It cannot be read, or its time goes back.
    """
    whole = path.name in HAND_FILES
    names = {side: _columns(side, whole=whole) for side in SIDES}
    extra = [name for name in header_of(path, notes) if not whole and name[:2] in ("tx", "ty", "tz", "nx", "ny", "nz")]
    scores = [f"{side}_tracking_confidence" for side in SIDES]
    wanted = dict.fromkeys([*scores, *names["left"], *names["right"], *extra])
    table = read_columns(path, STAMP, wanted=list(wanted), notes=notes)
    rows = table.stack(list(wanted))
    stamps, rows = increasing(table.stamps * _NS, rows, stream=path.name, notes=notes)
    values = dict(zip(wanted, rows.T, strict=True))
    shifted = _shifted(rows, list(wanted), scores)
    if shifted.any():
        first = np.flatnonzero(shifted)[0]
        notes.add(
            "columns-shifted",
            f"{path.name}: {int(shifted.sum())} of {len(shifted)} rows do not fit the header (a confidence of -1 stands under a "
            f"coordinate), first row {first}; no hand is tracked in them",
            stream=path.name,
        )
    points = {}
    for side, score in zip(SIDES, scores, strict=True):
        confidence = np.where(shifted, -1.0, values[score])
        flat = np.stack([values[name] for name in names[side]], axis=-1).reshape(len(stamps), len(names[side]) // 3, 3)
        landmarks = flat if whole else _wrist_only(flat[:, 0])
        points[side] = hands_from_landmarks(landmarks, confidence, min_confidence=min_confidence)
    _count(path, values, scores, shifted=shifted, notes=notes)
    return Hands(path.name, stamps, points)


def _columns(side: str, *, whole: bool) -> list[str]:
    if whole:
        return [f"t{axis}_{side}_landmark_{number}_device" for number in range(LANDMARKS) for axis in "xyz"]
    return [f"t{axis}_{side}_wrist_device" for axis in "xyz"]


def _wrist_only(wrist_m: NDArray[np.float64]) -> NDArray[np.float64]:
    landmarks = np.full((len(wrist_m), LANDMARKS, 3), np.nan)
    landmarks[:, NATIVE_OF_MANO[0] or 0] = wrist_m
    return landmarks


def _shifted(rows: NDArray[np.float64], names: list[str], scores: list[str]) -> NDArray[np.bool_]:
    """Find rows with a lone -1 under a coordinate where all else is 0: both hands missing, written for another header."""
    others = [at for at, name in enumerate(names) if name not in scores]
    score = rows[:, [names.index(name) for name in scores]]
    found: NDArray[np.bool_] = (score <= 0).all(1) & ((rows[:, others] == -1).sum(1) == 1) & ((rows[:, others] != 0).sum(1) == 1)
    return found


def _count(path: Path, values: dict[str, NDArray[np.float64]], scores: list[str], *, shifted: NDArray[np.bool_], notes: Notes) -> None:
    missing = {side: int((shifted | ~(values[score] > 0)).sum()) for side, score in zip(SIDES, scores, strict=True)}
    notes.counts.setdefault("hand_rows", {})[path.name] = {"rows": len(shifted), "missing": missing, "shifted": int(shifted.sum())}


__all__ = ["HAND_FILES", "WRIST_FILES", "Hands", "Track", "hands_from_landmarks", "read_hands", "read_track", "to_mano"]
