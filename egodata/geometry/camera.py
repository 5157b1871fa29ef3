"""Camera projection with the OPENCV model, and intrinsics that follow the image.

Pixels are in pixel-centre coordinates: the centre of the top left pixel is (0, 0).
Distortion is that of OpenCV's ``k1 k2 p1 p2 [k3 ...]``.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import Array


def project(points_m: NDArray[np.floating], k: NDArray[np.floating], distortion: Sequence[float] = ()) -> Array:
    """Project camera-frame points to pixels.

    Args:
        points_m: (..., 3), metres, camera axes +X right, +Y down, +Z forward.
        k: 3x3 intrinsics (a 3x4 is cut), pixel-centre coordinates.
        distortion: k1 k2 p1 p2 [k3]; empty for a pinhole.

    Returns:
        Pixels (..., 2); NaN for points that are not in front of the camera (z <= 0).
    """
    points = np.asarray(points_m, np.float64)
    z = np.where(points[..., 2] > 0, points[..., 2], np.nan)
    x, y = points[..., 0] / z, points[..., 1] / z
    k1, k2, p1, p2, k3 = (*distortion, *([0.0] * (5 - len(distortion))))[:5]
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    xd = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    yd = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    k = np.asarray(k, np.float64)
    return np.stack([k[0, 0] * xd + k[0, 1] * yd + k[0, 2], k[1, 1] * yd + k[1, 2]], axis=-1)


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
