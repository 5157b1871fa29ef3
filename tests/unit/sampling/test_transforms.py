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
    Poses,
    from_frame,
    interpolate_poses,
    into_frame,
    pack_human,
    poses_from_rows,
    rows_from_poses,
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
    start, origin = poses_from_rows(given_poses), poses_from_rows(frame)
    back = from_frame(into_frame(start, origin), origin)
    np.testing.assert_allclose(back.positions, start.positions, atol=1e-9)
    np.testing.assert_allclose(back.rotations, start.rotations, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(poses(4))
def test_rows_to_poses_and_back(rows):
    back = rows_from_poses(poses_from_rows(rows))
    np.testing.assert_allclose(back[:, :3], rows[:, :3])
    turned = np.abs(np.sum(back[:, 3:] * rows[:, 3:], axis=1))
    np.testing.assert_allclose(turned, 1, atol=1e-9)
    assert np.all(back[:, 3] >= 0)


@settings(max_examples=60, deadline=None)
@given(poses(3, 2), st.booleans())
def test_pack_and_unpack(given_poses, grip):
    start = poses_from_rows(given_poses)
    packed = pack_human(start, grip=grip)
    assert packed.shape == (3, 20 if grip else 18)
    if grip:
        assert not packed[:, [9, 19]].any()
    back = unpack_human(packed, grip=grip)
    np.testing.assert_allclose(back.positions, start.positions, atol=1e-12)
    np.testing.assert_allclose(back.rotations, start.rotations, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(poses(5, 2), poses(2), poses())
def test_wrist_actions_go_back_to_the_head_frame(future, wrists, head):
    """World poses -> wrist-frame channels in float32 -> head frame equals going to the head frame directly."""
    world, origins, head_pose = poses_from_rows(future), poses_from_rows(wrists), poses_from_rows(head)
    channels = pack_human(into_frame(world, origins), grip=False).astype(np.float32)
    reference = rows_from_poses(into_frame(origins, head_pose)).astype(np.float32)
    found, expected = actions_to_poses(channels, HANDS, reference=reference), into_frame(world, head_pose)
    np.testing.assert_allclose(found.positions, expected.positions, atol=2e-5)
    assert np.all(angle_rad(found.rotations, expected.rotations) < 1e-5)


@settings(max_examples=40, deadline=None)
@given(poses(6), poses(6), st.floats(0, 1))
def test_interpolation_keeps_both_ends_and_a_constant_turning_speed(before, after, share):
    at_start = interpolate_poses(before, after, share=np.zeros(6))
    np.testing.assert_allclose(at_start.positions, before[:, :3], atol=1e-12)
    np.testing.assert_allclose(at_start.rotations, matrix_from_quat(before[:, 3:]), atol=1e-9)
    ends = matrix_from_quat(before[:, 3:]), matrix_from_quat(after[:, 3:])
    whole = angle_rad(*ends)
    between = interpolate_poses(before, after, share=np.full(6, share)).rotations
    clear = whole < 3.1  # a half turn has two shorter arcs
    np.testing.assert_allclose(angle_rad(ends[0], between)[clear], share * whole[clear], atol=1e-6)


def test_6d_is_continuous_across_half_a_turn():
    angles = np.linspace(np.pi - 0.01, np.pi + 0.01, 21)
    quats = np.stack([np.cos(angles / 2), 0 * angles, 0 * angles, np.sin(angles / 2)], -1)
    packed = pack_human(Poses(np.zeros((21, 1, 3)), matrix_from_quat(quats)[:, None]), grip=False)
    assert np.abs(np.diff(packed, axis=0)).max() < 0.0011


def test_channels_in_other_frames_are_unpacked_as_they_are():
    recipe = replace(HANDS, action=replace(HANDS.action, coordinate_frame="head"))
    packed = np.tile([1.0, 2, 3, 1, 0, 0, 0, 1, 0], 2)[None]
    found = actions_to_poses(packed, recipe, reference=np.full((2, 7), np.nan))
    assert found.positions.tolist() == [[[1, 2, 3], [1, 2, 3]]]
    np.testing.assert_array_equal(found.rotations[0, 0], np.eye(3))


def test_joints_have_no_poses_and_odd_widths_are_refused():
    with pytest.raises(RecipeError, match="recipe joints: joints have no poses"):
        actions_to_poses(np.zeros((1, 26)), load_recipe("joints"), reference=np.zeros((0, 7)))
    with pytest.raises(RecipeError, match="expected a multiple of 9, got 20"):
        actions_to_poses(np.zeros((1, 20)), HANDS, reference=np.zeros((2, 7)))
