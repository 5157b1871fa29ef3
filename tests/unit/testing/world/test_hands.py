"""The simulated hands: chirality, joint limits, and what the closed fingers hold."""

import numpy as np
import pytest

from egodata.geometry.hand import hand_rotation
from egodata.testing.world.hands import hand_keypoints, hand_rotation_from_angles, pinch_point
from egodata.testing.world.layout import CUBE_M


def world_hand(side: str, grasp: float = 0.0) -> np.ndarray:
    return hand_keypoints(np.array([grasp]), side=side, scale=1.0)[0] @ hand_rotation_from_angles(np.zeros(3)).T


@pytest.mark.parametrize(("side", "x", "y"), [("right", (0, -1, 0), (0, 0, -1)), ("left", (0, 1, 0), (0, 0, 1))])
def test_palm_down_gives_the_documented_anat_v1_axes(side, x, y):
    rotation, valid = hand_rotation(world_hand(side)[None])
    assert valid.all()
    np.testing.assert_allclose(rotation[0], np.stack([x, y, (1, 0, 0)], axis=1), atol=1e-12)


def test_left_and_right_are_mirror_images_with_thumbs_inwards():
    left, right = world_hand("left"), world_hand("right")
    np.testing.assert_allclose(left * (1, -1, 1), right, atol=1e-12)
    assert right[4, 1] > right[0, 1] + 0.03
    assert left[4, 1] < left[0, 1] - 0.03


def test_fingers_point_forward_when_open_and_close_around_a_cube():
    opened, closed = world_hand("right", 0.0), world_hand("right", 1.0)
    tips = [8, 12, 16, 20]
    assert (opened[tips, 0] > 0.13).all()
    assert (closed[tips, 2] < opened[tips, 2] - 0.03).all()
    gap = np.linalg.norm(closed[4] - closed[8])
    assert 0.75 * CUBE_M < gap < 1.5 * CUBE_M
    held = pinch_point(side="right", scale=1.0) @ hand_rotation_from_angles(np.zeros(3)).T
    assert np.linalg.norm(held - (closed[4] + closed[8]) / 2) < 0.02


def test_bones_keep_their_length_and_scale_with_the_hand():
    lengths = [
        np.linalg.norm(np.diff(hand_keypoints(np.array([g]), side="left", scale=s)[0, 5:9], axis=0), axis=1) / s
        for g in (0.0, 0.5, 1.0)
        for s in (0.9, 1.1)
    ]
    np.testing.assert_allclose(lengths, np.broadcast_to(lengths[0], (6, 3)), atol=1e-12)


def test_rotation_of_the_palm_does_not_depend_on_the_grasp():
    rotations, _ = hand_rotation(hand_keypoints(np.linspace(0, 1, 5), side="left", scale=1.0))
    np.testing.assert_allclose(rotations, np.broadcast_to(rotations[0], (5, 3, 3)), atol=1e-12)
