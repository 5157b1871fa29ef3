"""From a head track and two hands of keypoints to the arrays of a human episode, the same for every vendor that gives those."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.findings import Severity
from egodata.geometry.hand import hand_poses
from egodata.geometry.pose import compose, pose_from_matrix
from egodata.geometry.rotation import matrix_from_quat
from egodata.schema.features import (
    HEAD_POSE,
    SOURCE_FILLED,
    TIMESTAMPS,
    FeatureSpec,
    keypoints_spec,
    mask_spec,
    pose_spec,
    resolve_embodiment,
    timestamps_spec,
    valid_key,
)
from egodata.vendors.base import Notes
from egodata.vendors.frames import cast_float32

CONVENTION = "anat-v1"
"""Hand frame of everything that is computed from keypoints here."""

MISSING_M = 1e8
"""A coordinate of this size or more is no place: 1e9 is how some vendors write a missing point."""

ORTHOGONALITY = 1e-3

Arrays = dict[str, NDArray[Any]]
Specs = dict[str, FeatureSpec]


def canonical_embodiment(name: str, notes: Notes) -> str:
    """Return the canonical name of an embodiment; an old alias of it is noted.

    Raises:
        SchemaError: Unknown; the message lists the nearest known names.
    """
    known, alias = resolve_embodiment(name)
    if alias:
        notes.add("embodiment-alias", f"embodiment {name} in the vendor config is an old name of {known}; {known} is stored")
    return known


def clean_points(points_m: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return keypoints (..., 3) with every missing one NaN: NaN or infinite, 1e8 m and more, or exactly at the origin."""
    points = np.array(points_m, np.float64)
    with np.errstate(invalid="ignore"):
        there = np.isfinite(points).all(-1) & (np.abs(points) < MISSING_M).all(-1) & (points != 0).any(-1)
    points[~there] = np.nan
    return points


