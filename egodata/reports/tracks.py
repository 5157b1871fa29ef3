"""An episode's numbers as a preview needs them: hands, wrists and joints by frame, and the way from the world into the picture."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from egodata.calibration import Calibration, CameraCalibration
from egodata.episode import EpisodeReader, read_all_numeric
from egodata.errors import FeatureNotFoundError
from egodata.geometry.camera import project
from egodata.geometry.pose import invert, matrix_from_pose, transform_points
from egodata.geometry.rotation import Array
from egodata.names import nearest
from egodata.schema.features import HEAD_POSE, SIDES, TIMESTAMPS, valid_key


@dataclass(frozen=True, slots=True)
class HandTrack:
    """One hand through an episode, in the episode's own coordinate frame; NaN where invalid.

    Attributes:
        keypoints_m: (T, 21, 3), or None if the episode has none.
        poses: (T, 4, 4) of the wrist, or of the end effector where there is no wrist, or None.
        valid: (T,) whether the hand is valid.
    """

    keypoints_m: Array | None
    poses: Array | None
    valid: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tracks:
    """Everything numeric that a preview shows.

    Attributes:
        hands: By side, those that the episode has.
        joints: By key, (T, D).
        camera_T_world: (T, 4, 4), or None if nothing can be projected.
        camera: Calibration of the camera shown, or None.
        why_not: Why nothing is projected, or empty.
        seconds: (T,) from the first frame.
        bases: By side, (4, 4) pose of the arm's base, where every arm has poses in a base of its own; empty where all are in one frame.
    """

    hands: dict[str, HandTrack]
    joints: dict[str, Array]
    camera_T_world: Array | None
    camera: CameraCalibration | None
    why_not: str
    seconds: Array
    bases: Mapping[str, Array] = field(default_factory=dict)

    def pixels(self, points_m: Array, *, frame: int, size: tuple[int, int], side: str = "") -> Array:
        """Project points (N, 3) of a hand's or arm's coordinate frame into a picture of (width, height) at a frame; NaN where it cannot."""
        if self.camera_T_world is None or self.camera is None or (self.bases and side not in self.bases):
            return np.full((len(points_m), 2), np.nan)
        if side in self.bases:
            points_m = transform_points(self.bases[side], points_m)
        scaled = self.camera.scaled(*size)
        model, distortion = scaled.lens
        return project(transform_points(self.camera_T_world[frame], points_m), np.array(scaled.k), distortion, model=model)


def pick_camera(reader: EpisodeReader, camera: str | None) -> str:
    """Return the camera to show: the one named, else the reference camera.

    Raises:
        FeatureNotFoundError: The episode has no such camera.
    """
    name = camera or reader.meta.reference_camera
    if name not in reader.meta.cameras:
        raise FeatureNotFoundError(f"episode {reader.meta.episode_id}: no camera {name!r}; {nearest(name, reader.meta.cameras)}")
    return name


def load_tracks(reader: EpisodeReader, camera: str) -> Tracks:
    """Read what a preview of one camera needs."""
    arrays = read_all_numeric(reader)
    calibration = reader.calibration
    shown = None if calibration is None else calibration.cameras.get(camera)
    bases = {} if calibration is None or HEAD_POSE in arrays else {side: np.array(base) for side, base in calibration.arm_bases.items()}
    mounted = camera == reader.meta.reference_camera and bool(bases)
    camera_T_world, why_not = _camera_way(arrays, shown, calibration=calibration, mounted=mounted)
    stamps = arrays.get(TIMESTAMPS)
    times = np.arange(reader.meta.total_frames) / float(reader.meta.fps) if stamps is None else (stamps - stamps[0]) / 1e9
    hands = {side: _hand(arrays, side) for side in SIDES if any(key.startswith(f"{side}.obs_") for key in arrays)}
    joints = {key: np.asarray(value, np.float64) for key, value in sorted(arrays.items()) if key.endswith("joints") and value.ndim == 2}
    return Tracks(hands, joints, camera_T_world, shown, why_not, np.asarray(times, np.float64), bases)


def _camera_way(
    arrays: dict[str, NDArray[np.generic]], camera: CameraCalibration | None, *, calibration: Calibration | None, mounted: bool
) -> tuple[Array | None, str]:
    """Return (T, 4, 4) from the episode's coordinate frame into the camera, or why there is none.

    Args:
        arrays: The numbers.
        camera: The camera shown.
        calibration: Of the episode.
        mounted: It is the fixed camera in whose coordinate frame the bases of the arms are.
    """
    if camera is None or calibration is None:
        return None, "no calibration: nothing is projected"
    known = camera.reference_T_camera is not None
    mount = np.array(camera.reference_T_camera, np.float64) if known else np.eye(4)
    if calibration.reference_frame == "head" and HEAD_POSE in arrays:
        return invert(_poses(arrays, HEAD_POSE) @ mount), ""
    if mounted or (known and (calibration.reference_frame == "base" or (calibration.arm_bases and HEAD_POSE not in arrays))):
        rows = max(len(value) for value in arrays.values())
        return np.broadcast_to(invert(mount), (rows, 4, 4)), ""
    return None, "camera pose unknown: nothing is projected"


def _masked(arrays: dict[str, NDArray[np.generic]], key: str) -> Array:
    values = np.array(arrays[key], np.float64)
    mask = arrays.get(valid_key(key))
    if mask is not None:
        values[~np.asarray(mask, np.bool_)] = np.nan
    return values


def _poses(arrays: dict[str, NDArray[np.generic]], key: str) -> Array:
    return matrix_from_pose(_masked(arrays, key))


def _hand(arrays: dict[str, NDArray[np.generic]], side: str) -> HandTrack:
    points, poses = None, None
    if f"{side}.obs_keypoints" in arrays:
        points = np.array(arrays[f"{side}.obs_keypoints"], np.float64).reshape(-1, 21, 3)
        seen = arrays.get(f"{side}.obs_keypoints_point_valid")
        if seen is not None:
            points[~np.asarray(seen, np.bool_)] = np.nan
    for name in ("obs_wrist_pose", "obs_ee_pose"):
        if poses is None and f"{side}.{name}" in arrays:
            poses = _poses(arrays, f"{side}.{name}")
    rows = max(len(value) for value in arrays.values())
    valid = np.ones(rows, np.bool_)
    if poses is not None:
        valid = np.asarray(np.isfinite(poses[:, :3, :]).all(axis=(1, 2)), np.bool_)  # a matrix's last row is finite whatever the pose
    elif points is not None:
        valid = np.asarray(np.isfinite(points.sum(axis=2)).any(axis=1), np.bool_)
    return HandTrack(points, poses, valid)
