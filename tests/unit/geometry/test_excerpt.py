"""Why the printed excerpt of a real episode is off by some pixels: it was projected with another K, and its poses are rounded."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

from egodata.geometry.camera import project, scale_intrinsics


@pytest.mark.realdata
def test_the_excerpt_is_within_four_pixels_and_another_k_explains_the_rest(shared_data: Path):
    folder = shared_data / "mecka_excerpt"
    with (folder / "mecka_wrist_pose_camframe_50f_rounded2dp.csv").open() as file:
        wrists = np.array([[float(row[name]) for name in ("rx", "ry", "rz")] for row in csv.DictReader(file)])
    with (folder / "mecka_projected_uv_640x360.csv").open() as file:
        rows = [(int(float(row["frame"])), float(row["u"]), float(row["v"])) for row in csv.DictReader(file)]
    points, pixels = wrists[[row[0] for row in rows]], np.array([row[1:] for row in rows])
    constant = scale_intrinsics(np.array([[752.4707, 0, 961.8249], [0, 753.0016, 553.2459], [0, 0, 1]]), 1 / 3, 1 / 3)
    off = np.median(np.linalg.norm(project(points, constant, (0.05324, -0.03083, 0.00722, 0.00023)) - pixels, axis=1))
    assert 3.0 < off <= 4.0

    rng = np.random.default_rng(0)
    moved = [project(points + rng.uniform(-0.005, 0.005, points.shape), constant) - project(points, constant) for _ in range(50)]
    rounding = np.mean([np.median(np.linalg.norm(error, axis=1)) for error in moved])

    def residual(values):
        fx, fy, cx, cy = values
        return (project(points, np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])) - pixels).ravel()

    start = [constant[0, 0], constant[1, 1], constant[0, 2], constant[1, 2]]
    fitted = least_squares(residual, start, loss="soft_l1")
    left = np.median(np.linalg.norm(fitted.fun.reshape(-1, 2), axis=1))
    assert left < off - 1.5 and left < rounding + 0.7
