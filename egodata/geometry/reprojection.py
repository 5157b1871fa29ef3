"""Whether poses, keypoints and intrinsics belong together: where the keypoints fall in the image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.camera import project


@dataclass(frozen=True, slots=True)
class Reprojection:
    """How an episode's keypoints fall into one camera.

    Attributes:
        points: Keypoints whose place in the camera is known.
        inside: Share of them inside the image.
        behind: Share of them behind the camera.
        centre_px: Median (u, v) of those inside; NaN where there are none.
        spread_px: Half the range that holds the middle 68 % of those inside, per axis; 0 where there are none.
    """

    points: int
    inside: float
    behind: float
    centre_px: tuple[float, float]
    spread_px: tuple[float, float]


def reproject(
    points_m: NDArray[np.floating],
    *,
    k: NDArray[np.floating],
    distortion: Sequence[float] = (),
    model: str = "OPENCV",
    size: tuple[int, int],
) -> Reprojection:
    """Project keypoints into the image of a camera and say where they fall.

    Args:
        points_m: (..., 3) in the camera frame, metres; NaN where unknown.
        k: 3x3 or 3x4 intrinsics at `size`.
        distortion: Coefficients of the model.
        model: PINHOLE, OPENCV or KANNALA_BRANDT.
        size: (width, height) of the image in pixels.

    Returns:
        Shares are 0 where no point is known.
    """
    known = np.asarray(points_m, np.float64).reshape(-1, 3)
    known = known[np.isfinite(known).all(axis=1)]
    if not len(known):
        return Reprojection(0, 0.0, 0.0, (np.nan, np.nan), (0.0, 0.0))
    pixels = project(known, k, distortion, model=model)
    with np.errstate(invalid="ignore"):
        inside = ((pixels >= -0.5) & (pixels < np.array(size) - 0.5)).all(axis=1)
    centre, spread = np.full(2, np.nan), np.zeros(2)
    if inside.any():
        low, centre, high = np.percentile(pixels[inside], [16, 50, 84], axis=0)
        spread = (high - low) / 2
    return Reprojection(
        len(known),
        float(inside.mean()),
        float((known[:, 2] <= 0).mean()),
        (float(centre[0]), float(centre[1])),
        (float(spread[0]), float(spread[1])),
    )
