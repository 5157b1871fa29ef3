"""Stored arrays of a whole episode as numbers per arm: float64, NaN where the masks say so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.hand import convert_left_hand
from egodata.geometry.rotation import Array
from egodata.sampling.layouts import KEYPOINTS, ArmLayout
from egodata.sampling.specs import ActionSpec, ProprioSpec
from egodata.sampling.transforms import Poses, points_into_frame
from egodata.sampling.windows import Bools
from egodata.schema.features import SIDES, SOURCE_FILLED, point_valid_key, source_key, valid_key

Arrays = Mapping[str, NDArray[Any]]
ANATOMICAL = "anat-v1"
_LEFT_POSES = tuple(f"{SIDES[0]}.{name}" for name in ("obs_wrist_pose", "obs_ee_pose", "cmd_ee_pose"))


@dataclass(frozen=True, slots=True)
class Limbs:
    """What an action or proprio is cut from, over the whole episode.

    Attributes:
        rows: (T, A, 7) rows of poses as stored, or (T, D) joints of all arms side by side.
        widths: Channels of each arm.
        poses: (T, A) the same poses taken apart; None for joints.
        points: (T, A, 21, 3) keypoints, as stored or each in its own wrist; None where the layout has none.
        grips: (T, A) openings; None where nothing is measured.
    """

    rows: Array
    widths: tuple[int, ...]
    poses: Poses | None = None
    points: Array | None = None
    grips: Array | None = None

    @property
    def arrays(self) -> list[Array]:
        """All arrays, to count their memory."""
        poses = [] if self.poses is None else [self.poses.positions, self.poses.rotations]
        return [array for array in (self.rows, self.points, self.grips, *poses) if array is not None]


def in_one_hand_frame(arrays: dict[str, NDArray[Any]], declared: str | None) -> dict[str, NDArray[Any]]:
    """Turn left-hand poses into anat-v1 by the convention that an episode declares; robots declare none.

    Raises:
        SchemaError: There are left-hand poses and the convention is unknown.
    """
    left = [key for key in arrays if key in _LEFT_POSES]
    if declared in (None, ANATOMICAL) or not left:
        return arrays
    return {**arrays, **{key: convert_left_hand(arrays[key], declared=declared, wanted=ANATOMICAL) for key in left}}


def as_targets(arrays: Arrays) -> Arrays:
    """Return the arrays as actions may be cut from them: rows that were filled in, and not measured, are masked.

    As input they count. Where nothing was filled the very same arrays come back.
    """
    masks: dict[str, NDArray[Any]] = {}
    for key in arrays:
        source = arrays.get(source_key(key))
        if source is None or not (filled := np.asarray(source) == SOURCE_FILLED).any():
            continue
        valid = arrays.get(valid_key(key))
        masks[valid_key(key)] = ~filled if valid is None else np.asarray(valid, bool) & ~filled
        points = arrays.get(point_valid_key(key))
        if points is not None:
            masks[point_valid_key(key)] = np.asarray(points, bool) & ~filled[:, None]
    return {**arrays, **masks} if masks else arrays


def finite(values: Array, axis: int | tuple[int, ...]) -> Bools:
    """Mark where all numbers along some axes are measured."""
    return np.asarray(np.isfinite(values).all(axis))


def measured(arrays: Arrays, key: str) -> Array:
    """Return a feature's rows (T, D), NaN where its mask says so; a pose with any NaN is NaN throughout."""
    rows = np.array(arrays[key], np.float64).reshape(len(arrays[key]), -1)
    mask = arrays.get(valid_key(key))
    if mask is not None:
        rows[~np.asarray(mask, bool)] = np.nan
    if rows.shape[1] == 7:
        rows[~np.isfinite(rows).all(1)] = np.nan
    return rows


def pose_rows(arrays: Arrays, name: str) -> Array:
    """Return the rows (T, A, 7) of a pose of both arms."""
    return np.stack([measured(arrays, f"{side}.{name}") for side in SIDES], axis=1)


def _points(arrays: Arrays, key: str) -> Array:
    """Return keypoints (T, 21, 3). Their own mask says more than that of the row: of a hand seen in part the seen points count."""
    mask = arrays.get(point_valid_key(key))
    if mask is None:
        points = measured(arrays, key).reshape(-1, KEYPOINTS, 3)
    else:
        points = np.array(arrays[key], np.float64).reshape(-1, KEYPOINTS, 3)
        points[~np.asarray(mask, bool)] = np.nan
    points[~np.isfinite(points).all(-1)] = np.nan
    return points


def _grips(arrays: Arrays, name: str) -> Array:
    return np.concatenate([measured(arrays, f"{side}.{name}") for side in SIDES], axis=1)


def joint_limbs(arrays: Arrays, spec: ActionSpec | ProprioSpec, *, layout: ArmLayout) -> Limbs:
    """Return joints of all arms side by side, each arm followed by its gripper where the layout has one."""
    if layout.body == "joints":
        rows = measured(arrays, spec.feature)
        return Limbs(rows, (rows.shape[1],))
    grips = _grips(arrays, spec.gripper)
    sides = [np.hstack([measured(arrays, f"{side}.{spec.feature}"), grips[:, at : at + 1]]) for at, side in enumerate(SIDES)]
    return Limbs(np.hstack(sides), tuple(side.shape[1] for side in sides))


def pose_limbs(arrays: Arrays, spec: ActionSpec | ProprioSpec, *, layout: ArmLayout, rows: Array, poses: Poses) -> Limbs:
    """Return poses of both arms, with keypoints and grips where the layout has them.

    Args:
        arrays: By key.
        spec: Which features.
        layout: Which parts.
        rows: (T, A, 7) of the spec's pose feature.
        poses: The same taken apart.
    """
    points, grips = None, None
    if "keypoints" in layout.parts:
        points = np.stack([_points(arrays, f"{side}.{spec.keypoints}") for side in SIDES], axis=1)
        if spec.keypoints_frame == "own_wrist":
            points = points_into_frame(points, poses)
    if layout.measured_grip:
        grips = _grips(arrays, spec.gripper)
    return Limbs(rows, (layout.width,) * len(layout.arms), poses, points, grips)
