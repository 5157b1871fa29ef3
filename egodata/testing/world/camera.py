"""The head camera: vendor intrinsics with distortion, and a head that sways and looks where the hands will go.

World: X forward, Y left, Z up, metres, the table top at z = 0. Vendor camera axes are X forward, Y left, Z up as well;
`VENDOR_TO_OPENCV` maps them to the head's +X right, +Y down, +Z forward.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egodata.geometry.camera import scale_intrinsics
from egodata.geometry.pose import compose
from egodata.geometry.rotation import Array, matrix_from_zyx
from egodata.testing.world.habits import Operator
from egodata.testing.world.motion import Move, follow, sway

VENDOR_TO_OPENCV = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
VENDOR_K = np.array([[752.4707, 0.0, 961.8249], [0.0, 753.0016, 553.2459], [0.0, 0.0, 1.0]])
VENDOR_SIZE = (1920, 1080)
VENDOR_DISTORTION = (0.05324, -0.03083, 0.00722, 0.00023)
_LOOK_AHEAD_S = 0.18
_LOOK_S = 0.5
_HEAD_X_M = -0.05
_CENTRE = (0.35, 0.0)


@dataclass(frozen=True, slots=True)
class HeadMotion:
    """The camera's way through an episode.

    Attributes:
        position_m: (T, 3) in the world.
        angles_rad: (T, 3) yaw, pitch (positive looks down), roll, ZYX, of the vendor camera axes.
    """

    position_m: Array
    angles_rad: Array

    @property
    def world_T_camera(self) -> Array:
        """Poses (T, 4, 4) of the vendor camera axes."""
        return compose(matrix_from_zyx(*np.moveaxis(self.angles_rad, -1, 0)), self.position_m)

    @property
    def world_T_head(self) -> Array:
        """Poses (T, 4, 4) of the head coordinate frame (OpenCV axes)."""
        return compose(matrix_from_zyx(*np.moveaxis(self.angles_rad, -1, 0)) @ VENDOR_TO_OPENCV.T, self.position_m)


def intrinsics(size: tuple[int, int]) -> Array:
    """Return the vendor's 3x3 K for (width, height), pixel-centre coordinates."""
    return scale_intrinsics(VENDOR_K, size[0] / VENDOR_SIZE[0], size[1] / VENDOR_SIZE[1])


def move_head(rng: np.random.Generator, operator: Operator, *, times_s: Array, looks: Sequence[tuple[float, Array]]) -> HeadMotion:
    """Make the head's motion.

    Args:
        rng: Source of the sway.
        operator: Eye height, how far the head follows the eyes, how much it sways.
        times_s: (T,) seconds from the first frame.
        looks: When a hand starts towards which point (3,); the head turns a little before.

    Returns:
        Position and angles per frame.
    """
    height = operator.eye_height_m
    rest_pitch = np.arctan2(height, _CENTRE[0] - _HEAD_X_M)
    moves, free_s = [], -1.0
    for start_s, point in looks:
        ahead = point[0] - _HEAD_X_M
        yaw = operator.gaze * np.arctan2(point[1], ahead)
        pitch = rest_pitch + operator.gaze * (np.arctan2(height, np.hypot(ahead, point[1])) - rest_pitch)
        begin = max(free_s, start_s - _LOOK_AHEAD_S)
        free_s = begin + _LOOK_S
        moves.append(Move(begin, free_s, (yaw, pitch, -0.15 * yaw)))
    angles = follow(moves, (0.0, rest_pitch, 0.0), times_s=times_s)
    angles += operator.sway * np.radians(sway(rng, times_s, amplitude=(5.0, 3.2, 2.6), period_s=2.4))
    position = np.array([_HEAD_X_M, 0.0, height]) + operator.sway * sway(rng, times_s, amplitude=(0.022, 0.032, 0.014), period_s=2.2)
    return HeadMotion(position, angles)
