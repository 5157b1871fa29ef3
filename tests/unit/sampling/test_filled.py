"""Rows that a vendor's gap was filled with are input and never a target."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from egodata.sampling import episode_windows, load_recipe
from egodata.sampling.arms import as_targets
from egodata.sampling.recipe import bind
from egodata.schema.features import SOURCE_FILLED, FeatureSpec, source_key
from egodata.testing.memory import ramp_hands

FPS, TOTAL = Fraction(30), 160
FILLED = slice(60, 70)
KEYS = ("left.obs_ee_pose", "left.obs_wrist_pose", "left.obs_keypoints")
STARTS = np.arange(0, 130)


def filled(episode, kind=SOURCE_FILLED):
    source = np.zeros(TOTAL, np.uint8)
    source[FILLED] = kind
    return {**episode.arrays, **{source_key(key): source for key in KEYS if key in episode.arrays}}


@pytest.fixture(scope="module")
def episode():
    return ramp_hands("h", frames=TOTAL)


def test_targets_lose_the_filled_rows_and_inputs_keep_them(episode):
    recipe = load_recipe("human_wrist6d")
    plain = episode_windows(episode.arrays, recipe, starts=STARTS, fps=FPS)
    told = episode_windows(filled(episode), recipe, starts=STARTS, fps=FPS)
    np.testing.assert_array_equal(told.proprio, plain.proprio)
    np.testing.assert_array_equal(told.proprio_mask, plain.proprio_mask)
    np.testing.assert_array_equal(told.arm_valid, plain.arm_valid)
    half = plain.action_mask.shape[-1] // 2
    np.testing.assert_array_equal(told.action_mask[..., half:], plain.action_mask[..., half:])
    at = STARTS[:, None] + np.arange(100) * 29 / 99
    touched = (np.ceil(np.round(at, 9)) >= FILLED.start) & (np.floor(np.round(at, 9)) < FILLED.stop)
    lost = plain.action_mask[..., :half] & ~told.action_mask[..., :half]
    np.testing.assert_array_equal(lost, np.repeat((touched & plain.action_mask[..., 0])[..., None], half, -1))
    kept = told.action_mask
    np.testing.assert_array_equal(told.actions[kept], plain.actions[kept])
    assert lost.any() and told.action_mask[65, :, half:].any()  # an action may start from a filled row: it is input


def test_held_and_measured_rows_change_nothing(episode):
    assert as_targets(episode.arrays) is episode.arrays
    held = filled(episode, kind=2)
    assert as_targets(held) is held


def test_the_source_is_read_where_there_is_one(episode):
    recipe = load_recipe("human_wrist6d")
    key = source_key("left.obs_ee_pose")
    assert key not in bind(recipe, episode.meta).keys
    meta = replace(episode.meta, features={**episode.meta.features, key: FeatureSpec("uint8", ())})
    assert key in bind(recipe, meta).keys
