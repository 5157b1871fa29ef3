"""Inverse undoes forward for every recipe: packing, coordinate frames, keypoints in their own wrists; and what is masked where."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from egodata.errors import RecipeError, SchemaError
from egodata.geometry.hand import convert_left_hand
from egodata.geometry.rotation import angle_rad, matrix_from_zyx, zyx_from_matrix
from egodata.sampling import actions_to_parts, actions_to_poses, episode_windows, load_recipe
from egodata.sampling.cache import read_numbers
from egodata.sampling.transforms import ArmParts, OwnWrist, PackArms, Reexpress, actions_from_parts, points_into_frame, poses_from_rows
from egodata.testing.memory import ramp_eva, ramp_hands, ramp_joints
from tests.unit.sampling.test_oracle import EVA, HANDS, KEYPOINTS, TOTAL, VARIANTS, robot

WITH_PARTS = [recipe for recipe in VARIANTS if not recipe.action_layout.of_joints]
STARTS = np.array([0, 3, 60, 129])


def named(recipe):
    return recipe.name


@st.composite
def pose_rows(draw, *shape):
    rows = draw(arrays(np.float64, (*shape, 7), elements=st.floats(-1, 1, width=32)))
    rows[..., :3] *= 5
    short = np.linalg.norm(rows[..., 3:], axis=-1) < 0.1
    rows[short, 3:] = (1, 0, 0, 0)
    rows[..., 3:] /= np.linalg.norm(rows[..., 3:], axis=-1, keepdims=True)
    return rows


numbers = st.floats(-3, 3, width=32)


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(WITH_PARTS))
def test_arms_to_actions_and_back(data, recipe):
    """Any valid arms: the way into the recipe's channels and back in the common coordinate frame, on whatever a layout keeps."""
    layout = recipe.action_layout
    rows, reference = data.draw(pose_rows(4, 2)), data.draw(pose_rows(2))
    if layout.rotation == "ypr":
        reference[:, 3:] = rows[:, :, 3:] = (np.cos(0.4), 0.2, np.sin(0.4) * 0.6, 0.1)  # pitch away from half a right angle: elsewhere
        rows[..., 3:] /= np.linalg.norm(rows[..., 3:], axis=-1, keepdims=True)
        reference[..., 3:] /= np.linalg.norm(reference[..., 3:], axis=-1, keepdims=True)
    start = ArmParts(
        poses_from_rows(rows),
        data.draw(arrays(np.float64, (4, 2, 21, 3), elements=numbers)),
        data.draw(arrays(np.float64, (4, 2), elements=numbers)),
    )
    actions = actions_from_parts(start, recipe, reference=reference)
    assert actions.shape == (4, recipe.action_dim)
    back = actions_to_parts(actions, recipe, reference=reference)
    if "xyz" in layout.parts:
        np.testing.assert_allclose(back.poses.positions, start.poses.positions, atol=1e-9)
        if layout.rotation is None:
            assert np.isnan(back.poses.rotations).all()
        else:
            np.testing.assert_allclose(back.poses.rotations, start.poses.rotations, atol=1e-7)
    else:
        assert back.poses is None
    if "keypoints" in layout.parts:
        np.testing.assert_allclose(back.points, start.points, atol=1e-7)
    if "grip" in layout.parts:
        np.testing.assert_allclose(back.grips, start.grips, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(pose_rows(3, 2), pose_rows(2), arrays(np.float64, (3, 2, 21, 3), elements=numbers))
def test_each_transform_undoes_itself(rows, frame, points):
    start = ArmParts(poses_from_rows(rows), points, None)
    for transform in (Reexpress(poses_from_rows(frame)), Reexpress(poses_from_rows(frame), with_points=False), OwnWrist()):
        back = transform.inverse(transform.forward(start))
        np.testing.assert_allclose(back.poses.positions, start.poses.positions, atol=1e-9)
        np.testing.assert_allclose(back.poses.rotations, start.poses.rotations, atol=1e-9)
        np.testing.assert_allclose(back.points, start.points, atol=1e-9)


@pytest.mark.parametrize("recipe", WITH_PARTS, ids=named)
def test_windows_go_back_to_the_stored_poses_and_keypoints(recipe):
    """Actions of a real window, undone with the sample's reference, are the stored rows at the frames on which steps fall."""
    episode = (ramp_eva if recipe.action_layout.body == "robot" else ramp_hands)("e", frames=TOTAL)
    start, steps = 60, recipe.action_steps
    actions = episode_windows(episode.arrays, recipe, starts=np.array([start]), fps=Fraction(30)).actions[0]
    reference = np.stack([episode.arrays[f"{side}.{recipe.action.reference}"][start] for side in ("left", "right")])
    back = actions_to_parts(actions, recipe, reference=reference)
    if recipe.action.coordinate_frame == "head":  # what comes back is in the head's coordinate frame
        shared = recipe.action.keypoints_frame == "shared"
        back = Reexpress(poses_from_rows(episode.arrays["obs_head_pose"][start]), with_points=shared).inverse(back)
    length = 30 if recipe.action.window_s == 1.0 else 9
    for step in (0, steps - 1):
        frame = start + (0 if step == 0 else length - 1)
        for arm, side in enumerate(("left", "right")):
            if back.poses is not None:
                stored = poses_from_rows(episode.arrays[f"{side}.{recipe.action.feature}"][frame])
                np.testing.assert_allclose(back.poses.positions[step, arm], stored.positions, atol=1e-4)
                if recipe.action_layout.rotation is not None:
                    assert angle_rad(back.poses.rotations[step, arm], stored.rotations) < 1e-5
            if back.points is not None:
                np.testing.assert_allclose(back.points[step, arm].ravel(), episode.arrays[f"{side}.obs_keypoints"][frame], atol=3e-4)
            if recipe.action_layout.measured_grip:
                np.testing.assert_allclose(back.grips[step, arm], episode.arrays[f"{side}.cmd_gripper"][frame, 0], atol=1e-4)


@pytest.mark.parametrize("recipe", [HANDS, KEYPOINTS], ids=named)
def test_step_0_is_the_identity_where_action_and_reference_are_one_feature(recipe):
    windows = episode_windows(ramp_hands("h", frames=TOTAL).arrays, recipe, starts=np.arange(TOTAL), fps=Fraction(30))
    width = recipe.action_layout.width
    for arm in range(2):
        found = windows.actions[:, 0, arm * width : arm * width + 9]
        np.testing.assert_allclose(found, np.tile([0, 0, 0, 1, 0, 0, 0, 1, 0], (TOTAL, 1)), atol=1e-6)
    commanded = episode_windows(ramp_eva("e", frames=TOTAL).arrays, EVA, starts=STARTS, fps=Fraction(30)).actions[:, 0]
    assert np.abs(commanded[:, :3]).max() > 1  # commands are not where the arm is


def test_keypoints_without_poses_have_none_and_joints_say_so():
    with pytest.raises(RecipeError, match="layout human_126 has no poses"):
        actions_to_poses(np.zeros((1, 126)), next(r for r in VARIANTS if r.action.layout == "human_126"), reference=np.zeros((2, 7)))
    with pytest.raises(RecipeError, match="joints have no poses"):
        actions_to_parts(np.zeros((1, 14)), robot("robot_joints"), reference=np.zeros((2, 7)))
    with pytest.raises(RecipeError, match="channels keypoints: the arms have no such numbers"):
        PackArms(KEYPOINTS.action_layout).forward(ArmParts(poses_from_rows(np.ones((2, 7)))))


@settings(max_examples=60, deadline=None)
@given(st.floats(-3.1, 3.1), st.floats(-1.55, 1.55), st.floats(-3.1, 3.1))
def test_yaw_pitch_roll_come_back(yaw, pitch, roll):
    found = zyx_from_matrix(matrix_from_zyx(np.array(yaw), np.array(pitch), np.array(roll)))
    np.testing.assert_allclose(found, [yaw, pitch, roll], atol=1e-7)


@pytest.mark.parametrize("pitch", [np.pi / 2, -np.pi / 2])
def test_at_gimbal_lock_the_rotation_comes_back_with_roll_0(pitch):
    matrix = matrix_from_zyx(np.array(0.7), np.array(pitch), np.array(0.3))
    found = zyx_from_matrix(matrix)
    assert found[2] == 0
    np.testing.assert_allclose(matrix_from_zyx(*found), matrix, atol=1e-12)
    assert np.isnan(zyx_from_matrix(np.full((3, 3), np.nan))).all()


def hide(arrays, key, frames, mask=None):
    """Invalidate rows of a feature by its mask alone; the numbers stay, so that only the mask can say it."""
    mask = mask or f"{key}_valid"
    changed = arrays[mask].copy()
    changed[frames] = False
    return {**arrays, mask: changed}


def test_a_point_that_was_not_seen_is_masked_alone():
    given = ramp_hands("h", frames=TOTAL).arrays
    partly = hide(given, "right.obs_keypoints", (slice(70, 80), 1), mask="right.obs_keypoints_point_valid")
    partly = hide(partly, "right.obs_keypoints", slice(70, 80))  # as stored: the whole row is not valid, some points are
    windows = episode_windows(partly, KEYPOINTS, starts=np.array([60, 75]), fps=Fraction(30))
    thumb = 72 + 9 + 3
    away = np.zeros(144, bool)
    away[thumb : thumb + 3] = True
    for row, start in enumerate((60, 75)):
        for step in range(100):
            exact = Fraction(step * 29, 99)
            frames = {start + int(exact), start + int(exact) + (exact.denominator > 1)}
            hidden = any(70 <= frame < 80 for frame in frames)
            assert windows.action_mask[row, step].tolist() == (~away if hidden else np.ones(144, bool)).tolist()
    assert windows.arm_valid.all()
    assert windows.proprio_valid[1, 2].tolist() == (~away).tolist()


def test_a_wrist_that_was_not_seen_takes_its_keypoints_with_it_and_the_other_hand_stays():
    given = hide(ramp_hands("h", frames=TOTAL).arrays, "left.obs_wrist_pose", slice(70, 80))
    windows = episode_windows(given, KEYPOINTS, starts=np.array([75, 82]), fps=Fraction(30))
    assert not windows.action_mask[0, :, :72].any()
    assert windows.action_mask[0, :, 72:].all()
    assert windows.arm_valid[1].tolist() == [[False, True], [False, True], [True, True]]
    assert not windows.proprio_valid[1, 0, :72].any()


def test_a_gripper_that_was_not_measured_is_one_channel_and_no_arm():
    given = hide(ramp_eva("e", frames=TOTAL).arrays, "left.cmd_gripper", slice(None))
    windows = episode_windows(given, EVA, starts=STARTS, fps=Fraction(30))
    expected = np.ones(20, bool)
    expected[9] = False
    assert (windows.action_mask[2] == expected).all()
    assert windows.arm_valid.all()


def test_an_arm_whose_joints_are_not_measured_at_the_start_does_not_act():
    given = hide(ramp_eva("e", frames=TOTAL).arrays, "right.cmd_joints", slice(60, 61))
    windows = episode_windows(given, robot("robot_joints"), starts=np.array([60, 61]), fps=Fraction(30))
    assert windows.action_mask[0].any(0).tolist() == [True] * 7 + [False] * 7
    assert windows.action_mask[1].all()
    scalar = {key: rows[:, 0] if key.endswith("gripper") else rows for key, rows in given.items()}  # one number per frame
    again = episode_windows(scalar, robot("robot_joints"), starts=np.array([60, 61]), fps=Fraction(30))
    np.testing.assert_array_equal(again.actions, windows.actions)


def test_mirrored_left_hands_are_turned_by_what_the_episode_declares():
    episode = ramp_hands("h", frames=20)
    expected = read_numbers(episode, HANDS).tracks
    mirrored = dict(episode.arrays)
    for key in ("left.obs_ee_pose", "left.obs_wrist_pose"):
        mirrored[key] = convert_left_hand(episode.arrays[key], declared="anat-v1", wanted="mirror-left-v1").astype(np.float32)
    episode.arrays, episode.meta = mirrored, replace(episode.meta, hand_frame_convention="mirror-left-v1")
    found = read_numbers(episode, HANDS).tracks
    for ours, theirs in ((found.proprio, expected.proprio), (found.action, expected.action)):
        np.testing.assert_allclose(ours.poses.rotations, theirs.poses.rotations, atol=1e-6)
    episode.meta = replace(episode.meta, hand_frame_convention="unknown")
    with pytest.raises((RecipeError, SchemaError), match="hand_frame_convention: expected a declared one, got unknown"):
        read_numbers(episode, HANDS)


def test_points_in_a_frame_are_what_the_pose_says():
    quarter = poses_from_rows(np.array([1.0, 2, 3, np.sqrt(0.5), 0, 0, np.sqrt(0.5)]))  # 90 degrees about z
    np.testing.assert_allclose(points_into_frame(np.array([[1.0, 3, 3]]), quarter), [[1, 0, 0]], atol=1e-12)


def test_joint_windows_do_not_start_from_a_row_that_was_not_measured():
    given = hide(ramp_joints("j", frames=TOTAL).arrays, "cmd_joints", slice(60, 61))
    windows = episode_windows(given, load_recipe("joints"), starts=np.array([60, 61]), fps=Fraction(30))
    assert not windows.action_mask[0].any()
    assert windows.action_mask[1].all()
