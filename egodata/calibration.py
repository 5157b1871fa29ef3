"""Calibration of an episode: intrinsics that carry their resolution, and where each camera sits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egodata.errors import SchemaError
from egodata.geometry.camera import scale_intrinsics

MODELS = ("PINHOLE", "OPENCV", "KANNALA_BRANDT")
Matrix = tuple[tuple[float, ...], ...]


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

    def scaled(self, width_px: int, height_px: int) -> "CameraCalibration":
        """Return the calibration for the image resized to the given size, per axis."""
        k = np.array(self.k, np.float64)
        k[:, :3] = scale_intrinsics(k[:, :3], width_px / self.resolution[0], height_px / self.resolution[1])
        return CameraCalibration(_matrix(k), self.model, self.distortion, (width_px, height_px), self.rectified, self.reference_T_camera)


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
