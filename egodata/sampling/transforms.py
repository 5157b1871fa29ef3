"""Poses to channels and back: coordinate frames, interpolation, packing. Each forward function has its inverse beside it.

Poses are (..., 7), ``x y z qw qx qy qz``, metres, float64 inside; NaN where invalid, and NaN stays NaN.
"""

import numpy as np
from numpy.typing import NDArray

from egodata.errors import RecipeError
from egodata.geometry.pose import compose, pose_from_matrix
from egodata.geometry.rotation import Array, matrix_from_quat, matrix_from_rot6d, rot6d_from_matrix, slerp
from egodata.sampling.recipe import HUMAN_ACTION_WIDTH, HUMAN_PROPRIO_WIDTH, Recipe


def interpolate_rows(before: NDArray[np.floating], after: NDArray[np.floating], share: NDArray[np.floating]) -> Array:
    """Interpolate rows (..., D) linearly; share (...) from 0 (`before`) to 1 (`after`)."""
    before = np.asarray(before, np.float64)
    return before + share[..., None] * (np.asarray(after, np.float64) - before)


def interpolate_poses(before: Array, after: Array, share: NDArray[np.floating]) -> tuple[Array, Array]:
    """Interpolate poses (..., 7): translation linearly, rotation by slerp on the shorter arc.

    Returns:
        Positions (..., 3) and rotation matrices (..., 3, 3).
    """
    positions = interpolate_rows(before[..., :3], after[..., :3], share)
    return positions, matrix_from_quat(slerp(before[..., 3:], after[..., 3:], share))


def into_frame(positions: Array, rotations: Array, *, frame: Array) -> tuple[Array, Array]:
    """Express poses, given in A, in the coordinate frame of another pose that is also given in A.

    Args:
        positions: (..., 3) in A.
        rotations: (..., 3, 3) in A.
        frame: Pose A_T_B, broadcast against (..., 7).

    Returns:
        Positions and rotations in B.
    """
    inverse = np.swapaxes(matrix_from_quat(frame[..., 3:]), -1, -2)
    return (inverse @ (positions - frame[..., :3])[..., None])[..., 0], inverse @ rotations


def from_frame(positions: Array, rotations: Array, *, frame: Array) -> tuple[Array, Array]:
    """Undo `into_frame`: express poses, given in B, in A, by the pose A_T_B."""
    rotation = matrix_from_quat(frame[..., 3:])
    return (rotation @ positions[..., None])[..., 0] + frame[..., :3], rotation @ rotations


def pack_human(positions: Array, rotations: Array, *, grip: bool) -> Array:
    """Pack poses per arm into channels: xyz, 6D rotation, and a zero grip where asked; arms in order.

    Args:
        positions: (..., A, 3), metres.
        rotations: (..., A, 3, 3).
        grip: Whether each arm ends in a grip channel, always 0 for hands.

    Returns:
        (..., 9 A), or (..., 10 A) with grips.
    """
    parts = [positions, rot6d_from_matrix(rotations)]
    if grip:
        parts.append(np.zeros((*positions.shape[:-1], 1)))
    packed = np.concatenate(parts, axis=-1)
    return packed.reshape(*packed.shape[:-2], -1)


def unpack_human(values: NDArray[np.floating], *, grip: bool) -> tuple[Array, Array]:
    """Undo `pack_human`; the 6D rotation is made orthonormal by Gram-Schmidt.

    Raises:
        RecipeError: The last axis is not a whole number of arms.
    """
    width = HUMAN_PROPRIO_WIDTH if grip else HUMAN_ACTION_WIDTH
    if values.shape[-1] % width:
        raise RecipeError(f"human channels: expected a multiple of {width}, got {values.shape[-1]}")
    arms = np.asarray(values, np.float64).reshape(*values.shape[:-1], -1, width)
    return arms[..., :3], matrix_from_rot6d(arms[..., 3:9])


def relative_poses(poses: Array, *, frame: Array) -> Array:
    """Express poses (..., 7) in the coordinate frame of other poses, as poses."""
    positions, rotations = into_frame(poses[..., :3], matrix_from_quat(poses[..., 3:]), frame=frame)
    return pose_from_matrix(compose(rotations, positions))


def actions_to_poses(actions: NDArray[np.floating], recipe: Recipe, *, reference: NDArray[np.floating]) -> tuple[Array, Array]:
    """Turn human actions back into poses in one common coordinate frame, for metrics and overlays.

    Args:
        actions: (..., S, 18), not normalised.
        recipe: Says which coordinate frame they are in.
        reference: (..., A, 7), the wrist poses at the start (`Sample.reference`); read for wrist-frame actions only.

    Returns:
        Positions (..., S, A, 3) in metres and rotations (..., S, A, 3, 3): in the coordinate frame of `reference` for
        wrist-frame actions, else in the recipe's own.

    Raises:
        RecipeError: The recipe's actions are joints.
    """
    if recipe.action.layout == "joints":
        raise RecipeError(f"recipe {recipe.name}: joints have no poses. Compare joint actions as they are.")
    positions, rotations = unpack_human(actions, grip=False)
    if recipe.action.coordinate_frame != "wrist":
        return positions, rotations
    frame = np.asarray(reference, np.float64)[..., None, :, :]
    return from_frame(positions, rotations, frame=frame)
