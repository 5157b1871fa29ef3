"""Which keys an epoch has, and in which order, for every kind of plan."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from egodata.errors import InputError
from egodata.sampling import BlockOrder, Share, epoch_order
from egodata.sampling.plans import Blocks, Fixed, Mixed, Uniform, largest_remainder

OFFSETS = np.array([0, 100, 100, 260, 300])
FRAMES = np.concatenate([np.arange(100), np.arange(20, 180), np.arange(40)]).astype(np.int32)


def blocks(**sizes):
    return Blocks(OFFSETS, FRAMES, 7, BlockOrder(**{"run_frames": 10, "open_runs": 4, "lanes": 2, **sizes}))


def of_rank(keys, *, batch_size, rank, ranks):
    whole = len(keys) // (batch_size * ranks)
    return keys[: whole * batch_size * ranks].reshape(whole, ranks, batch_size, 3)[:, rank]


def test_uniform_is_the_order_that_training_always_had():
    keys = Uniform(300, 5).keys(2, batch_size=8, ranks=1)
    assert np.array_equal(keys[:, 1], epoch_order(300, seed=5, epoch=2)) and set(keys[:, 2]) == {2} and set(keys[:, 0]) == {0}


@pytest.mark.parametrize("plan", [Uniform(300, 5), blocks()], ids=["uniform", "blocks"])
def test_ranks_read_together_what_is_read_in_an_epoch_each_sample_once(plan):
    for ranks in (1, 2, 3):
        keys = plan.keys(4, batch_size=8, ranks=ranks)
        parts = [of_rank(keys, batch_size=8, rank=rank, ranks=ranks) for rank in range(ranks)]
        assert len({len(part) for part in parts}) == 1, "equal steps on all ranks"
        read = np.concatenate([part.reshape(-1, 3) for part in parts])[:, 1]
        assert len(np.unique(read)) == len(read) and len(read) > 300 - 2 * ranks * 8 * (2 if isinstance(plan, Blocks) else 1)
        assert plan.count(batch_size=8, ranks=ranks) == len(keys)


def test_two_ranks_of_four_are_one_rank_of_eight_step_by_step():
    one = of_rank(Uniform(300, 5).keys(1, batch_size=8, ranks=1), batch_size=8, rank=0, ranks=1)
    two = Uniform(300, 5).keys(1, batch_size=4, ranks=2)
    together = np.concatenate([of_rank(two, batch_size=4, rank=rank, ranks=2) for rank in (0, 1)], axis=1)
    assert np.array_equal(one, together)


def test_what_block_order_leaves_out_changes_from_epoch_to_epoch():
    everything, left = set(range(300)), []
    for epoch in range(3):
        left.append(everything - set(blocks().keys(epoch, batch_size=32, ranks=1)[:, 1].tolist()))
        assert len(left[-1]) == 300 % 64
    assert left[0] != left[1] != left[2]


@pytest.mark.parametrize("open_runs", [1, 4, 16])
def test_a_lane_never_has_more_runs_open_than_it_may(open_runs):
    plan = blocks(open_runs=open_runs, lanes=1)
    order = plan.keys(0, batch_size=10, ranks=1)[:, 1]
    episode = np.searchsorted(OFFSETS, order, side="right")
    runs = list(zip(episode.tolist(), (FRAMES[order] // 10).tolist(), strict=True))
    first = {run: runs.index(run) for run in set(runs)}
    last = {run: len(runs) - 1 - runs[::-1].index(run) for run in set(runs)}
    alive = [sum(first[run] <= at <= last[run] for run in first) for at in range(len(runs))]
    assert max(alive) <= open_runs + 1
    assert open_runs == 1 or len({runs[at] for at in range(10)}) > 1, "a batch is not one run"


def test_batches_of_a_lane_are_those_of_its_number():
    plan, wide = blocks(lanes=2), blocks(lanes=1)
    lanes = plan.keys(3, batch_size=10, ranks=1)[:, 1].reshape(-1, 2, 10)
    one = wide.keys(3, batch_size=10, ranks=1)[:, 1]
    half = lanes.shape[0] * 10
    assert np.array_equal(lanes[:, 0].ravel(), one[:half]) and np.array_equal(lanes[:, 1].ravel(), one[half : 2 * half])


def test_many_open_runs_come_close_to_uniform():
    near = blocks(open_runs=30, lanes=1).keys(0, batch_size=10, ranks=1)[:, 1]
    distinct = [
        len({(int(np.searchsorted(OFFSETS, s, side="right")), int(FRAMES[s]) // 10) for s in batch}) for batch in near.reshape(-1, 10)
    ]
    assert np.mean(distinct[3:-3]) > 7.5  # uniform over 31 runs: 8.6 of 10 distinct


def test_a_mixture_keeps_its_shares_and_repeats_nothing_too_early():
    plan = Mixed(samples=(100, 30), weights=(1.0, 1.0), seeds=(1, 2), seed=3, total=130, per_batch=False)
    assert plan.counts(batch_size=8, ranks=1) == [65, 65]
    seen = [Counter(), Counter()]
    for epoch in range(6):
        keys = plan.keys(epoch, batch_size=8, ranks=1)
        assert Counter(keys[:, 0].tolist()) == {0: 65, 1: 65}
        for source, size in enumerate((100, 30)):
            mine = keys[keys[:, 0] == source]
            assert len(np.unique(mine, axis=0)) == len(mine), "a repeated sample has another epoch"
            seen[source].update(mine[:, 1].tolist())
            assert len(seen[source]) == min(size, 65 * (epoch + 1)) and max(seen[source].values()) - min(seen[source].values()) <= 1


def test_a_mixture_per_batch_has_one_head_in_each_global_batch():
    plan = Mixed(samples=(100, 30), weights=(3.0, 1.0), seeds=(1, 2), seed=3, total=130, per_batch=True)
    keys = plan.keys(0, batch_size=4, ranks=2)
    batches = keys.reshape(-1, 8, 3)
    assert len(batches) == 130 // 8 and all(len(set(batch[:, 0])) == 1 for batch in batches)
    assert Counter(batches[:, 0, 0].tolist()) == {0: 12, 1: 4}


def test_fixed_samples_are_evaluated_with_no_epoch():
    assert Fixed(np.array([5, 2, 2])).keys(9, batch_size=2, ranks=4).tolist() == [[0, 5, -1], [0, 2, -1], [0, 2, -1]]


@given(st.integers(0, 10_000), st.lists(st.floats(0.01, 100), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_shares_sum_up_and_are_within_one_of_exact(total, weights):
    shares = largest_remainder(total, weights)
    assert sum(shares) == total
    assert all(abs(share - total * weight / sum(weights)) < 1 + 1e-6 for share, weight in zip(shares, weights, strict=True))


@pytest.mark.parametrize("make", [lambda: Share(2, 2), lambda: Share(-1, 2), lambda: BlockOrder(lanes=0)])
def test_sizes_that_make_no_sense_are_refused(make):
    with pytest.raises(InputError, match="expected"):
        make()
