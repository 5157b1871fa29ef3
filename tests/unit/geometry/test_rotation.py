"""Rotations against scipy, and the cases in which a rotation does not exist."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

from egodata.geometry.rotation import (
    angle_rad,
    matrix_from_quat,
    matrix_from_rot6d,
    matrix_from_zyx,
    quat_from_matrix,
    rot6d_from_matrix,
    slerp,
)


@pytest.fixture(scope="module")
def rotations() -> Rotation:
    """Random rotations, and half turns about each axis, where conversions are fragile."""
    half = Rotation.from_quat([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    return Rotation.concatenate([Rotation.random(200, rng=np.random.default_rng(0)), half])


def _wxyz(rotations: Rotation) -> np.ndarray:
    return np.roll(rotations.as_quat(canonical=False), 1, axis=-1)


def test_quaternions_are_w_first():
    turn = matrix_from_quat(np.array([np.sqrt(0.5), 0, 0, np.sqrt(0.5)]))  # 90 degrees about z takes x to y
    np.testing.assert_allclose(turn @ [1, 0, 0], [0, 1, 0], atol=1e-12)


def test_matrix_and_quaternion_agree_with_scipy(rotations):
    quat = _wxyz(rotations)
    np.testing.assert_allclose(matrix_from_quat(quat), rotations.as_matrix(), atol=1e-12)
    np.testing.assert_allclose(matrix_from_quat(3 * quat), rotations.as_matrix(), atol=1e-12)
    back = quat_from_matrix(rotations.as_matrix())
    assert (back[:, 0] >= 0).all()
    np.testing.assert_allclose(np.abs(np.sum(back * quat, -1)), 1, atol=1e-12)


@pytest.mark.parametrize("quat", [[0, 0, 0, 0], [np.nan, 0, 0, 1]])
def test_what_is_no_rotation_is_nan_and_never_the_identity(quat):
    assert np.isnan(matrix_from_quat(np.array(quat, float))).all()
    assert np.isnan(quat_from_matrix(np.full((3, 3), np.nan))).all()


def test_6d_is_the_first_column_then_the_second(rotations):
    matrix = rotations.as_matrix()
    six = rot6d_from_matrix(matrix)
    np.testing.assert_array_equal(six[:, :3], matrix[:, :, 0])
    np.testing.assert_array_equal(six[:, 3:], matrix[:, :, 1])
    np.testing.assert_allclose(matrix_from_rot6d(2 * six), matrix, atol=1e-12)
    assert np.isfinite(matrix_from_rot6d(np.zeros(6))).all()


def test_zyx_angles_agree_with_scipy():
    angles = np.random.default_rng(1).uniform(-3, 3, (50, 3))
    np.testing.assert_allclose(matrix_from_zyx(*angles.T), Rotation.from_euler("ZYX", angles).as_matrix(), atol=1e-12)


def test_slerp_takes_the_shorter_arc_whatever_the_signs(rotations):
    first, second = rotations[:50], rotations[50:100]
    share = np.linspace(0, 1, 50)
    expected = np.stack([Slerp([0, 1], Rotation.concatenate([a, b]))(t).as_matrix() for a, b, t in zip(first, second, share, strict=True)])
    for sign in (1, -1):
        found = slerp(_wxyz(first), sign * _wxyz(second), share)
        np.testing.assert_allclose(matrix_from_quat(found), expected, atol=1e-9)


def test_slerp_of_equal_rotations_is_that_rotation():
    quat = np.array([0.5, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(slerp(quat, quat, np.array(0.3)), quat)


def test_angles_are_exact_at_both_ends(rotations):
    matrix = rotations.as_matrix()
    np.testing.assert_allclose(angle_rad(matrix, matrix), 0, atol=1e-12)
    for angle in (1e-9, 0.5, np.pi - 1e-9, np.pi):
        turned = matrix[0] @ Rotation.from_rotvec([angle, 0, 0]).as_matrix()
        assert angle_rad(matrix[0], turned) == pytest.approx(angle, abs=1e-12)
