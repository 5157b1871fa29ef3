from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from egodata.catalog.assign import assign
from egodata.catalog.caps import read_valid_shares, valid_enough
from egodata.catalog.freeze import build_manifest
from egodata.testing.memory import MemoryStore, ramp_hands, ramp_joints


@pytest.fixture
def many(row):
    return [row(f"e{i:03d}", operator=f"mecka/{'ab'[i % 3 == 0]}", task_name=("fold", "wash")[i % 5 == 0]) for i in range(60)]


def test_caps_keep_the_first_by_hash_and_count_the_rest(many, rule):
    capped = rule(("train", "seen"), max_per_operator=12, max_per_task=15)
    result = assign(many, capped)
    kept = [row for members in result.heads.values() for row in members]
    assert max(Counter(row.operator for row in kept).values()) <= 12
    assert Counter(row.task_name for row in kept)["fold"] == 15
    assert sum(result.left_out.values()) == 60 - len(kept)
    assert set(result.left_out) == {"max_per_operator", "max_per_task"}
    assert assign(many[::-1], capped).heads == result.heads


def test_one_more_episode_pushes_out_one_at_most(many, rule, row):
    capped = rule(("train", "seen"), max_per_operator=12)

    def chosen(rows):
        return {row.episode_id for members in assign(rows, capped).heads.values() for row in members}

    before = chosen(many)
    for i in range(20):
        after = chosen([*many, row(f"new{i}", operator="mecka/a")])
        assert len(before - after) <= 1 and len(after) == 24
    assert chosen([*many, row("elsewhere", operator="mecka/z")]) == before | {"elsewhere"}


def test_seed_decides_which(many, rule):
    one, two = (assign(many, rule(("train",), max_per_operator=5, seed=seed)).heads["train"] for seed in (1, 2))
    assert one != two and len(one) == len(two) == 10


def test_valid_share_leaves_out_and_counts(many, rule):
    wanted = rule(("train",), min_valid_share={"obs_head_pose": 0.9})
    shares = {row.episode_id: {"obs_head_pose": 0.9 if i % 2 else 0.89} for i, row in enumerate(many[:40])}
    result = assign(many, wanted, shares=shares)
    assert len(result.heads["train"]) == 20
    assert result.left_out == {"min_valid_share": 40}
    manifest = build_manifest(many, wanted, provenance={}, shares=shares)
    assert manifest.rule["min_valid_share"] == {"obs_head_pose": 0.9}


def test_shares_come_from_the_masks(row, rule):
    hands = ramp_hands("h", frames=20)
    hands.arrays["left.obs_ee_pose_valid"][:5] = False
    store = MemoryStore({"h": hands, "j": ramp_joints("j", frames=10)})
    rows = [row(name, content=one.digests.content, n_frames=one.meta.total_frames) for name, one in store.episodes.items()]
    wanted = rule(("train",), min_valid_share={"left.obs_ee_pose": 0.7, "obs_head_pose": 1.0})
    found = read_valid_shares(store, rows, rule=wanted)
    assert found == {"h": {"left.obs_ee_pose": 0.75, "obs_head_pose": 1.0}, "j": {}}
    assert valid_enough(found["h"], wanted.min_valid_share) and not valid_enough(found["j"], wanted.min_valid_share)
    assert read_valid_shares(store, rows, rule=replace(wanted, min_valid_share={})) == {}
    assert np.count_nonzero(hands.arrays["left.obs_ee_pose_valid"]) == 15
