"""Aria's RGB camera: frames undistorted to a linear camera that stands upright, by the device's calibration."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.calibration import CameraCalibration, pinhole_matrix
from egodata.errors import VideoError
from egodata.geometry.pose import compose
from egodata.vendors.aria.config import AriaConfig
from egodata.vendors.aria.vrs import open_vrs, quiet, stream_numbered, tools

RGB = "camera-rgb"
NATIVE_R_TURNED = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
"""The camera of an image turned clockwise by 90 degrees, in the camera of the image before: its x is the old -y, its y the old x."""

_OVERSAMPLING = 2
_LEVEL = 0.8


@dataclass(frozen=True, slots=True)
class UprightCamera:
    """The linear camera that frames are undistorted to.

    Attributes:
        generation: 1 or 2.
        quarter_turns: Clockwise turns of 90 degrees that bring the image upright, from the calibration.
        device_T_camera: 4x4 pose of the upright camera (OpenCV axes) in the device.
        focal_px: Focal length at `size`.
        size: (width, height) in pixels, upright.
        native_size: (width, height) of the recorded image.
    """

    generation: int
    quarter_turns: int
    device_T_camera: NDArray[np.float64]
    focal_px: float
    size: tuple[int, int]
    native_size: tuple[int, int]

    @property
    def calibration(self) -> CameraCalibration:
        """Pinhole intrinsics at `size`; the principal point is the centre."""
        width, height = self.size
        k = pinhole_matrix(self.focal_px, self.focal_px, (width - 1) / 2, (height - 1) / 2)
        return CameraCalibration(k, "PINHOLE", (), self.size, rectified=True)


def upright_camera(device: Any, *, generation: int, config: AriaConfig) -> UprightCamera | None:
    """Derive the upright linear camera from a device calibration; None where it has no RGB camera or does not say what is up.

    Up is that of the central pupil frame (x left, y up, z forward), which the calibration places on the glasses.
    """
    native = device.get_camera_calib(RGB)
    seen = device.get_transform_cpf_sensor(RGB) or device.get_transform_cpf_sensor(RGB, True)
    if native is None or seen is None:
        return None
    down = np.array(seen.rotation().to_matrix(), np.float64).reshape(3, 3).T @ (0.0, -1.0, 0.0)
    turns = quarter_turns(down)
    if turns is None:
        return None
    native_T_upright = np.linalg.matrix_power(NATIVE_R_TURNED, turns)
    device_T_native = np.array(native.get_transform_device_camera().to_matrix(), np.float64).reshape(4, 4)
    width, height = (int(side) for side in native.get_image_size())
    upright_width = height if turns % 2 else width
    focal = float(native.get_focal_lengths()[0]) * config.stored_size_px[0] / upright_width
    if generation == 1:
        focal = config.gen1_focal_per_height * config.stored_size_px[1]
    pose = device_T_native @ compose(native_T_upright, np.zeros(3))
    return UprightCamera(generation, turns, pose, focal, config.stored_size_px, (width, height))


def quarter_turns(down: NDArray[np.floating]) -> int | None:
    """Return how many clockwise quarter turns make a direction (3,) in camera axes point down; None where none comes near.

    >>> quarter_turns(np.array([1.0, 0.0, 0.0])), quarter_turns(np.array([0.0, 1.0, 0.0]))
    (1, 0)
    """
    flat = np.asarray(down[:2], np.float64)
    share = flat @ np.array([[0.0, 1.0, 0.0, -1.0], [1.0, 0.0, -1.0, 0.0]])
    return int(np.argmax(share)) if share.max() >= _LEVEL else None


def frames_of(path: Path, camera: UprightCamera, *, rows: NDArray[np.int64], stream: str) -> Iterator[NDArray[np.uint8]]:
    """Decode, undistort and turn the RGB frames of a recording, one at a time.

    Args:
        path: VRS file.
        camera: What to undistort to.
        rows: (T,) records of the stream, in order.
        stream: Its id.

    Yields:
        (H, W, 3) uint8 RGB of `camera.size`.

    Raises:
        VideoError: A frame is missing, cannot be decoded, or has another size than the calibration.
    """
    recording = open_vrs(path)
    number = stream_numbered(recording, stream)
    calibration = tools("calibration")
    native = recording.get_device_calibration().get_camera_calib(RGB)
    width, height = camera.size if camera.quarter_turns % 2 == 0 else camera.size[::-1]
    linear = calibration.get_linear_camera_calibration(
        _OVERSAMPLING * width, _OVERSAMPLING * height, _OVERSAMPLING * camera.focal_px, RGB, native.get_transform_device_camera()
    )
    for row in rows:
        picture = _picture(recording, number, int(row), path=path, camera=camera)
        wide = calibration.distort_by_calibration(picture, linear, native)
        yield np.ascontiguousarray(np.rot90(_halved(wide), k=-camera.quarter_turns))


def _picture(recording: Any, stream: Any, row: int, *, path: Path, camera: UprightCamera) -> NDArray[np.uint8]:
    try:
        with quiet():
            image, _ = recording.get_image_data_by_index(stream, row)
            picture: NDArray[np.uint8] = np.asarray(image.to_numpy_array())
    except RuntimeError as error:
        raise VideoError(f"recording {path.name}: frame {row} does not decode ({' '.join(str(error).split())[:120]}).") from error
    if picture.ndim == 2:
        picture = np.repeat(picture[..., None], 3, axis=2)
    if picture.shape != (camera.native_size[1], camera.native_size[0], 3) or picture.dtype != np.uint8:
        width, height = camera.native_size
        raise VideoError(
            f"recording {path.name}: frame {row} is {picture.dtype} of shape {picture.shape}, the calibration is for {width}x{height}. "
            "Get the file again."
        )
    return picture


def _halved(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the mean of every 2x2 pixels, rounded."""
    height, width = picture.shape[0] // 2, picture.shape[1] // 2
    blocks = picture[: 2 * height, : 2 * width].reshape(height, 2, width, 2, 3).astype(np.uint16)
    mean: NDArray[np.uint8] = ((blocks.sum((1, 3)) + 2) // 4).astype(np.uint8)
    return mean
