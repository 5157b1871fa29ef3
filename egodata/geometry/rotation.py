"""Rotations as matrices, quaternions (w first) and 6D, vectorised over leading axes.

6D follows Zhou et al. 2019, "On the Continuity of Rotation Representations in Neural Networks":
the first column of R, then the second.
"""

import numpy as np
from numpy.typing import NDArray

GRAM_SCHMIDT_MIN = 1e-8
GIMBAL_LOCK = 1e-9
Array = NDArray[np.float64]


def matrix_from_quat(quat_wxyz: NDArray[np.floating]) -> Array:
    """Turn quaternions (..., 4), w first, into matrices (..., 3, 3); norms other than 1 are divided out.

    A quaternion of norm 0 or with NaN gives NaN, never the identity.
    """
    q = np.asarray(quat_wxyz, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    w, x, y, z = q[..., 0], q[..., 1], q[..., 2], q[..., 3]
    out = np.empty((*q.shape[:-1], 3, 3))  # filled in place: this is on the path of every sample
    xx, yy, zz, xy, xz, yz, wx, wy, wz = x * x, y * y, z * z, x * y, x * z, y * z, w * x, w * y, w * z
    out[..., 0, 0], out[..., 0, 1], out[..., 0, 2] = 1 - 2 * (yy + zz), 2 * (xy - wz), 2 * (xz + wy)
    out[..., 1, 0], out[..., 1, 1], out[..., 1, 2] = 2 * (xy + wz), 1 - 2 * (xx + zz), 2 * (yz - wx)
    out[..., 2, 0], out[..., 2, 1], out[..., 2, 2] = 2 * (xz - wy), 2 * (yz + wx), 1 - 2 * (xx + yy)
    return out


def quat_from_matrix(matrix: NDArray[np.floating]) -> Array:
    """Turn matrices (..., 3, 3) into unit quaternions (..., 4), w first and w >= 0; NaN stays NaN.

    The largest of the four squared components is taken as pivot, so no branch loses precision
    (Shepperd 1978, "Quaternion from rotation matrix").
    """
    m = np.asarray(matrix, np.float64)
    m00, m11, m22 = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    squares = np.stack([1 + m00 + m11 + m22, 1 + m00 - m11 - m22, 1 - m00 + m11 - m22, 1 - m00 - m11 + m22], -1)
    d0, d1, d2 = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    s01, s02, s12 = m[..., 1, 0] + m[..., 0, 1], m[..., 0, 2] + m[..., 2, 0], m[..., 2, 1] + m[..., 1, 2]
    candidates = np.stack(
        [
            np.stack([squares[..., 0], d0, d1, d2], -1),
            np.stack([d0, squares[..., 1], s01, s02], -1),
            np.stack([d1, s01, squares[..., 2], s12], -1),
            np.stack([d2, s02, s12, squares[..., 3]], -1),
        ],
        -2,
    )
    pivot = np.argmax(np.nan_to_num(squares, nan=-1.0), axis=-1)
    quat = np.take_along_axis(candidates, pivot[..., None, None], axis=-2)[..., 0, :]
    quat = quat / np.linalg.norm(quat, axis=-1, keepdims=True)
    positive: Array = np.where(quat[..., :1] < 0, -quat, quat)
    return positive


def rot6d_from_matrix(matrix: NDArray[np.floating]) -> Array:
    """Take the first and the second column of (..., 3, 3) as (..., 6): c1x c1y c1z c2x c2y c2z."""
    m = np.asarray(matrix, np.float64)
    return np.concatenate([m[..., :, 0], m[..., :, 1]], axis=-1)


def matrix_from_rot6d(rot6d: NDArray[np.floating]) -> Array:
    """Make (..., 6) into rotation matrices by Gram-Schmidt; lengths are clamped at 1e-8."""
    a = np.asarray(rot6d, np.float64)
    c1 = a[..., :3]
    c1 = c1 / np.maximum(np.linalg.norm(c1, axis=-1, keepdims=True), GRAM_SCHMIDT_MIN)
    c2 = a[..., 3:] - np.sum(c1 * a[..., 3:], axis=-1, keepdims=True) * c1
    c2 = c2 / np.maximum(np.linalg.norm(c2, axis=-1, keepdims=True), GRAM_SCHMIDT_MIN)
    return np.stack([c1, c2, np.cross(c1, c2)], axis=-1)


def matrix_from_zyx(yaw_rad: NDArray[np.floating], pitch_rad: NDArray[np.floating], roll_rad: NDArray[np.floating]) -> Array:
    """Compose Rz(yaw) Ry(pitch) Rx(roll), each (...), into (..., 3, 3)."""
    cy, sy, cp, sp, cr, sr = (f(np.asarray(a, np.float64)) for a in (yaw_rad, pitch_rad, roll_rad) for f in (np.cos, np.sin))
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def zyx_from_matrix(matrix: NDArray[np.floating]) -> Array:
    """Undo `matrix_from_zyx`: (..., 3, 3) to (..., 3) yaw, pitch, roll in radians; pitch in [-pi/2, pi/2], NaN stays NaN.

    Where pitch is +-pi/2 only yaw -+ roll is known; roll is then 0.
    """
    m = np.asarray(matrix, np.float64)
    cosine = np.hypot(m[..., 0, 0], m[..., 1, 0])
    pitch = np.arctan2(-m[..., 2, 0], cosine)
    locked = cosine < GIMBAL_LOCK
    yaw = np.where(locked, np.arctan2(-m[..., 0, 1], m[..., 1, 1]), np.arctan2(m[..., 1, 0], m[..., 0, 0]))
    roll = np.where(locked & np.isfinite(pitch), 0.0, np.arctan2(m[..., 2, 1], m[..., 2, 2]))
    return np.stack([yaw, pitch, roll], -1)


def slerp(start_wxyz: NDArray[np.floating], end_wxyz: NDArray[np.floating], share: NDArray[np.floating]) -> Array:
    """Interpolate unit quaternions (..., 4) on the shorter arc.

    Args:
        start_wxyz: At share 0.
        end_wxyz: At share 1; its sign is flipped where that is shorter.
        share: (...), 0 to 1.
    """
    a, b = np.asarray(start_wxyz, np.float64), np.asarray(end_wxyz, np.float64)
    t = np.asarray(share, np.float64)[..., None]
    dot = np.sum(a * b, axis=-1, keepdims=True)
    b = np.where(dot < 0, -b, b)
    angle = np.arccos(np.clip(np.abs(dot), 0.0, 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        wa, wb = np.sin((1 - t) * angle) / np.sin(angle), np.sin(t * angle) / np.sin(angle)
    near = angle < 1e-6
    out = np.where(near, 1 - t, wa) * a + np.where(near, t, wb) * b
    unit: Array = out / np.linalg.norm(out, axis=-1, keepdims=True)
    return unit


def angle_rad(first: NDArray[np.floating], second: NDArray[np.floating]) -> Array:
    """Geodesic angle (...) between rotation matrices (..., 3, 3), by atan2, exact at 0 and near pi."""
    relative = np.swapaxes(np.asarray(first, np.float64), -1, -2) @ np.asarray(second, np.float64)
    sine = 0.5 * np.linalg.norm(
        np.stack(
            [
                relative[..., 2, 1] - relative[..., 1, 2],
                relative[..., 0, 2] - relative[..., 2, 0],
                relative[..., 1, 0] - relative[..., 0, 1],
            ],
            -1,
        ),
        axis=-1,
    )
    angle: Array = np.arctan2(sine, 0.5 * (np.trace(relative, axis1=-2, axis2=-1) - 1))
    return angle
