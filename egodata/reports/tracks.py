"""An episode's numbers as a preview needs them: hands, wrists and joints by frame, and the way from the world into the picture."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.calibration import CameraCalibration
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
    """

    hands: dict[str, HandTrack]
    joints: dict[str, Array]
    camera_T_world: Array | None
    camera: CameraCalibration | None
    why_not: str
    seconds: Array

    def pixels(self, points_m: Array, *, frame: int, size: tuple[int, int]) -> Array:
        """Project points (N, 3) of the episode's coordinate frame into a picture of (width, height) at a frame; NaN where it cannot."""
        if self.camera_T_world is None or self.camera is None:
            return np.full((len(points_m), 2), np.nan)
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
    camera_T_world, why_not = _camera_way(arrays, shown, reference_frame=calibration.reference_frame if calibration else "")
    stamps = arrays.get(TIMESTAMPS)
    times = np.arange(reader.meta.total_frames) / float(reader.meta.fps) if stamps is None else (stamps - stamps[0]) / 1e9
    hands = {side: _hand(arrays, side) for side in SIDES if any(key.startswith(f"{side}.obs_") for key in arrays)}
    joints = {key: np.asarray(value, np.float64) for key, value in sorted(arrays.items()) if key.endswith("joints") and value.ndim == 2}
    return Tracks(hands, joints, camera_T_world, shown, why_not, np.asarray(times, np.float64))


def _camera_way(
    arrays: dict[str, NDArray[np.generic]], camera: CameraCalibration | None, *, reference_frame: str
) -> tuple[Array | None, str]:
    """Return (T, 4, 4) from the episode's coordinate frame into the camera, or why there is none."""
    if camera is None:
        return None, "no calibration: nothing is projected"
    mount = np.eye(4) if camera.reference_T_camera is None else np.array(camera.reference_T_camera, np.float64)
    if reference_frame == "head" and HEAD_POSE in arrays:
        return invert(_poses(arrays, HEAD_POSE) @ mount), ""
    if reference_frame == "base" and camera.reference_T_camera is not None:
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
    shown = poses if poses is not None else points
    rows = max(len(value) for value in arrays.values())
    valid = np.ones(rows, np.bool_)
    if shown is not None:
        valid = np.asarray(np.isfinite(shown.reshape(rows, -1)).any(axis=1), np.bool_)
    return HandTrack(points, poses, valid)
