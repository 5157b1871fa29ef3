"""An articulated hand with 21 joints in MANO order, and the wrist poses that bring it to an object.

The hand's own coordinate frame has x to the right, y out of the palm and z along the fingers, with the palm down: on the
right hand that is anat-v1. The left hand is the right one mirrored in x, so its anat-v1 rotation is this one turned by
180 degrees about z, which `egodata.geometry.hand` finds from the points alone.
"""

import numpy as np

from egodata.geometry.rotation import Array, matrix_from_zyx

PALM_DOWN = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""World axes (X forward, Y left, Z up) of the hand's x, y, z, palm down and fingers forward."""
SIDE_SIGN = {"left": -1.0, "right": 1.0}
_KNUCKLES = np.array([[-0.026, 0.0, 0.092], [0.0, 0.0, 0.096], [0.022, 0.002, 0.089], [0.042, 0.0, 0.078]])
_BONES = np.array([[0.043, 0.026, 0.022], [0.047, 0.030, 0.024], [0.043, 0.028, 0.023], [0.034, 0.021, 0.019]])
_SPREAD = np.radians([-6.0, 0.0, 6.0, 13.0])
_OPEN = np.radians([[4.0, 10.0, 6.0], [3.0, 9.0, 6.0], [4.0, 11.0, 7.0], [6.0, 13.0, 8.0]])
_CLOSED = np.radians([[42.0, 30.0, 18.0], [44.0, 32.0, 18.0], [50.0, 40.0, 24.0], [56.0, 46.0, 26.0]])
_THUMB_BASE = np.array([-0.028, 0.010, 0.028])
_THUMB_BONES = np.array([0.042, 0.034, 0.028])
_THUMB_OPEN = np.array([[-0.72, 0.28, 0.63], [-0.52, 0.34, 0.79], [-0.36, 0.34, 0.87]])
_THUMB_CLOSED = np.array([[-0.45, 0.60, 0.60], [0.00, 0.80, 0.45], [0.15, 0.90, 0.25]])
_PINCH = (4, 8, 12)


def hand_keypoints(grasp: Array, *, side: str, scale: float) -> Array:
    """Pose the fingers.

    Args:
        grasp: (T,), 0 open to 1 closed around an object.
        side: ``left`` or ``right``.
        scale: Size against a median adult hand.

    Returns:
        Keypoints (T, 21, 3), metres, in the hand's own coordinate frame with the wrist at the origin.
    """
    g = np.clip(np.asarray(grasp, np.float64), 0.0, 1.0)[:, None, None]
    flex = np.cumsum((1 - g) * _OPEN + g * _CLOSED, axis=2)
    spread = (_SPREAD * (1 - 0.6 * g[..., 0]))[..., None]
    bones = np.stack([np.sin(spread) * np.cos(flex), np.sin(flex), np.cos(spread) * np.cos(flex)], -1) * _BONES[..., None]
    joints = _KNUCKLES[:, None] + np.cumsum(bones, axis=2)
    thumb = (1 - g) * _THUMB_OPEN + g * _THUMB_CLOSED
    thumb = _THUMB_BASE + np.cumsum(thumb / np.linalg.norm(thumb, axis=-1, keepdims=True) * _THUMB_BONES[:, None], axis=1)
    points = np.zeros((len(g), 21, 3))
    points[:, 1], points[:, 2:5] = _THUMB_BASE, thumb
    points[:, 5::4] = _KNUCKLES
    for bone in range(3):
        points[:, 6 + bone :: 4] = joints[:, :, bone]
    points[..., 0] *= SIDE_SIGN[side]
    sized: Array = points * scale
    return sized


def pinch_point(*, side: str, scale: float) -> Array:
    """Return the centre (3,) of what a closed hand holds, in the hand's own coordinate frame, metres."""
    closed = hand_keypoints(np.ones(1), side=side, scale=scale)[0]
    point: Array = closed[list(_PINCH)].mean(axis=0)
    return point


def hand_rotation_from_angles(angles_rad: Array) -> Array:
    """Turn (..., 3) yaw, pitch (fingers down), roll into world rotations (..., 3, 3) of the hand's coordinate frame."""
    rotation: Array = matrix_from_zyx(angles_rad[..., 0], angles_rad[..., 1], angles_rad[..., 2]) @ PALM_DOWN
    return rotation
