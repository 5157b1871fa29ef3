"""Hand poses from 21 keypoints in MANO order, and the two left-hand conventions.

0 wrist, 1-4 thumb, 5-8 index, 9-12 middle, 13-16 ring, 17-20 little. Conventions are in docs/format.md.
"""

import numpy as np
from numpy.typing import NDArray

from egodata.errors import SchemaError
from egodata.geometry.pose import compose, pose_from_matrix
from egodata.geometry.rotation import Array, matrix_from_quat, quat_from_matrix
from egodata.schema.features import HAND_FRAME_CONVENTIONS, HAND_PALM_POINTS

DEGENERATE_M = 1e-6
BONES = tuple(
    (parent, child)
    for finger in range(5)
    for parent, child in [(0, 4 * finger + 1), *((4 * finger + k, 4 * finger + k + 1) for k in (1, 2, 3))]
)
_RZ180 = np.diag([-1.0, -1.0, 1.0])


def hand_rotation(keypoints_m: NDArray[np.floating]) -> tuple[Array, NDArray[np.bool_]]:
    """Compute the anat-v1 rotation of hands, the same formula on both sides.

    f = unit(kp9 - kp0); u = (kp5 - kp0) x (kp17 - kp0) made orthogonal to f; r = u x f; columns r, u, f.

    Args:
        keypoints_m: (..., 21, 3), metres, any coordinate frame; NaN where unknown.

    Returns:
        Rotations (..., 3, 3), NaN where they fail, and which are valid (...). Keypoints 0, 5, 9, 13 and 17
        must be finite, |f| and |u| at least 1e-6, and not all keypoints zero.
    """
    kp = np.asarray(keypoints_m, np.float64)
    forward = kp[..., 9, :] - kp[..., 0, :]
    up = np.cross(kp[..., 5, :] - kp[..., 0, :], kp[..., 17, :] - kp[..., 0, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        length = np.linalg.norm(forward, axis=-1, keepdims=True)
        f = forward / length
        up = up - np.sum(up * f, axis=-1, keepdims=True) * f
        height = np.linalg.norm(up, axis=-1, keepdims=True)
        u = up / height
        palm = kp[..., list(HAND_PALM_POINTS), :]
        valid = np.isfinite(palm).all((-1, -2)) & (length[..., 0] >= DEGENERATE_M) & (height[..., 0] >= DEGENERATE_M)
    matrix = np.stack([np.cross(u, f), u, f], axis=-1)
    matrix[~valid] = np.nan
    return matrix, valid


def hand_poses(keypoints_m: NDArray[np.floating]) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Compute wrist and end-effector poses (anat-v1) from keypoints.

    Args:
        keypoints_m: (T, 21, 3), metres; NaN where unknown.

    Returns:
        Wrist poses (T, 7) with origin keypoint 0, end-effector poses (T, 7) with origin the mean of keypoints
        0, 5, 9, 13, 17, and validity (T,); both share one rotation and are NaN where invalid.
    """
    kp = np.asarray(keypoints_m, np.float64)
    rotation, valid = hand_rotation(kp)
    wrist = pose_from_matrix(compose(rotation, kp[:, 0]))
    effector = pose_from_matrix(compose(rotation, kp[:, list(HAND_PALM_POINTS)].mean(axis=1)))
    wrist[~valid] = np.nan
    effector[~valid] = np.nan
    return wrist, effector, valid


def convert_left_hand(pose: NDArray[np.floating], *, declared: str, wanted: str) -> Array:
    """Convert left-hand poses (..., 7) between conventions, by the declared one.

    The two differ by a right-multiplied turn of 180 degrees about z; positions stay.

    Raises:
        SchemaError: A convention is not known, or the data is undeclared (`unknown`).
    """
    for name in (declared, wanted):
        if name not in HAND_FRAME_CONVENTIONS or name == "unknown":
            raise SchemaError(f"hand frame convention {name!r}: expected anat-v1 or mirror-left-v1. Declare it with --declare.")
    out: Array = np.array(pose, np.float64)
    if declared != wanted:
        out[..., 3:] = quat_from_matrix(matrix_from_quat(out[..., 3:]) @ _RZ180)
    return out
