"""Poses: 7 numbers ``x y z qw qx qy qz`` on disk, 4x4 matrices ``A_T_B`` in the arithmetic.

``A_T_B`` maps coordinates of B into A: ``p_A = A_T_B @ p_B``.
"""

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import Array, matrix_from_quat, quat_from_matrix


def matrix_from_pose(pose: NDArray[np.floating]) -> Array:
    """Turn poses (..., 7), metres and quaternion w first, into matrices (..., 4, 4); invalid rows give NaN."""
    pose = np.asarray(pose, np.float64)
    return compose(matrix_from_quat(pose[..., 3:]), pose[..., :3])


def pose_from_matrix(matrix: NDArray[np.floating]) -> Array:
    """Turn matrices (..., 4, 4) into poses (..., 7), w first and w >= 0."""
    m = np.asarray(matrix, np.float64)
    return np.concatenate([m[..., :3, 3], quat_from_matrix(m[..., :3, :3])], axis=-1)


def compose(rotation: NDArray[np.floating], translation_m: NDArray[np.floating]) -> Array:
    """Join rotations (..., 3, 3) and translations (..., 3) into matrices (..., 4, 4)."""
    rotation = np.asarray(rotation, np.float64)
    out = np.zeros((*rotation.shape[:-2], 4, 4))
    out[..., :3, :3] = rotation
    out[..., :3, 3] = translation_m
    out[..., 3, 3] = 1.0
    return out


def invert(matrix: NDArray[np.floating]) -> Array:
    """Invert rigid transforms (..., 4, 4): ``A_T_B`` to ``B_T_A``."""
    m = np.asarray(matrix, np.float64)
    rotation = np.swapaxes(m[..., :3, :3], -1, -2)
    return compose(rotation, -(rotation @ m[..., :3, 3:])[..., 0])


def transform_points(a_T_b: NDArray[np.floating], points_b: NDArray[np.floating]) -> Array:
    """Map points (..., N, 3) from B into A by matrices (..., 4, 4)."""
    m = np.asarray(a_T_b, np.float64)
    return np.asarray(points_b, np.float64) @ np.swapaxes(m[..., :3, :3], -1, -2) + m[..., None, :3, 3]
