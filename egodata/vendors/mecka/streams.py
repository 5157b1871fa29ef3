"""Head pose and hand keypoints: egomotion.txt and hands.csv, as they are, with masks."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egodata.findings import Severity
from egodata.geometry.pose import compose
from egodata.geometry.rotation import angle_rad, matrix_from_quat, matrix_from_zyx
from egodata.schema.features import SIDES
from egodata.vendors.base import Notes
from egodata.vendors.mecka.config import MeckaConfig
from egodata.vendors.tables import TableError, integers, numbers, read_table, read_text

COLUMNS, POINTS = 11, 21
MISSING_M = 1e9
"""What vendors write for a position that they do not have."""
ANGLE_WARNING_RAD, ANGLE_SAME_RAD = np.deg2rad(2.0), np.deg2rad(0.5)
OPENCV_FROM_VENDOR = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""A of docs/vendors/mecka.md: vendor camera axes (X forward, Y left, Z up) to OpenCV (X right, Y down, Z forward)."""


def read_cameras(path: Path, total: int, *, listed: int, config: MeckaConfig, notes: Notes) -> NDArray[np.float64]:
    """Read egomotion.txt.

    Args:
        path: The file; 11 columns of decimal text.
        total: Frames of the episode.
        listed: Frames that the delivery has, before a tail was cut.
        config: Tolerance of quaternion norms.
        notes: Told of rows that are dropped, masked or odd.

    Returns:
        ``world_T_cam`` (total, 4, 4), vendor camera axes, metres; NaN where there is no usable row.

    Raises:
        SetAside: The file is unusable, frames come twice with different values or lie past the end, or quaternions are w first.
    """
    try:
        rows = _egomotion_rows(path, notes)
    except TableError as error:
        notes.refuse(error.code, str(error), stream=path.name)
    frames = rows[:, 0].astype(np.int64)
    rows, frames = _drop_duplicates(rows, frames[:, None], path, notes)
    _check_order(frames[:, 0], path, notes)
    inside = _inside(frames[:, 0], path, notes, total=total, listed=listed, tail=config.trim_tail_frames)
    rows, frames = rows[inside], frames[inside]
    quat_wxyz = rows[:, [10, 7, 8, 9]]
    _check_quat_order(rows, quat_wxyz, path, notes)
    with np.errstate(over="ignore"):
        norm = np.linalg.norm(quat_wxyz, axis=1)
    usable = (np.abs(rows[:, 1:4]) < MISSING_M).all(axis=1) & (np.abs(norm - 1) <= config.quat_norm_tolerance)
    if not usable.all():
        at = frames[~usable, 0]
        notes.add(
            "head-pose-invalid",
            f"{path.name}: {len(at)} rows have no usable position or a quaternion whose norm is off by more than "
            f"{config.quat_norm_tolerance:g}, first frame {at[0]}; masked",
            stream="obs_head_pose",
            frames=(int(at.min()), int(at.max()) + 1),
        )
    out = np.full((total, 4, 4), np.nan)
    out[frames[usable, 0]] = compose(matrix_from_quat(quat_wxyz[usable]), rows[usable, 1:4])
    return out


def _egomotion_rows(path: Path, notes: Notes) -> NDArray[np.float64]:
    lines = [line.replace(",", " ").split() for line in read_text(path).splitlines() if line.strip() and not line.lstrip().startswith("#")]
    complete = [words for words in lines if len(words) == COLUMNS]
    if len(lines) - len(complete) > len(complete):
        raise TableError(
            f"{path.name}: {len(lines) - len(complete)} of {len(lines)} lines do not have {COLUMNS} columns. Ask for the file again."
        )
    if len(complete) < len(lines):
        notes.add(
            "rows-incomplete", f"{path.name}: {len(lines) - len(complete)} lines do not have {COLUMNS} columns; left out", stream=path.name
        )
    cells = tuple(word for words in complete for word in words)
    rows = numbers(cells, where=path.name).reshape(-1, COLUMNS)
    integers(tuple(words[0] for words in complete), where=f"{path.name} frame")
    return rows


