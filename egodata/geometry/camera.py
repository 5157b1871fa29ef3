"""Camera projection by model, intrinsics that follow the image, and where undistorted pixels come from.

Pixels are in pixel-centre coordinates: the centre of the top left pixel is (0, 0).
Distortion is that of OpenCV: ``k1 k2 p1 p2 [k3 [k4 k5 k6]]`` for OPENCV, ``k1 k2 k3 k4`` of the fisheye model for KANNALA_BRANDT
(Kannala and Brandt 2006, "A generic camera model and calibration method").
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egodata.errors import SchemaError
from egodata.geometry.rotation import Array

KANNALA_BRANDT = "KANNALA_BRANDT"
_OPENCV_MAX, _FISHEYE_MAX = 8, 4


def project(points_m: NDArray[np.floating], k: NDArray[np.floating], distortion: Sequence[float] = (), *, model: str = "OPENCV") -> Array:
    """Project camera-frame points to pixels.

    Args:
        points_m: (..., 3), metres, camera axes +X right, +Y down, +Z forward.
        k: 3x3 intrinsics (a 3x4 is cut), pixel-centre coordinates.
        distortion: Coefficients of the model; empty for none.
        model: PINHOLE or OPENCV (k1 k2 p1 p2 [k3 [k4 k5 k6]]), or KANNALA_BRANDT (k1 k2 k3 k4).

    Returns:
        Pixels (..., 2); NaN for points that are not in front of the camera (z <= 0).

    Raises:
        SchemaError: More coefficients than the model has; none is left out.
    """
    points = np.asarray(points_m, np.float64)
    z = np.where(points[..., 2] > 0, points[..., 2], np.nan)
    plane = np.stack([points[..., 0] / z, points[..., 1] / z], axis=-1)
    return to_pixels(distort(plane, distortion, model=model), k)


def to_pixels(plane: NDArray[np.floating], k: NDArray[np.floating]) -> Array:
    """Map points (..., 2) of the plane z = 1 to pixels by a 3x3 (or 3x4) K, skew included."""
    k = np.asarray(k, np.float64)
    x, y = plane[..., 0], plane[..., 1]
    return np.stack([k[0, 0] * x + k[0, 1] * y + k[0, 2], k[1, 1] * y + k[1, 2]], axis=-1)


def distort(plane: NDArray[np.floating], distortion: Sequence[float], *, model: str) -> Array:
    """Bend points (..., 2) of the plane z = 1 as a lens does.

    Raises:
        SchemaError: More coefficients than the model has.
    """
    fisheye = model == KANNALA_BRANDT
    most = 0 if model == "PINHOLE" else _FISHEYE_MAX if fisheye else _OPENCV_MAX
    if any(distortion[most:]):
        raise SchemaError(f"distortion: {len(distortion)} coefficients, the model {model} has at most {most}. Name another model.")
    padded = np.zeros(_OPENCV_MAX)
    padded[: min(len(distortion), most)] = distortion[:most]
    x, y = np.asarray(plane[..., 0], np.float64), np.asarray(plane[..., 1], np.float64)
    if fisheye:
        radius = np.hypot(x, y)
        theta = np.arctan(radius)
        square = theta * theta
        bent = theta * (1 + square * (padded[0] + square * (padded[1] + square * (padded[2] + square * padded[3]))))
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(radius > 0, bent / radius, 1.0)
        return np.stack([x * share, y * share], axis=-1)
    k1, k2, p1, p2, k3, k4, k5, k6 = padded
    r2 = x * x + y * y
    radial = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
    bent_x = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    bent_y = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    return np.stack([bent_x, bent_y], axis=-1)


def undistortion_map(
    k: NDArray[np.floating], distortion: Sequence[float], *, model: str, new_k: NDArray[np.floating], size: tuple[int, int]
) -> Array:
    """Return for every pixel of an undistorted image where it comes from.

    Args:
        k: 3x3 of the distorted image.
        distortion: Its coefficients.
        model: Its model.
        new_k: 3x3 of the undistorted image, without skew.
        size: (width, height) of the undistorted image in pixels.

    Returns:
        (H, W, 2) pixels of the distorted image.

    Raises:
        SchemaError: More coefficients than the model has.
    """
    new = np.asarray(new_k, np.float64)
    v, u = np.mgrid[0 : size[1], 0 : size[0]].astype(np.float64)
    plane = np.stack([(u - new[0, 2]) / new[0, 0], (v - new[1, 2]) / new[1, 1]], axis=-1)
    return to_pixels(distort(plane, distortion, model=model), k)


def shift_intrinsics(k: NDArray[np.floating], *, left_px: float, top_px: float) -> Array:
    """Return K for an image cut at the left and the top by so many pixels; negative ones were added."""
    out = np.array(k, np.float64)
    out[0, 2] -= left_px
    out[1, 2] -= top_px
    return out


def turn_intrinsics(k: NDArray[np.floating], size: tuple[int, int], *, quarter_turns: int) -> Array:
    """Return K for an image turned clockwise by quarter turns; the camera frame turns with it.

    Args:
        k: 3x3 without skew, of the image before.
        size: (width, height) of the image before, in pixels.
        quarter_turns: Any whole number.

    Raises:
        SchemaError: K has skew, which a turn would put where K has no place for it.
    """
    out = np.array(k, np.float64)
    if out[0, 1] != 0:
        raise SchemaError(f"camera K: skew {out[0, 1]:g} cannot follow a turn of the image. Undistort it first.")
    width, height = size
    for _ in range(quarter_turns % 4):
        fx, fy, cx, cy = out[0, 0], out[1, 1], out[0, 2], out[1, 2]
        out[0, 0], out[1, 1], out[0, 2], out[1, 2] = fy, fx, height - 1 - cy, cx
        width, height = height, width
    return out


def scale_intrinsics(k: NDArray[np.floating], scale_x: float, scale_y: float) -> Array:
    """Return K for an image resized per axis: ``cx' = (cx + 0.5) s - 0.5``, focal lengths and skew times s.

    Args:
        k: 3x3, pixel-centre coordinates of the old image.
        scale_x: New width / old width.
        scale_y: New height / old height.
    """
    out = np.array(k, np.float64)
    out[0, :2] *= scale_x
    out[1, 1] *= scale_y
    out[0, 2] = (out[0, 2] + 0.5) * scale_x - 0.5
    out[1, 2] = (out[1, 2] + 0.5) * scale_y - 0.5
    return out
