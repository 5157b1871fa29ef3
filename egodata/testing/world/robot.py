"""The same moves by a robot with two arms: fixed bases, a fixed camera, grippers that open where the hand did."""

from dataclasses import dataclass, replace

import numpy as np

from egodata.geometry.pose import compose, invert
from egodata.geometry.rotation import Array, matrix_from_zyx
from egodata.testing.world.camera import HeadMotion
from egodata.testing.world.simulate import SimulatedEpisode

CAMERA_M = (-0.05, 0.0, 0.455)
CAMERA_PITCH_RAD = 0.85
_BASES = (((0.02, 0.26, 0.03), 0.35), ((0.05, -0.24, 0.01), -0.2))
_UPPER_M, _LOWER_M = 0.55, 0.55
_WRIST_VIEW_M = (-0.06, 0.0, 0.14)
_WRIST_PITCH_RAD = 1.25


@dataclass(frozen=True, slots=True)
class ArmRows:
    """What the robot's files hold, T rows; arms in the order left, right.

    Attributes:
        eepose: (T, 2, 7) x y z yaw pitch roll gripper, in each arm's base.
        joints: (T, 2, 7) six angles and the gripper.
    """

    eepose: Array
    joints: Array


def robot_variant(episode: SimulatedEpisode) -> SimulatedEpisode:
    """Return the episode as the robot's camera sees it: it does not move, and both arms are always there."""
    still = HeadMotion(np.tile(CAMERA_M, (episode.frames, 1)), np.tile((0.0, CAMERA_PITCH_RAD, 0.0), (episode.frames, 1)))
    return replace(episode, head=still, distortion=(0.0, 0.0, 0.0, 0.0), delivered=np.ones_like(episode.delivered), annotated=False)


def world_T_bases() -> Array:
    """Return the poses (2, 4, 4) of both arm bases in the world."""
    zero = np.zeros(2)
    yaw = np.array([turn for _, turn in _BASES])
    return compose(matrix_from_zyx(yaw, zero, zero), np.array([place for place, _ in _BASES]))


def camera_T_bases() -> Array:
    """Return the poses (2, 4, 4) of both arm bases in the coordinate frame of the camera (OpenCV axes)."""
    camera = HeadMotion(np.array([CAMERA_M]), np.array([(0.0, CAMERA_PITCH_RAD, 0.0)]))
    bases: Array = invert(camera.world_T_head) @ world_T_bases()
    return bases


def arm_rows(episode: SimulatedEpisode) -> ArmRows:
    """Return what the arms do: the end effector is where the wrist was, the gripper is open (1) where the hand was."""
    base_T_ee = invert(world_T_bases()) @ episode.world_T_wrist
    angles = zyx_from_matrix(base_T_ee[..., :3, :3])
    gripper = 1.0 - episode.grasp[..., None]
    joints = arm_angles(base_T_ee[..., :3, 3], angles)
    return ArmRows(np.concatenate([base_T_ee[..., :3, 3], angles, gripper], -1), np.concatenate([joints, gripper], -1))


def zyx_from_matrix(rotation: Array) -> Array:
    """Return yaw, pitch, roll (..., 3) of rotations (..., 3, 3); pitch between -90 and 90 degrees."""
    yaw = np.arctan2(rotation[..., 1, 0], rotation[..., 0, 0])
    pitch = np.arcsin(np.clip(-rotation[..., 2, 0], -1, 1))
    roll = np.arctan2(rotation[..., 2, 1], rotation[..., 2, 2])
    return np.stack([yaw, pitch, roll], -1)


def arm_angles(place_m: Array, angles_rad: Array) -> Array:
    """Return six joint angles (..., 6) that bring a simple arm there: a turning base, two links, a wrist of three joints.

    Args:
        place_m: (..., 3) in the base.
        angles_rad: (..., 3) yaw, pitch, roll in the base.
    """
    turn = np.arctan2(place_m[..., 1], place_m[..., 0])
    reach = np.linalg.norm(place_m, axis=-1)
    rise = np.arcsin(np.clip(place_m[..., 2] / reach, -1, 1))
    inner = np.arccos(np.clip((_UPPER_M**2 + reach**2 - _LOWER_M**2) / (2 * _UPPER_M * reach), -1, 1))
    elbow = np.arccos(np.clip((_UPPER_M**2 + _LOWER_M**2 - reach**2) / (2 * _UPPER_M * _LOWER_M), -1, 1))
    wrist = [angles_rad[..., 0] - turn, angles_rad[..., 1] + rise, angles_rad[..., 2]]
    return np.stack([turn, rise + inner, elbow - np.pi, *wrist], -1)


def wrist_camera(episode: SimulatedEpisode, arm: int) -> Array:
    """Return the poses (T, 4, 4) of an arm's wrist camera in the world, OpenCV axes: behind the hand, looking down at the table."""
    place = episode.world_T_wrist[:, arm, :3, 3] + np.array(_WRIST_VIEW_M)
    yaw = np.arctan2(episode.world_T_wrist[:, arm, 1, 2], episode.world_T_wrist[:, arm, 0, 2])
    turned = np.stack([yaw, np.full(len(yaw), _WRIST_PITCH_RAD), np.zeros(len(yaw))], -1)
    return HeadMotion(place, turned).world_T_head