def poses_from_xyz_quat(
    xyz_m: NDArray[np.floating], quat_wxyz: NDArray[np.floating], *, tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Join positions (N, 3) and quaternions (N, 4), w first, into poses (N, 7).

    Returns:
        Unit poses, NaN where a number is missing or a quaternion's norm is off by more than `tolerance`, and which are usable (N,).
    """
    xyz, quat = np.asarray(xyz_m, np.float64), np.asarray(quat_wxyz, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.linalg.norm(quat, axis=-1)
        usable: NDArray[np.bool_] = (np.abs(xyz) < MISSING_M).all(-1) & (np.abs(norm - 1) <= tolerance)
    out = np.full((len(xyz), 7), np.nan)
    out[usable] = pose_from_matrix(compose(matrix_from_quat(quat[usable]), xyz[usable]))
    return out, usable


def poses_from_transforms(matrices: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Turn transforms (N, 4, 4) into poses (N, 7).

    Returns:
        Poses, NaN where a number is missing or the upper left is no rotation (columns within 1e-3 of orthonormal, determinant
        positive), and which are usable (N,).
    """
    m = np.asarray(matrices, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        rotation = m[:, :3, :3]
        error = np.abs(np.swapaxes(rotation, 1, 2) @ rotation - np.eye(3)).max((1, 2))
        positive = np.linalg.det(np.nan_to_num(rotation, posinf=0.0, neginf=0.0)) > 0
        usable: NDArray[np.bool_] = (error <= ORTHOGONALITY) & positive & (np.abs(m[:, :3, 3]) < MISSING_M).all(-1)
    out = np.full((len(m), 7), np.nan)
    out[usable] = pose_from_matrix(m[usable])
    return out, usable


def add_feature(into: tuple[Arrays, Specs], feature: tuple[str, FeatureSpec], *, values: NDArray[np.floating], notes: Notes) -> None:
    """Add a float feature (T, D) and its mask; a row with NaN is invalid. The largest error of the cast goes to the notes."""
    (arrays, specs), (key, spec) = into, feature
    arrays[key], error = cast_float32(values)
    specs[key] = spec
    arrays[valid_key(key)], specs[valid_key(key)] = np.asarray(np.isfinite(arrays[key]).all(axis=1), np.bool_), mask_spec()
    errors = notes.counts.setdefault("cast_error", {})
    errors[key] = max(error, errors.get(key, 0.0))


def human_numbers(
    head: NDArray[np.float64], hands: Mapping[str, NDArray[np.float64]], *, stamps_ns: NDArray[np.int64], notes: Notes
) -> tuple[Arrays, Specs]:
    """Make every numeric array of a human episode.

    Args:
        head: Poses (T, 7) of the head camera (OpenCV axes) in the world, NaN where invalid.
        hands: By side, keypoints (T, 21, 3) in the world, metres, MANO order, NaN where missing.
        stamps_ns: (T,) int64, of the reference camera.
        notes: Told of casts.

    Returns:
        Arrays and their specs: head pose, and per side keypoints with a mask per point, wrist pose and end-effector pose in anat-v1.
    """
    arrays: Arrays = {TIMESTAMPS: stamps_ns}
    specs: Specs = {TIMESTAMPS: timestamps_spec()}
    add_feature((arrays, specs), (HEAD_POSE, pose_spec()), values=head, notes=notes)
    for side, points in hands.items():
        point_valid: NDArray[np.bool_] = np.asarray(np.isfinite(points).all(axis=-1), np.bool_)
        kept = np.where(point_valid[..., None], points, np.nan)
        wrist, effector, _ = hand_poses(kept)
        add_feature((arrays, specs), (f"{side}.obs_wrist_pose", pose_spec()), values=wrist, notes=notes)
        add_feature((arrays, specs), (f"{side}.obs_ee_pose", pose_spec()), values=effector, notes=notes)
        key = f"{side}.obs_keypoints"
        add_feature((arrays, specs), (key, keypoints_spec()), values=kept.reshape(len(kept), -1), notes=notes)
        arrays[f"{key}_point_valid"], specs[f"{key}_point_valid"] = point_valid, mask_spec(point_valid.shape[1])
    return arrays, specs


def add_filled(into: tuple[Arrays, Specs], side: str, *, filled: NDArray[np.bool_]) -> None:
    """Say of a hand's features which rows were filled: usable as input, masked as target."""
    arrays, specs = into
    source = np.where(filled, SOURCE_FILLED, 0).astype(np.uint8)
    for name in ("obs_keypoints", "obs_wrist_pose", "obs_ee_pose"):
        arrays[f"{side}.{name}_source"], specs[f"{side}.{name}_source"] = source, FeatureSpec("uint8", ())


def report_missing(head: NDArray[np.float64], hands: Mapping[str, NDArray[np.float64]], *, share: float, notes: Notes) -> None:
    """Note frames without a head pose, and hands without the five points that a pose needs.

    Args:
        head: (T, 7), NaN where invalid.
        hands: By side, (T, 21, 3), NaN where missing.
        share: Share of frames without a hand from which it is a warning; less is information.
        notes: Told of it.
    """
    lost = np.flatnonzero(~np.isfinite(head).all(axis=1))
    if len(lost):
        notes.add(
            "head-pose-missing",
            f"no usable head pose in {len(lost)} of {len(head)} frames, first {lost[0]}; the rows stay, masked",
            stream=HEAD_POSE,
            frames=(int(lost[0]), int(lost[-1]) + 1),
        )
    for side, points in hands.items():
        gone = np.flatnonzero(~hand_poses(points)[2])
        missing = len(gone) / max(1, len(points))
        notes.counts.setdefault("missing_hand_share", {})[side] = round(missing, 6)
        if len(gone):
            notes.add(
                "hand-missing",
                f"no {side} hand pose in {missing:.1%} of {len(points)} frames, first {gone[0]}; masked",
                severity=Severity.WARNING if missing >= share else Severity.INFO,
                stream=f"{side}.obs_wrist_pose",
                frames=(int(gone[0]), int(gone[-1]) + 1),
            )


def check_head_motion(head: NDArray[np.float64], *, jump_m: float, notes: Notes) -> None:
    """Note a head pose that never moves, or steps of more than `jump_m` from one frame to the next."""
    valid = head[np.isfinite(head).all(axis=1)]
    if len(valid) > 1 and (valid == valid[0]).all():
        notes.add("head-pose-constant", f"the head pose is the same in all {len(valid)} frames", stream=HEAD_POSE)
    with np.errstate(invalid="ignore"):
        steps = np.linalg.norm(np.diff(head[:, :3], axis=0), axis=1)
        far = np.flatnonzero(steps > jump_m)
    if len(far):
        notes.add(
            "head-pose-jump",
            f"{len(far)} single-frame steps over {jump_m:g} m, the largest {np.nanmax(steps):.2f} m, first into frame {far[0] + 1}",
            stream=HEAD_POSE,
            frames=(int(far[0]), int(far[-1]) + 2),
        )
