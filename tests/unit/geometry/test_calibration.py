"""Calibration follows the image; models project as OpenCV does; undistortion fills the image and updates K."""

import cv2
import numpy as np
import pytest

from egodata.calibration import CameraCalibration, pinhole_matrix
from egodata.errors import SchemaError
from egodata.geometry.camera import distort, project, undistortion_map
from egodata.geometry.pose import compose, invert, transform_points
from egodata.geometry.reprojection import reproject
from egodata.geometry.rotation import matrix_from_zyx

SIZE = (640, 360)
K = pinhole_matrix(250.8, 251.0, 320.27, 184.08)
OPENCV = CameraCalibration(K, "OPENCV", (0.05324, -0.03083, 0.00722, 0.00023), SIZE)
FISHEYE = CameraCalibration(K, "KANNALA_BRANDT", (0.03, -0.008, 0.002, -0.0004), SIZE)


@pytest.fixture
def points():
    rng = np.random.default_rng(3)
    return np.concatenate([rng.uniform(-0.8, 0.8, (200, 2)), rng.uniform(0.4, 2, (200, 1))], axis=1)


@pytest.mark.parametrize(
    "coefficients", [(0.05, -0.03, 0.007, 0.0002), (0.05, -0.03, 0.007, 0.0002, 0.01), (0.1, 0.2, 0, 0, 0.01, 0.3, 0.1, 0.02)]
)
def test_opencv_projects_as_the_library_does(points, coefficients):
    wanted, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), np.array(K)[:, :3], np.array(coefficients))
    np.testing.assert_allclose(project(points, np.array(K), coefficients), wanted[:, 0], atol=1e-9)


def test_fisheye_projects_as_the_library_does(points):
    wanted, _ = cv2.fisheye.projectPoints(points[:, None], np.zeros(3), np.zeros(3), np.array(K)[:, :3], np.array(FISHEYE.distortion))
    np.testing.assert_allclose(project(points, np.array(K), FISHEYE.distortion, model="KANNALA_BRANDT"), wanted[:, 0], atol=1e-9)


def test_coefficients_that_a_model_has_no_place_for_are_refused():
    with pytest.raises(SchemaError, match="12 coefficients, the model OPENCV has at most 8"):
        distort(np.zeros((1, 2)), [0.1] * 12, model="OPENCV")
    with pytest.raises(SchemaError, match="PINHOLE has at most 0"):
        distort(np.zeros((1, 2)), [0.1], model="PINHOLE")


@pytest.mark.parametrize(("width", "height"), [(320, 180), (640, 480), (213, 360)])
def test_scaling_per_axis_keeps_pixels_together(points, width, height):
    before = project(points, np.array(OPENCV.k), OPENCV.distortion)
    camera = OPENCV.scaled(width, height)
    after = project(points, np.array(camera.k), camera.distortion)
    share = np.array([width / 640, height / 360])
    np.testing.assert_allclose(after, (before + 0.5) * share - 0.5, atol=1e-9)
    assert camera.resolution == (width, height) and 0 < camera.k[0][2] < width and 0 < camera.k[1][2] < height


def test_a_cut_shifts_the_principal_point(points):
    camera = OPENCV.cropped(100, 20, size=(400, 300))
    after = project(points, np.array(camera.k), camera.distortion)
    np.testing.assert_allclose(after, project(points, np.array(K), OPENCV.distortion) - (100, 20), atol=1e-9)
    assert camera.resolution == (400, 300)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5])
def test_a_turn_takes_camera_and_pose_along(points, turns):
    """A point of the reference falls on the pixel to which the turned picture moved it."""
    pose = compose(matrix_from_zyx(0.2, 0.1, -0.3), np.array([0.1, 0.0, -0.2]))
    camera = CameraCalibration(FISHEYE.k, FISHEYE.model, FISHEYE.distortion, SIZE, reference_T_camera=tuple(map(tuple, pose)))
    reference = transform_points(pose, points)
    picture = np.zeros((SIZE[1], SIZE[0]))
    before = project(points, np.array(camera.k), camera.distortion, model=camera.model)
    near = np.rint(before[((before > 5) & (before < np.array(SIZE) - 6)).all(1)][0]).astype(int)
    picture[near[1], near[0]] = 1
    turned = camera.turned(turns)
    inside = transform_points(np.linalg.inv(np.array(turned.reference_T_camera)), reference)
    after = project(inside, np.array(turned.k), turned.distortion, model=turned.model)
    row, column = np.argwhere(np.rot90(picture, -turns))[0]
    at = after[((before > 5) & (before < np.array(SIZE) - 6)).all(1)][0]
    np.testing.assert_array_equal(np.rint(at), (column, row))
    assert turned.resolution == np.rot90(picture, -turns).shape[::-1]


def test_a_lens_that_is_not_round_cannot_be_turned():
    with pytest.raises(SchemaError, match="tangential distortion .* is not round"):
        OPENCV.turned(1)


@pytest.mark.parametrize("camera", [OPENCV, FISHEYE], ids=lambda camera: camera.model)
def test_undistortion_fills_the_image_and_its_k_is_the_new_one(camera, points):
    flat = camera.undistorted()
    assert (flat.model, flat.distortion, flat.rectified, flat.resolution) == ("PINHOLE", (), True, SIZE)
    args = (np.array(camera.k)[:, :3], camera.distortion)
    source = undistortion_map(*args, model=camera.model, new_k=np.array(flat.k)[:, :3], size=SIZE)
    assert source.min() >= -0.5 and (source <= np.array(SIZE) - 0.5).all()
    pixels = np.rint(project(points, np.array(flat.k))).astype(int)
    seen = ((pixels >= 0) & (pixels < SIZE)).all(1)
    lands = source[pixels[seen, 1], pixels[seen, 0]]
    np.testing.assert_allclose(lands, project(points[seen], np.array(camera.k), camera.distortion, model=camera.model), atol=1.0)
    smaller = np.diag([0.99, 0.99, 1]) @ np.array(flat.k)[:, :3]
    smaller[:, 2] = np.array(flat.k)[:, 2]
    wider = undistortion_map(*args, model=camera.model, new_k=smaller, size=SIZE)
    assert wider.min() < -0.5 or (wider > np.array(SIZE) - 0.5).any()


def test_the_reprojection_check_tells_right_from_turned():
    rng = np.random.default_rng(1)
    head = compose(matrix_from_zyx(*rng.uniform(-0.3, 0.3, (3, 40))), rng.uniform(-1, 1, (40, 3)))
    inside = np.stack([rng.uniform(-0.3, 0.3, (40, 21)), rng.uniform(0, 0.2, (40, 21)), rng.uniform(0.4, 0.6, (40, 21))], -1)
    world = transform_points(head, inside)
    world[3] = np.nan
    good = reproject(transform_points(invert(head), world), k=np.array(K), size=SIZE)
    assert good.points == 39 * 21 and good.inside > 0.9 and good.behind == 0
    assert abs(good.centre_px[0] - 320) < 30 and good.spread_px[0] > 50
    turned = reproject(transform_points(invert(head @ np.diag([-1.0, 1, -1, 1])), world), k=np.array(K), size=SIZE)
    assert turned.behind == 1 and turned.inside == 0
    nothing = reproject(np.full((2, 21, 3), np.nan), k=np.array(K), size=SIZE)
    assert nothing.points == 0 and np.isnan(nothing.centre_px).all()
