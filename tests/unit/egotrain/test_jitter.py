"""Colours change per sample while training, by what the sample is; nothing changes in evaluation."""

from dataclasses import replace

import torch

from egotrain.conf import DataConfig
from egotrain.data import jitter_factors

CONFIG = DataConfig(batch_size=2, num_workers=0, normalisation="quantile", image_height=24, image_width=32, colour_jitter=0.1)


def test_factors_follow_from_the_sample_and_not_from_the_batch():
    alone = jitter_factors({"draws": [(0, 1, 7)]}, CONFIG)
    beside = jitter_factors({"draws": [(0, 1, 3), (0, 1, 7)]}, CONFIG)
    assert torch.equal(alone[0], beside[1]) and not torch.equal(beside[0], beside[1])
    assert not torch.equal(jitter_factors({"draws": [(0, 2, 7)]}, CONFIG), alone), "another epoch, other colours"
    assert (alone[:, :3] - 1).abs().max() <= 0.1 and alone[0, 3] == 0


def test_hue_turns_only_where_it_is_asked_for():
    assert jitter_factors({"draws": [(0, 1, 7)]}, replace(CONFIG, hue_jitter=0.05))[0, 3] != 0


def test_nothing_changes_in_evaluation_or_at_strength_zero():
    assert jitter_factors({"draws": [None, None]}, CONFIG) is None
    assert jitter_factors({"draws": [(0, 1, 7)]}, replace(CONFIG, colour_jitter=0.0)) is None