def _drop_duplicates(
    rows: NDArray[np.float64], keys: NDArray[np.int64], path: Path, notes: Notes
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Drop exact repeats, counted; the same key with other values sets the recording aside."""
    if not len(rows):
        return rows, keys
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    base = rows[first[inverse.reshape(-1)]]
    different = ~((rows == base) | (np.isnan(rows) & np.isnan(base))).all(axis=1)
    if different.any():
        at = int(np.flatnonzero(different)[0])
        notes.refuse(
            "rows-conflict",
            f"{path.name}: {int(different.sum())} rows give a second value for what another row gives, first at row {at + 1} "
            f"(frame {keys[at, 0]}). A second take is not mixed in; ask for one take per file.",
            stream=path.name,
            frames=(int(keys[at, 0]), int(keys[at, 0]) + 1) if keys[at, 0] >= 0 else None,
        )
    if len(first) < len(rows):
        notes.counts[f"{path.stem}_duplicates"] = len(rows) - len(first)
        notes.add("duplicates-dropped", f"{path.name}: {len(rows) - len(first)} rows repeat another one exactly; dropped", stream=path.name)
    kept = np.sort(first)
    return rows[kept], keys[kept]


def _check_order(frames: NDArray[np.int64], path: Path, notes: Notes) -> None:
    if (np.diff(frames) < 0).any():
        notes.add("rows-shuffled", f"{path.name}: rows are not in the order of their frame; the frame number counts", stream=path.name)


def _inside(frames: NDArray[np.int64], path: Path, notes: Notes, *, total: int, listed: int, tail: int) -> NDArray[np.bool_]:
    """Return which rows are of the episode; a few past its end are dropped and counted, more, or a count from 1, refused."""
    past = frames >= total
    counted_from_1 = (frames >= listed).any() and not (frames == 0).any()
    if counted_from_1 or (frames < 0).any() or (frames >= listed + tail).any():
        worst = int(frames.min() if frames.min() < 0 else frames.max())
        notes.refuse(
            "frames-outside",
            f"{path.name}: names frame {worst}{' and no frame 0' if counted_from_1 else ''}, the episode has 0 to {total - 1}. "
            "Its frames are not those of the video.",
            stream=path.name,
            expected=f"0 to {total - 1}",
            got=str(worst),
        )
    if past.any():
        notes.add("tail-trimmed", f"{path.name}: {int(past.sum())} rows past the last frame, {total - 1}, left out", stream=path.name)
    return ~past


def _check_quat_order(rows: NDArray[np.float64], quat_wxyz: NDArray[np.float64], path: Path, notes: Notes) -> None:
    angles = rows[:, 4:7]
    if not len(rows) or not np.isfinite(angles).any() or not np.nan_to_num(angles).any():
        return
    wanted = matrix_from_zyx(angles[:, 0], angles[:, 1], angles[:, 2])
    declared, swapped = (_median_angle(wanted, matrix_from_quat(quat)) for quat in (quat_wxyz, rows[:, 7:11]))
    if declared > ANGLE_WARNING_RAD and swapped <= ANGLE_SAME_RAD:
        notes.refuse(
            "quaternion-order",
            f"{path.name}: the last four columns agree with yaw, pitch and roll as qw qx qy qz, expected qx qy qz qw. "
            "Ask for the documented order.",
            stream=path.name,
            expected="qx qy qz qw",
            got="qw qx qy qz",
        )
    if declared > ANGLE_WARNING_RAD:
        notes.add(
            "angles-differ",
            f"{path.name}: quaternions and yaw, pitch, roll are {np.rad2deg(declared):.1f} degrees apart (median); the quaternions count",
            stream=path.name,
        )


def _median_angle(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    angles = angle_rad(first, second)
    return float(np.nanmedian(angles)) if np.isfinite(angles).any() else np.inf


def read_hands(path: Path, total: int, *, listed: int, config: MeckaConfig, notes: Notes) -> dict[str, NDArray[np.float64]]:
    """Read hands.csv, whose `world_*` columns are camera-frame metres in vendor axes.

    Returns:
        By side: (total, 21, 3), vendor camera axes; NaN where a point is missing. A hand with fewer than 21 rows in a frame is missing.

    Raises:
        SetAside: The file is unusable, a point comes twice with different values, or frames lie past the end.
    """
    try:
        table = read_table(path)
        names = ("frame", "hand_index", "landmark_index")
        keys = np.stack([integers(table.require(name), where=f"{path.name} {name}") for name in names], axis=1)
        points = np.stack([numbers(table.require(f"world_{axis}"), where=f"{path.name} world_{axis}") for axis in "xyz"], axis=1)
    except TableError as error:
        notes.refuse(error.code, str(error), stream=path.name)
    if table.ragged:
        notes.add(
            "rows-incomplete",
            f"{path.name}: {table.ragged} rows do not have the header's {len(table.header)} cells; left out",
            stream=path.name,
        )
    points, keys = _drop_duplicates(points, keys, path, notes)
    _check_order(keys[:, 0], path, notes)
    known = np.isin(keys[:, 1], (0, 1)) & (keys[:, 2] >= 0) & (keys[:, 2] < POINTS)
    if not known.all():
        at = int(np.flatnonzero(~known)[0])
        notes.refuse(
            "hand-index",
            f"{path.name}: row {at + 1} has hand {keys[at, 1]} landmark {keys[at, 2]}, expected hand 0 or 1, landmark 0 to 20.",
            stream=path.name,
        )
    inside = _inside(keys[:, 0], path, notes, total=total, listed=listed, tail=config.trim_tail_frames)
    keys, points = keys[inside], points[inside]
    count = np.zeros((2, total), np.int64)
    np.add.at(count, (keys[:, 1], keys[:, 0]), 1)
    hands = np.full((2, total, POINTS, 3), np.nan)
    hands[keys[:, 1], keys[:, 0], keys[:, 2]] = points
    hands[count < POINTS] = np.nan
    partial = int(((count > 0) & (count < POINTS)).sum())
    if partial:
        notes.add(
            "hand-incomplete",
            f"{path.name}: {partial} times a hand has fewer than {POINTS} rows in a frame; that hand is missing there",
            stream=path.name,
        )
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.linalg.norm(hands, axis=-1, keepdims=True)
        hands = np.where((distance > 0) & (distance <= config.max_keypoint_m), hands, np.nan)
    return dict(zip(SIDES, hands, strict=True))


def check_head(positions_m: NDArray[np.float64], matrices: NDArray[np.float64], *, config: MeckaConfig, notes: Notes) -> None:
    """Note a head pose that never moves, or that jumps from one frame to the next.

    Args:
        positions_m: (T, 3), NaN where invalid.
        matrices: (T, 4, 4), NaN where invalid.
        config: The bound and the severity.
        notes: Told of it.
    """
    severity = Severity[config.head_jump_severity.upper()]
    valid = np.flatnonzero(np.isfinite(positions_m[:, 0]))
    if len(valid) > 1 and (matrices[valid] == matrices[valid[0]]).all():
        notes.add(
            "head-pose-constant",
            f"egomotion.txt: the head pose is the same in all {len(valid)} frames",
            severity=severity,
            stream="obs_head_pose",
        )
        return
    with np.errstate(invalid="ignore"):
        steps = np.linalg.norm(np.diff(positions_m, axis=0), axis=1)
        far = np.flatnonzero(steps > config.head_jump_m)
    if len(far):
        notes.add(
            "head-pose-jump",
            f"egomotion.txt: {len(far)} single-frame steps over {config.head_jump_m:g} m, the largest {np.nanmax(steps):.2f} m, "
            f"first into frame {far[0] + 1}",
            severity=severity,
            stream="obs_head_pose",
            frames=(int(far[0]), int(far[-1]) + 2),
        )
