"""Whether poses, keypoints and intrinsics belong together: where the keypoints fall in the image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.camera import project
from egodata.geometry.pose import invert, matrix_from_pose, transform_points


@dataclass(frozen=True, slots=True)
class Reprojection:
    """How an episode's keypoints fall into its camera.

    Attributes:
        points: Keypoints with a known place and a known head pose.
        inside: Share of them inside the image.
        behind: Share of them behind the camera.
        centre_px: Median (u, v) of those in front; NaN where there are none.
        spread_px: Half the range that holds the middle 68 % of them, per axis.
    """

    points: int
    inside: float
    behind: float
    centre_px: tuple[float, float]
    spread_px: tuple[float, float]


def reproject(
    head_pose: NDArray[np.floating],
    keypoints_m: NDArray[np.floating],
    *,
    k: NDArray[np.floating],
    distortion: Sequence[float] = (),
    model: str = "OPENCV",
    size: tuple[int, int],
) -> Reprojection:
    """Project world keypoints through the head camera.

    Args:
        head_pose: (T, 7), ``world_T_head``; NaN where unknown.
        keypoints_m: (T, N, 3) in the world, metres; NaN where unknown.
        k: 3x3 or 3x4 intrinsics at `size`.
        distortion: Coefficients of the model.
        model: PINHOLE, OPENCV or KANNALA_BRANDT.
        size: (width, height) of the image in pixels.

    Returns:
        Shares are 0 and places NaN where no point is known.
    """
    points = transform_points(invert(matrix_from_pose(head_pose)), keypoints_m).reshape(-1, 3)
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return Reprojection(0, 0.0, 0.0, (np.nan, np.nan), (np.nan, np.nan))
    pixels = project(points, k, distortion, model=model)
    front = np.isfinite(pixels).all(axis=1)
    seen = pixels[front]
    inside = ((seen >= -0.5) & (seen < np.array(size) - 0.5)).all(axis=1)
    if not len(seen):
        return Reprojection(len(points), 0.0, 1.0, (np.nan, np.nan), (np.nan, np.nan))
    low, middle, high = np.percentile(seen, [16, 50, 84], axis=0)
    spread = (high - low) / 2
    return Reprojection(
        len(points),
        float(inside.sum() / len(points)),
        float(1 - front.mean()),
        (float(middle[0]), float(middle[1])),
        (float(spread[0]), float(spread[1])),
    )
