"""Oracles on ramps: every action, mask and proprio cell against a slow restatement with scipy."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

from egodata.annotations import Span
from egodata.sampling import cutoff_ends, episode_windows, load_recipe
from egodata.sampling.tracks import prepare
from egodata.schema.features import SIDES
from egodata.testing.memory import ramp_hands, ramp_joints

BORDERS = np.array([0, 1, 3, 60, 79, 80, 130, 157, 159])
TOTAL = 160
JOINTS, HANDS = load_recipe("joints"), load_recipe("human_wrist6d")


def rotation(pose):
    return Rotation.from_quat(np.asarray(pose, float)[..., [4, 5, 6, 3]])


@pytest.mark.parametrize("fps", [10, 20, 25, 30])
def test_joint_ramps_come_out_value_by_value(fps):
    episode = ramp_joints("j", frames=TOTAL, fps=Fraction(fps))
    windows = episode_windows(episode.arrays, JOINTS, starts=BORDERS, fps=Fraction(fps))
    assert windows.actions.shape == (9, 100, 3)
    assert windows.actions.dtype == np.float32
    for row, start in enumerate(BORDERS):
        for step in range(100):
            at = step * (fps - 1) / 99
            inside = start + int(np.ceil(round(at, 9))) < TOTAL
            expected = 1000 * min(start + at, TOTAL - 1) + np.arange(3)
            if inside or start + int(at) >= TOTAL - 1:  # between the last frame and its repetition both hold
                np.testing.assert_allclose(windows.actions[row, step], expected, rtol=1e-6)
            assert windows.action_mask[row, step].tolist() == [inside] * 3
        history = [start - 10, start - 5, start]
        expected_rows = [h if h >= 0 else start % 5 for h in history]
        np.testing.assert_array_equal(windows.proprio[row], episode.arrays["obs_joints"][expected_rows])
        assert windows.proprio_mask[row].tolist() == [h >= 0 for h in history]
    assert windows.arm_valid.all()
    assert windows.proprio_valid.all()


def slow_actions(arrays, start, *, fps, frame):
    """Poses of each side, resampled with scipy, in the coordinate frame wanted; one start at a time."""
    head = arrays["obs_head_pose"]
    out = []
    for side in SIDES:
        poses = arrays[f"{side}.obs_ee_pose"].astype(float)
        index = np.minimum(start + np.arange(fps), len(poses) - 1)
        at = np.arange(100) * (fps - 1) / 99
        xyz = np.stack([np.interp(at, np.arange(fps), poses[index, axis]) for axis in range(3)], -1)
        turned = Slerp(np.arange(fps), rotation(poses[index]))(np.minimum(at, fps - 1))
        origin = {"wrist": poses[start], "head": head[start].astype(float), "world": np.array([0, 0, 0, 1.0, 0, 0, 0])}[frame]
        inverse = rotation(origin).inv()
        matrix = (inverse * turned).as_matrix()
        out.append(np.concatenate([inverse.apply(xyz - origin[:3]), matrix[:, :, 0], matrix[:, :, 1]], -1))
    return np.concatenate(out, -1)


@pytest.mark.parametrize("frame", ["wrist", "head", "world"])
@pytest.mark.parametrize("fps", [10, 30])
def test_hand_actions_equal_a_slow_restatement(frame, fps):
    episode = ramp_hands("h", frames=TOTAL, fps=Fraction(fps))
    recipe = replace(HANDS, action=replace(HANDS.action, coordinate_frame=frame))
    windows = episode_windows(episode.arrays, recipe, starts=BORDERS, fps=Fraction(fps))
    for row, start in enumerate(BORDERS):
        np.testing.assert_allclose(windows.actions[row], slow_actions(episode.arrays, start, fps=fps, frame=frame), atol=3e-5)
        real = [start + int(np.ceil(round(step * (fps - 1) / 99, 9))) < TOTAL for step in range(100)]
        assert windows.action_mask[row].all(-1).tolist() == real
        assert windows.action_mask[row].any(-1).tolist() == real


def test_proprio_is_in_the_head_frame_of_the_sample_for_every_history_step():
    arrays = ramp_hands("h", frames=TOTAL).arrays
    windows = episode_windows(arrays, HANDS, starts=BORDERS, fps=Fraction(30))
    assert windows.proprio.shape == (9, 3, 20)
    for row, start in enumerate(BORDERS):
        head = arrays["obs_head_pose"][start].astype(float)
        for k, step in enumerate((start - 10, start - 5, start)):
            source = step if step >= 0 else start % 5
            for arm, side in enumerate(SIDES):
                pose = arrays[f"{side}.obs_ee_pose"][source].astype(float)
                matrix = (rotation(head).inv() * rotation(pose)).as_matrix()
                expected = [*rotation(head).inv().apply(pose[:3] - head[:3]), *matrix[:, 0], *matrix[:, 1], 0.0]
                np.testing.assert_allclose(windows.proprio[row, k, 10 * arm : 10 * arm + 10], expected, atol=3e-5)


def test_step_0_of_wrist_actions_is_the_identity():
    windows = episode_windows(ramp_hands("h", frames=TOTAL).arrays, HANDS, starts=np.arange(TOTAL), fps=Fraction(30))
    identity = [0, 0, 0, 1, 0, 0, 0, 1, 0]
    np.testing.assert_allclose(windows.actions[:, 0], np.tile(identity * 2, (TOTAL, 1)), atol=1e-6)


def test_one_start_gives_the_same_numbers_as_all_starts():
    arrays = ramp_hands("h", frames=50).arrays
    for recipe, given in ((HANDS, arrays), (JOINTS, ramp_joints("j", frames=50).arrays)):
        together = episode_windows(given, recipe, starts=np.arange(50), fps=Fraction(30))
        for start in range(50):
            alone = episode_windows(given, recipe, starts=np.array([start]), fps=Fraction(30))
            for name in ("actions", "action_mask", "proprio", "proprio_mask", "arm_valid", "proprio_valid"):
                np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[start])


def test_signs_of_quaternions_do_not_matter():
    arrays = dict(ramp_hands("h", frames=TOTAL).arrays)
    expected = episode_windows(arrays, HANDS, starts=BORDERS, fps=Fraction(30)).actions
    flips = np.where(np.random.default_rng(0).random(TOTAL) < 0.5, -1, 1).astype(np.float32)
    for side in SIDES:
        pose = arrays[f"{side}.obs_ee_pose"].copy()
        pose[:, 3:] *= flips[:, None]
        arrays[f"{side}.obs_ee_pose"] = pose
    np.testing.assert_allclose(episode_windows(arrays, HANDS, starts=BORDERS, fps=Fraction(30)).actions, expected, atol=1e-6)


def hidden(arrays, side, frames):
    """Invalidate a hand: NaN rows and mask False, as stored."""
    arrays = dict(arrays)
    pose, mask = arrays[f"{side}.obs_ee_pose"].copy(), arrays[f"{side}.obs_ee_pose_valid"].copy()
    pose[frames], mask[frames] = np.nan, False
    arrays[f"{side}.obs_ee_pose"], arrays[f"{side}.obs_ee_pose_valid"] = pose, mask
    return arrays


def test_a_hand_that_is_missing_for_a_while_is_masked_where_either_neighbour_is_missing():
    arrays = hidden(ramp_hands("h", frames=TOTAL).arrays, "left", slice(10, 20))
    windows = episode_windows(arrays, HANDS, starts=np.arange(TOTAL), fps=Fraction(30))
    for start in (0, 5, 9, 20, 25):
        for step in range(100):
            exact = Fraction(step * 29, 99)
            neighbours = {start + int(exact), start + int(exact) + (exact.denominator > 1)}
            left = not any(10 <= frame < 20 for frame in neighbours)
            assert windows.action_mask[start, step].tolist() == [left] * 9 + [True] * 9
            assert np.isfinite(windows.actions[start, step]).tolist() == [left] * 9 + [True] * 9
    assert not windows.action_mask[10:20, :, :9].any()  # the reference pose is invalid: no action of that arm
    assert windows.action_mask[10:20, :, 9:].all()
    assert windows.arm_valid[22].tolist() == [[False, True], [False, True], [True, True]]
    assert windows.proprio_valid[22, 0].tolist() == [False] * 10 + [True] * 10


@pytest.mark.parametrize("frame", ["wrist", "head", "world"])
def test_an_arm_that_is_invalid_at_the_start_has_no_actions_in_any_frame(frame):
    arrays = hidden(ramp_hands("h", frames=TOTAL).arrays, "left", slice(10, 20))
    recipe = replace(HANDS, action=replace(HANDS.action, coordinate_frame=frame))
    windows = episode_windows(arrays, recipe, starts=np.array([15, 20]), fps=Fraction(30))
    assert not windows.action_mask[0, :, :9].any()
    assert windows.action_mask[0, :, 9:].all()
    assert windows.action_mask[1].all()


def test_a_mask_wins_over_numbers_that_look_good():
    arrays = dict(ramp_hands("h", frames=TOTAL).arrays)
    mask = arrays["right.obs_ee_pose_valid"].copy()
    mask[40:] = False
    arrays["right.obs_ee_pose_valid"] = mask
    windows = episode_windows(arrays, HANDS, starts=np.array([50]), fps=Fraction(30))
    assert not windows.action_mask[0, :, 9:].any()
    assert np.isnan(windows.actions[0, :, 9:]).all()


def test_without_a_head_pose_wrist_actions_stay_and_proprio_goes():
    arrays = dict(ramp_hands("h", frames=TOTAL).arrays)
    mask = arrays["obs_head_pose_valid"].copy()
    mask[70] = False
    arrays["obs_head_pose_valid"] = mask
    windows = episode_windows(arrays, HANDS, starts=np.array([70, 75]), fps=Fraction(30))
    assert windows.action_mask.all()
    assert not windows.arm_valid[0].any()
    assert windows.arm_valid[1].all()  # the history is in the head frame of frame 75


def test_span_cutoff_pads_with_mask_0_and_repeats_the_last_action_of_the_span():
    arrays = ramp_joints("j", frames=TOTAL).arrays
    starts = np.array([50, 59, 60])
    ends = cutoff_ends([Span("fold", 40, 60)], starts, total=TOTAL)
    windows = episode_windows(arrays, JOINTS, starts=starts, fps=Fraction(30), ends=ends)
    assert windows.action_mask[0].all(-1).sum() == sum(np.ceil(step * 29 / 99) <= 9 for step in range(100))
    np.testing.assert_array_equal(windows.actions[0, -1], arrays["cmd_joints"][59])
    assert windows.action_mask[1].all(-1).tolist() == [True] + [False] * 99
    assert windows.action_mask[2].all()


def test_reference_poses_are_the_wrists_in_the_head_frame():
    arrays = ramp_hands("h", frames=TOTAL).arrays
    found = prepare(arrays, HANDS).reference[33]
    head = arrays["obs_head_pose"][33].astype(float)
    for arm, side in enumerate(SIDES):
        pose = arrays[f"{side}.obs_ee_pose"][33].astype(float)
        np.testing.assert_allclose(found[arm, :3], rotation(head).inv().apply(pose[:3] - head[:3]), atol=1e-5)
        np.testing.assert_allclose(rotation(found[arm]).as_matrix(), (rotation(head).inv() * rotation(pose)).as_matrix(), atol=1e-6)
    assert prepare(ramp_joints("j", frames=5).arrays, JOINTS).reference.shape == (5, 0, 7)
