from dataclasses import replace

import numpy as np
import pytest

from egodata.errors import GateError, SampleError
from egodata.stats import NormStats, feature_stats
from egodata.stats.fields import FIELDS, QUANTILES, sorted_quantile, summarise
from egodata.stats.walk import plan_walks

RNG = np.random.default_rng(5)
CASES = {
    "normal": RNG.normal(size=900),
    "constant": np.full(900, 0.3),
    "almost constant": np.where(np.arange(900) % 200 == 0, 9.0, 0.3),
    "two groups": np.concatenate([RNG.uniform(0, 10, 810), RNG.uniform(0, 50, 90)]),
    "heavy tail": RNG.standard_cauchy(900),
    "far from zero": 1e4 + RNG.normal(size=900) * 1e-2,
    "tiny": RNG.normal(size=900) * 1e-20,
}


def expected(values):
    values = np.asarray(values, np.float32).astype(np.float64)
    out = {"count": len(values), "mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
    return out | {name: np.quantile(values, level) for name, level in QUANTILES.items()}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [1, 2, 50, 900])
def test_fields_equal_numpy(case, rows):
    values = CASES[case][:rows].astype(np.float32)
    found = summarise(values[None].copy())
    for name, want in expected(values).items():
        assert found[name][0] == pytest.approx(want, rel=1e-12, abs=1e-30), name
    assert tuple(found) == FIELDS


def test_fields_do_not_depend_on_the_order_of_rows():
    values = CASES["heavy tail"].astype(np.float32)
    one, two = summarise(values[None].copy()), summarise(values[None, ::-1].copy())
    assert all(one[name].tobytes() == two[name].tobytes() for name in FIELDS)


def test_a_channel_without_values_has_count_0_and_no_numbers():
    found = summarise(np.full((1, 7), np.nan, np.float32))
    assert found["count"][0] == 0
    assert all(np.isnan(found[name][0]) for name in FIELDS if name != "count")


def test_quantile_of_one_value():
    assert sorted_quantile(np.array([3.0]), 0.99) == 3.0


def test_equal_to_numpy_on_the_concatenated_rows(given):
    heads = np.random.default_rng(1)
    source = given(*(heads.normal(size=(n, 4, 3)) for n in (40, 1, 300)))
    stats = feature_stats(source)
    for step in range(4):
        for channel in range(3):
            for name, want in expected(source.action_values(step, channel)).items():
                assert stats["action"].fields[name][step, channel] == pytest.approx(want, rel=1e-12), (name, step, channel)
    for channel in range(3):
        for name, want in expected(source.proprio_values(channel)).items():
            assert stats["proprio"].fields[name][channel] == pytest.approx(want, rel=1e-12), (name, channel)
    assert stats["action"].names == ("c0", "c1", "c2")
    assert stats["action"].kept == ()


def test_rotations_are_told_to_stay(given):
    stats = feature_stats(given(np.zeros((5, 4, 18)), human=True))
    assert stats["action"].kept == (*range(3, 9), *range(12, 18))
    assert stats["proprio"].kept == (*range(3, 9), *range(13, 19))


def test_bounded_memory_walks_several_times_and_gives_the_same(given):
    actions = np.random.default_rng(2).normal(size=(100, 4, 3))
    whole, parts = given(actions), given(actions)
    once = feature_stats(whole)
    labels = []
    split = feature_stats(parts, block_bytes=100 * 3 * 4 * 2, progress=lambda label, done, total: labels.append((label, done, total)))
    assert (whole.walks, parts.walks) == (1, 3)  # two steps, two steps, proprio
    single = feature_stats(given(actions), block_bytes=1)  # one column at a time
    for feature in once:
        for name in FIELDS:
            assert once[feature].fields[name].tobytes() == split[feature].fields[name].tobytes()
            assert once[feature].fields[name].tobytes() == single[feature].fields[name].tobytes()
    assert labels == [(f"statistics {turn}/3", done, 1) for turn in (1, 2, 3) for done in (0, 1)]


def test_blocks_stay_within_the_bound(given):
    source = given(np.zeros((50, 4, 3)))
    for bound in (1, 200, 650, 10_000):
        walks = plan_walks(source, block_bytes=bound)
        for blocks in walks:
            assert sum(block.size_bytes for block in blocks) <= bound or len(blocks) == blocks[0].end - blocks[0].start == 1
        cells = [(block.feature, cell) for blocks in walks for block in blocks for cell in range(block.start, block.end)]
        assert cells == [("action", cell) for cell in range(12)] + [("proprio", cell) for cell in range(3)]


def test_a_pooled_horizon_is_one_number_per_channel(given):
    actions = np.random.default_rng(4).normal(size=(70, 4, 3))
    source = given(actions)
    source.recipe = replace(source.recipe, pool_horizon=True)
    stats = feature_stats(source)
    assert stats["action"].fields["mean"].shape == (3,)
    for channel in range(3):
        values = np.concatenate([source.action_values(step, channel) for step in range(4)])
        for name, want in expected(values).items():
            assert stats["action"].fields[name][channel] == pytest.approx(want, rel=1e-12), name
    split = feature_stats(source, block_bytes=1)
    assert all(split["action"].fields[name].tobytes() == stats["action"].fields[name].tobytes() for name in FIELDS)
    normaliser = NormStats("k", "t", "r", 1, 70, stats).normalisers()["action"]
    rows = actions.astype(np.float32)
    np.testing.assert_allclose(normaliser.inverse(normaliser.forward(rows, np.ones(rows.shape, bool))), rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_adversarial_columns_through_masks_equal_numpy(given, case):
    values = np.broadcast_to(CASES[case][:, None, None], (900, 4, 1))
    source = given(values[:1], values[1:700], values[700:])
    found = feature_stats(source, block_bytes=900 * 4)["action"]
    for step in range(4):
        for name, want in expected(source.action_values(step, 0)).items():
            assert found.fields[name][step, 0] == pytest.approx(want, rel=1e-12, abs=1e-30), name


def test_long_columns_are_summed_in_pieces():
    values = (np.random.default_rng(8).standard_t(2, 200_001) + 100).astype(np.float32)
    found = summarise(values[None].copy())
    for name, want in expected(values).items():
        assert found[name][0] == pytest.approx(want, rel=1e-13), name


def test_a_head_without_windows_is_refused(given):
    with pytest.raises(GateError, match="dataset x@1 head train: no usable frame"):
        feature_stats(given(np.zeros((0, 4, 3))), where="dataset x@1 head train")


def test_a_counted_cell_that_is_not_finite_is_named(given):
    source = given(np.zeros((5, 4, 3)), np.zeros((5, 4, 3)))
    source.parts[1].action_mask[3, 2, 1] = True
    source.parts[1].actions[3, 2, 1] = np.inf
    with pytest.raises(SampleError, match="episode e1 frame 3: a cell that is marked as measured is not finite, in 1 windows"):
        feature_stats(source)
