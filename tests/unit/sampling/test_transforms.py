"""Inverse undoes forward for coordinate frames, 6D and packing, on any valid poses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from egodata.errors import RecipeError
from egodata.geometry.rotation import angle_rad, matrix_from_quat
from egodata.sampling import actions_to_poses, load_recipe
from egodata.sampling.transforms import (
    from_frame,
    interpolate_poses,
    into_frame,
    pack_human,
    relative_poses,
    unpack_human,
)

HANDS = load_recipe("human_wrist6d")


@st.composite
def poses(draw, *shape):
    rows = draw(arrays(np.float64, (*shape, 7), elements=st.floats(-1, 1, width=32)))
    rows[..., :3] *= 5
    short = np.linalg.norm(rows[..., 3:], axis=-1) < 0.1
    rows[short, 3:] = (1, 0, 0, 0)
    rows[..., 3:] /= np.linalg.norm(rows[..., 3:], axis=-1, keepdims=True)
    return rows


@settings(max_examples=60, deadline=None)
@given(poses(4, 2), poses(2))
def test_into_a_frame_and_back(given_poses, frame):
    rotations = matrix_from_quat(given_poses[..., 3:])
    inside = into_frame(given_poses[..., :3], rotations, frame=frame)
    back_positions, back_rotations = from_frame(*inside, frame=frame)
    np.testing.assert_allclose(back_positions, given_poses[..., :3], atol=1e-9)
    np.testing.assert_allclose(back_rotations, rotations, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(poses(3, 2), st.booleans())
def test_pack_and_unpack(given_poses, grip):
    rotations = matrix_from_quat(given_poses[..., 3:])
    packed = pack_human(given_poses[..., :3], rotations, grip=grip)
    assert packed.shape == (3, 20 if grip else 18)
    if grip:
        assert not packed[:, [9, 19]].any()
    positions, back = unpack_human(packed, grip=grip)
    np.testing.assert_allclose(positions, given_poses[..., :3], atol=1e-12)
    np.testing.assert_allclose(back, rotations, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(poses(5, 2), poses(2), poses())
def test_wrist_actions_go_back_to_the_head_frame(future, wrists, head):
    """World poses -> wrist-frame channels in float32 -> head frame equals going to the head frame directly."""
    channels = pack_human(*into_frame(future[..., :3], matrix_from_quat(future[..., 3:]), frame=wrists), grip=False).astype(np.float32)
    reference = relative_poses(wrists, frame=head).astype(np.float32)
    positions, rotations = actions_to_poses(channels, HANDS, reference=reference)
    expected_positions, expected_rotations = into_frame(future[..., :3], matrix_from_quat(future[..., 3:]), frame=head)
    np.testing.assert_allclose(positions, expected_positions, atol=2e-5)
    assert np.all(angle_rad(rotations, expected_rotations) < 1e-5)


@settings(max_examples=40, deadline=None)
@given(poses(6), poses(6), st.floats(0, 1))
def test_interpolation_keeps_both_ends_and_a_constant_turning_speed(before, after, share):
    at_start = interpolate_poses(before, after, np.zeros(6))
    np.testing.assert_allclose(at_start[0], before[:, :3], atol=1e-12)
    np.testing.assert_allclose(at_start[1], matrix_from_quat(before[:, 3:]), atol=1e-9)
    ends = matrix_from_quat(before[:, 3:]), matrix_from_quat(after[:, 3:])
    whole = angle_rad(*ends)
    _, between = interpolate_poses(before, after, np.full(6, share))
    clear = whole < 3.1  # a half turn has two shorter arcs
    np.testing.assert_allclose(angle_rad(ends[0], between)[clear], share * whole[clear], atol=1e-6)


def test_6d_is_continuous_across_half_a_turn():
    angles = np.linspace(np.pi - 0.01, np.pi + 0.01, 21)
    quats = np.stack([np.cos(angles / 2), 0 * angles, 0 * angles, np.sin(angles / 2)], -1)
    packed = pack_human(np.zeros((21, 1, 3)), matrix_from_quat(quats)[:, None], grip=False)
    assert np.abs(np.diff(packed, axis=0)).max() < 0.0011


def test_channels_in_other_frames_are_unpacked_as_they_are():
    recipe = replace(HANDS, action=replace(HANDS.action, coordinate_frame="head"))
    packed = np.tile([1.0, 2, 3, 1, 0, 0, 0, 1, 0], 2)[None]
    positions, rotations = actions_to_poses(packed, recipe, reference=np.full((2, 7), np.nan))
    assert positions.tolist() == [[[1, 2, 3], [1, 2, 3]]]
    np.testing.assert_array_equal(rotations[0, 0], np.eye(3))


def test_joints_have_no_poses_and_odd_widths_are_refused():
    with pytest.raises(RecipeError, match="recipe joints: joints have no poses"):
        actions_to_poses(np.zeros((1, 26)), load_recipe("joints"), reference=np.zeros((0, 7)))
    with pytest.raises(RecipeError, match="expected a multiple of 9, got 20"):
        actions_to_poses(np.zeros((1, 20)), HANDS, reference=np.zeros((2, 7)))
