"""Calibration of an episode: intrinsics that carry their resolution, and where each camera sits."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from egodata.errors import SchemaError
from egodata.geometry.camera import distort, scale_intrinsics, shift_intrinsics, to_pixels, turn_intrinsics

MODELS = ("PINHOLE", "OPENCV", "KANNALA_BRANDT")
Matrix = tuple[tuple[float, ...], ...]

_LEAST_FACTOR, _MOST_FACTOR, _FACTOR_STEP = 0.5, 4.0, 1e-4
_CAMERA_T_TURNED = np.array([[0.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
"""The camera of an image turned clockwise by 90 degrees, in the camera of the image before: its x is the old -y, its y the old x."""


@dataclass(frozen=True, slots=True)
class CameraCalibration:
    """One camera's intrinsics and pose.

    Attributes:
        k: 3x4 ``K | 0``, pixel-centre coordinates at `resolution`.
        model: PINHOLE, OPENCV or KANNALA_BRANDT.
        distortion: Coefficients of that model (OPENCV: k1 k2 p1 p2).
        resolution: (width, height) in pixels that `k` belongs to.
        rectified: Whether frames were undistorted.
        reference_T_camera: 4x4 pose of the camera in the reference coordinate frame, or None if unknown.
    """

    k: Matrix
    model: str
    distortion: tuple[float, ...]
    resolution: tuple[int, int]
    rectified: bool = False
    reference_T_camera: Matrix | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise SchemaError(f"camera model {self.model!r}: expected one of {', '.join(MODELS)}")
        if np.shape(self.k) != (3, 4):
            raise SchemaError(f"camera K: expected 3x4, got shape {np.shape(self.k)}")

    @property
    def lens(self) -> tuple[str, tuple[float, ...]]:
        """Model and coefficients by which frames are bent; PINHOLE and none where they were undistorted."""
        return ("PINHOLE", ()) if self.rectified else (self.model, self.distortion)

    def scaled(self, width_px: int, height_px: int) -> "CameraCalibration":
        """Return the calibration for the image resized to the given size, per axis."""
        k = np.array(self.k, np.float64)
        k[:, :3] = scale_intrinsics(k[:, :3], width_px / self.resolution[0], height_px / self.resolution[1])
        return replace(self, k=_matrix(k), resolution=(width_px, height_px))

    def cropped(self, left_px: int, top_px: int, *, size: tuple[int, int]) -> "CameraCalibration":
        """Return the calibration for the image cut to `size`, starting at that column and row."""
        k = np.array(self.k, np.float64)
        k[:, :3] = shift_intrinsics(k[:, :3], left_px=left_px, top_px=top_px)
        return replace(self, k=_matrix(k), resolution=size)

    def turned(self, quarter_turns: int) -> "CameraCalibration":
        """Return the calibration for the image turned clockwise; a lens whose distortion is not round cannot follow.

        Raises:
            SchemaError: K has skew, or the model tangential terms (p1, p2) which change roles.
        """
        turns, (width, height) = quarter_turns % 4, self.resolution
        if turns and self.model == "OPENCV" and any(self.distortion[2:4]):
            raise SchemaError(
                f"camera turned by {90 * turns} degrees: its tangential distortion {self.distortion[2:4]} is not round. Undistort first."
            )
        k = np.array(self.k, np.float64)
        k[:, :3] = turn_intrinsics(k[:, :3], self.resolution, quarter_turns=turns)
        pose = None
        if self.reference_T_camera is not None:
            pose = _matrix(np.array(self.reference_T_camera) @ np.linalg.matrix_power(_CAMERA_T_TURNED, turns))
        return replace(self, k=_matrix(k), resolution=(height, width) if turns % 2 else (width, height), reference_T_camera=pose)

    def undistorted(self) -> "CameraCalibration":
        """Return the pinhole camera that frames may be undistorted to, at the same size and principal point.

        Its focal lengths are those that fill the image: the smallest at which every pixel comes from inside the distorted one.

        Raises:
            SchemaError: No focal length up to four times the present one does: the calibration does not fit the image.
        """
        if not any(self.distortion) and self.model != "KANNALA_BRANDT":
            return replace(self, model="PINHOLE", distortion=(), rectified=True)
        factor = _filling_factor(self)
        (fx, _, cx, _), (_, fy, cy, _), _ = self.k
        return replace(self, k=pinhole_matrix(factor * fx, factor * fy, cx, cy), model="PINHOLE", distortion=(), rectified=True)


def _filling_factor(camera: CameraCalibration) -> float:
    """Return the smallest factor of the focal lengths that leaves no empty pixel, to 1e-4, by halving."""
    if _fills(camera, _LEAST_FACTOR):
        return _LEAST_FACTOR
    low, high = _LEAST_FACTOR, _MOST_FACTOR
    if not _fills(camera, high):
        raise SchemaError(
            f"camera {camera.model}: no view up to {high:g} times enlarged fills the undistorted image. Check its distortion."
        )
    while high - low > _FACTOR_STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if _fills(camera, middle) else (middle, high)
    return high


def _fills(camera: CameraCalibration, factor: float) -> bool:
    k = np.array(camera.k, np.float64)[:, :3]
    new = np.diag([factor, factor, 1.0]) @ k
    new[:, 2] = k[:, 2]
    new[0, 1] = 0.0
    width, height = camera.resolution
    edge = np.concatenate(
        [[(u, v) for u in range(width) for v in (0, height - 1)], [(u, v) for v in range(height) for u in (0, width - 1)]]
    )
    plane = (edge - new[:2, 2]) / np.array([new[0, 0], new[1, 1]])
    source = to_pixels(distort(plane, camera.distortion, model=camera.model), k)
    return bool((source >= -0.5).all() and (source <= np.array([width, height]) - 0.5).all())


@dataclass(frozen=True, slots=True)
class Calibration:
    """All cameras of an episode.

    Attributes:
        reference_frame: Coordinate frame that `reference_T_camera` is in: ``head`` or ``base``.
        cameras: By camera name (``front_1``).
        arm_bases: 4x4 per arm base in the reference coordinate frame, for robots.
    """

    reference_frame: str
    cameras: Mapping[str, CameraCalibration]
    arm_bases: Mapping[str, Matrix] = field(default_factory=dict)


def _matrix(values: Any) -> Matrix:
    return tuple(tuple(float(x) for x in row) for row in values)


def pinhole_matrix(fx: float, fy: float, cx: float, cy: float) -> Matrix:
    """Return the 3x4 ``K | 0`` of focal lengths and principal point in pixels."""
    return ((float(fx), 0.0, float(cx), 0.0), (0.0, float(fy), float(cy), 0.0), (0.0, 0.0, 1.0, 0.0))


def calibration_attributes(calibration: Calibration | None) -> dict[str, Any]:
    """Return the attributes `calibration` and the legacy `intrinsics`; none where calibration is unknown."""
    if calibration is None:
        return {}
    cameras = {
        name: {
            "K": [list(row) for row in camera.k],
            "model": camera.model,
            "distortion": list(camera.distortion),
            "resolution": list(camera.resolution),
            "rectified": camera.rectified,
            "ref_T_cam": None if camera.reference_T_camera is None else [list(row) for row in camera.reference_T_camera],
        }
        for name, camera in sorted(calibration.cameras.items())
    }
    bases = {name: [list(row) for row in base] for name, base in sorted(calibration.arm_bases.items())}
    return {
        "calibration": {"reference_frame": calibration.reference_frame, "cameras": cameras, "arm_bases": bases},
        "intrinsics": {name: camera["K"] for name, camera in cameras.items()},
    }


def calibration_from_attributes(attributes: Mapping[str, Any]) -> Calibration | None:
    """Read the `calibration` attribute; None where it is absent.

    Raises:
        SchemaError: It is there but not in the documented form.
    """
    found = attributes.get("calibration")
    if found is None:
        return None
    try:
        cameras = {
            name: CameraCalibration(
                _matrix(value["K"]),
                value["model"],
                tuple(float(x) for x in value["distortion"]),
                (int(value["resolution"][0]), int(value["resolution"][1])),
                bool(value["rectified"]),
                None if value.get("ref_T_cam") is None else _matrix(value["ref_T_cam"]),
            )
            for name, value in found["cameras"].items()
        }
        bases = {name: _matrix(base) for name, base in (found.get("arm_bases") or {}).items()}
        return Calibration(found["reference_frame"], cameras, bases)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise SchemaError(f"attribute calibration: {error!r} is missing or malformed; docs/format.md has the form") from error
