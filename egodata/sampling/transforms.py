"""Poses to channels and back: coordinate frames, interpolation, packing. Each forward function has its inverse beside it.

Rows of poses are (..., 7), ``x y z qw qx qy qz``, metres, float64 inside; NaN where invalid, and NaN stays NaN.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.errors import RecipeError
from egodata.geometry.pose import compose, pose_from_matrix
from egodata.geometry.rotation import Array, matrix_from_quat, matrix_from_rot6d, rot6d_from_matrix, slerp
from egodata.sampling.recipe import HUMAN_ACTION_WIDTH, HUMAN_PROPRIO_WIDTH, Recipe


def interpolate_rows(before: NDArray[np.floating], after: NDArray[np.floating], *, share: NDArray[np.floating]) -> Array:
    """Interpolate rows (..., D) linearly; share (...) from 0 (`before`) to 1 (`after`)."""
    before = np.asarray(before, np.float64)
    return before + share[..., None] * (np.asarray(after, np.float64) - before)


@dataclass(frozen=True, slots=True)
class Poses:
    """Poses taken apart, in some coordinate frame A; NaN where invalid.

    Attributes:
        positions: (..., 3) metres.
        rotations: (..., 3, 3).
    """

    positions: Array
    rotations: Array

    def __getitem__(self, at: Any) -> "Poses":
        """Index the leading axes."""
        return Poses(self.positions[at], self.rotations[at])


def poses_from_rows(rows: NDArray[np.floating]) -> Poses:
    """Take rows (..., 7) apart."""
    values: Array = np.asarray(rows, np.float64)
    return Poses(values[..., :3], matrix_from_quat(values[..., 3:]))


def rows_from_poses(poses: Poses) -> Array:
    """Undo `poses_from_rows`, with qw >= 0."""
    return pose_from_matrix(compose(poses.rotations, poses.positions))


def into_frame(poses: Poses, frame: Poses) -> Poses:
    """Express poses, given in A, in the coordinate frame B of another pose A_T_B. Leading axes are broadcast."""
    inverse = np.swapaxes(frame.rotations, -1, -2)
    return Poses((inverse @ (poses.positions - frame.positions)[..., None])[..., 0], inverse @ poses.rotations)


def from_frame(poses: Poses, frame: Poses) -> Poses:
    """Undo `into_frame`: express poses, given in B, in A, by the pose A_T_B."""
    return Poses((frame.rotations @ poses.positions[..., None])[..., 0] + frame.positions, frame.rotations @ poses.rotations)


def interpolate_poses(before: Array, after: Array, *, share: NDArray[np.floating]) -> Poses:
    """Interpolate rows (..., 7): translation linearly, rotation by slerp on the shorter arc."""
    positions = interpolate_rows(before[..., :3], after[..., :3], share=share)
    return Poses(positions, matrix_from_quat(slerp(before[..., 3:], after[..., 3:], share)))


def pack_human(poses: Poses, *, grip: bool) -> Array:
    """Pack poses per arm into channels: xyz, 6D rotation, and a zero grip where asked; arms in order.

    Args:
        poses: (..., A).
        grip: Whether each arm ends in a grip channel, always 0 for hands.

    Returns:
        (..., 9 A), or (..., 10 A) with grips.
    """
    parts = [poses.positions, rot6d_from_matrix(poses.rotations)]
    if grip:
        parts.append(np.zeros((*poses.positions.shape[:-1], 1)))
    packed = np.concatenate(parts, axis=-1)
    return packed.reshape(*packed.shape[:-2], packed.shape[-2] * packed.shape[-1])


def unpack_human(values: NDArray[np.floating], *, grip: bool) -> Poses:
    """Undo `pack_human`; the 6D rotation is made orthonormal by Gram-Schmidt.

    Raises:
        RecipeError: The last axis is not a whole number of arms.
    """
    width = HUMAN_PROPRIO_WIDTH if grip else HUMAN_ACTION_WIDTH
    if values.shape[-1] % width:
        raise RecipeError(f"human channels: expected a multiple of {width}, got {values.shape[-1]}")
    arms = np.asarray(values, np.float64).reshape(*values.shape[:-1], -1, width)
    return Poses(arms[..., :3], matrix_from_rot6d(arms[..., 3:9]))


def actions_to_poses(actions: NDArray[np.floating], recipe: Recipe, *, reference: NDArray[np.floating]) -> Poses:
    """Turn human actions back into poses in one common coordinate frame, for metrics and overlays.

    Args:
        actions: (..., S, 18), not normalised.
        recipe: Says which coordinate frame they are in.
        reference: (..., A, 7), the wrist poses at the start (`Sample.reference`); read for wrist-frame actions only.

    Returns:
        (..., S, A) poses, in the coordinate frame of `reference` for wrist-frame actions, else in the recipe's own.

    Raises:
        RecipeError: The recipe's actions are joints.
    """
    if recipe.action.layout == "joints":
        raise RecipeError(f"recipe {recipe.name}: joints have no poses. Compare joint actions as they are.")
    poses = unpack_human(actions, grip=False)
    if recipe.action.coordinate_frame != "wrist":
        return poses
    return from_frame(poses, poses_from_rows(reference[..., None, :, :]))
