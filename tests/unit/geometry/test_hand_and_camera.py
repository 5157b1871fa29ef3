"""Hand poses, the two left-hand conventions, and projection against OpenCV."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from egodata.errors import SchemaError
from egodata.geometry.camera import project, scale_intrinsics
from egodata.geometry.hand import convert_left_hand, hand_poses, hand_rotation
from egodata.geometry.pose import compose, invert, matrix_from_pose, pose_from_matrix, transform_points
from egodata.geometry.rotation import matrix_from_quat

K = np.array([[752.4707, 0.0, 961.8249], [0.0, 753.0016, 553.2459], [0.0, 0.0, 1.0]])
DISTORTION = (0.05324, -0.03083, 0.00722, 0.00023)


def _hand(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 0.05, (21, 3)) + [0.1, -0.2, 0.6]


def test_hand_axes_are_right_up_forward():
    points = np.zeros((21, 3))
    points[9], points[5], points[17] = [0, 0, 2], [-1, 0, 1], [1, 0, 1]
    rotation, valid = hand_rotation(points)
    assert valid
    np.testing.assert_allclose(rotation, np.eye(3), atol=1e-12)  # f = z; (kp5 - kp0) x (kp17 - kp0) = y


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_rotations_are_proper_and_move_with_the_hand(seed):
    rng = np.random.default_rng(seed)
    points = _hand(rng)
    turn = matrix_from_quat(rng.normal(size=4))
    before, _ = hand_rotation(points)
    after, _ = hand_rotation(points @ turn.T + [1, 2, 3])
    np.testing.assert_allclose(before.T @ before, np.eye(3), atol=1e-9)
    assert np.linalg.det(before) == pytest.approx(1)
    np.testing.assert_allclose(after, turn @ before, atol=1e-7)


@pytest.mark.parametrize("lost", [0, 5, 9, 13, 17])
def test_a_missing_palm_point_is_an_invalid_hand(lost):
    points = _hand(np.random.default_rng(0))[None].repeat(2, 0)
    points[1, lost] = np.nan
    wrist, effector, valid = hand_poses(points)
    assert valid.tolist() == [True, False]
    assert np.isnan(wrist[1]).all() and np.isnan(effector[1]).all()
    assert np.isfinite(wrist[0]).all() and np.isfinite(effector[0]).all()


def test_a_missing_fingertip_is_not():
    points = _hand(np.random.default_rng(0))[None]
    points[0, 8] = np.nan
    assert hand_poses(points)[2].all()


@pytest.mark.parametrize("points", [np.zeros((21, 3)), np.full((21, 3), 0.3), np.linspace(0, 1, 21)[:, None] * np.ones(3)])
def test_degenerate_hands_are_invalid_and_never_the_identity(points):
    rotation, valid = hand_rotation(points)
    assert not valid
    assert np.isnan(rotation).all()


def test_left_hand_conventions_differ_by_a_half_turn_about_z():
    wrist = hand_poses(_hand(np.random.default_rng(3))[None])[0]
    turned = convert_left_hand(wrist, declared="anat-v1", wanted="mirror-left-v1")
    before, after = matrix_from_quat(wrist[:, 3:]), matrix_from_quat(turned[:, 3:])
    np.testing.assert_allclose(after, before * [-1, -1, 1], atol=1e-12)
    np.testing.assert_array_equal(turned[:, :3], wrist[:, :3])
    back = convert_left_hand(turned, declared="mirror-left-v1", wanted="anat-v1")
    np.testing.assert_allclose(matrix_from_quat(back[:, 3:]), before, atol=1e-12)


@pytest.mark.parametrize("declared", ["unknown", "anat-v2"])
def test_undeclared_hands_are_refused(declared):
    with pytest.raises(SchemaError, match=f"hand frame convention '{declared}': expected anat-v1 or mirror-left-v1"):
        convert_left_hand(np.zeros((1, 7)), declared=declared, wanted="anat-v1")


def test_projection_agrees_with_opencv():
    points = np.random.default_rng(0).uniform([-0.5, -0.3, 0.3], [0.5, 0.3, 1.5], (200, 3))
    expected = cv2.projectPoints(points, np.zeros(3), np.zeros(3), K, np.array(DISTORTION))[0][:, 0]
    np.testing.assert_allclose(project(points, K, DISTORTION), expected, atol=1e-6)


def test_points_behind_the_camera_have_no_pixel():
    assert np.isnan(project(np.array([[0.1, 0.1, 0.0], [0.1, 0.1, -1.0]]), K)).all()


def test_intrinsics_follow_the_picture():
    scaled = scale_intrinsics(K, 1 / 3, 0.5)
    assert scaled[0, 2] == pytest.approx((961.8249 + 0.5) / 3 - 0.5)
    assert scaled[1, 2] == pytest.approx((553.2459 + 0.5) / 2 - 0.5)
    point = np.array([[0.2, -0.1, 0.8]])
    small, large = project(point, scaled, DISTORTION), project(point, K, DISTORTION)
    np.testing.assert_allclose((large + 0.5) * [1 / 3, 0.5] - 0.5, small, atol=1e-9)


def test_poses_and_their_inverses():
    rng = np.random.default_rng(5)
    pose = np.concatenate([rng.normal(size=(10, 3)), rng.normal(size=(10, 4))], -1)
    matrix = matrix_from_pose(pose)
    np.testing.assert_allclose(matrix @ invert(matrix), np.tile(np.eye(4), (10, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(matrix_from_pose(pose_from_matrix(matrix)), matrix, atol=1e-12)
    points = rng.normal(size=(10, 4, 3))
    np.testing.assert_allclose(transform_points(invert(matrix), transform_points(matrix, points)), points, atol=1e-12)
    turn = compose(matrix_from_quat(np.array([np.sqrt(0.5), 0, 0, np.sqrt(0.5)])), np.array([1.0, 0, 0]))
    np.testing.assert_allclose(transform_points(turn, np.array([[1.0, 0, 0]])), [[1, 1, 0]], atol=1e-12)
