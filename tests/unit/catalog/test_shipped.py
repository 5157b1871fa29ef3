"""The shipped rules on catalogs of the shape that they are for."""

import random
from dataclasses import replace

import pytest

from egodata.catalog.freeze import build_manifest
from egodata.catalog.rules import load_rule
from egodata.catalog.splits import shuffle_v1
from egodata.errors import GateError

HELD_OUT = ("6871d82a1aaf88556f0c6041", "6903a36c466be157ec64562d")
SEEN_PIN, TRAIN_PIN = "692e771c39719ab57395b408", "692e9bda21fc595fbe6f941e"
UNSEEN_PINS = ("692eadbaaec602a46af10686", "692ea49a727c13b350cb7c48")


@pytest.fixture(scope="module")
def flagship_ids():
    """1,414 made-up ids that, with the two pinned ones, split so that each pin falls into its head."""
    for seed in range(1000):
        rng = random.Random(seed)
        ids = {f"692e{rng.getrandbits(80):020x}" for _ in range(1414)}
        seen = shuffle_v1({*ids, SEEN_PIN, TRAIN_PIN}, 0.05)
        if SEEN_PIN in seen and TRAIN_PIN not in seen:
            return sorted(ids | {SEEN_PIN, TRAIN_PIN})
    raise AssertionError("no seed fits")


@pytest.fixture
def flagship(row, flagship_ids):
    """1,607 episodes of 20 operators, two of them held out with 191."""
    operators = [f"{i:024x}" for i in range(18)]
    rows = [row(name, operator=f"mecka/{operators[i % 18]}", n_frames=197) for i, name in enumerate(flagship_ids)]
    apart = [*UNSEEN_PINS, *(f"6903{i:020x}" for i in range(189))]
    return rows + [row(name, operator=f"mecka/{HELD_OUT[i % 2]}") for i, name in enumerate(apart)]


def test_flagship(flagship, row):
    other_task = row("0" * 24, task_name="wash_cups", operator=f"mecka/{HELD_OUT[0]}")
    manifest = build_manifest([*flagship, other_task], load_rule("flagship"), provenance={})
    assert {head: len(members) for head, members in manifest.heads.items()} == {"train": 1346, "seen": 70, "unseen_operator": 191}
    assert manifest.pins == {"train": (TRAIN_PIN,), "seen": (SEEN_PIN,), "unseen_operator": UNSEEN_PINS}
    assert manifest.held_out_operators == tuple(f"mecka/{operator}" for operator in HELD_OUT)
    assert manifest.provenance["left_out"] == {"where": 1}


def test_flagship_stops_at_a_pin_that_moved(flagship):
    rule = load_rule("flagship")
    with pytest.raises(GateError, match=f"pin {SEEN_PIN} of head train: it is in seen"):
        build_manifest(flagship, replace(rule, pins={**rule.pins, "train": (TRAIN_PIN, SEEN_PIN)}), provenance={})


def test_joints_on_four_episodes_without_operators(row):
    rows = [row(f"lerobot-g1-{i:06d}", vendor="lerobot", embodiment="joint_robot", operator=None) for i in (1, 10, 45, 80)]
    manifest = build_manifest([*rows, row("hand")], load_rule("joints"), provenance={})
    assert {head: len(members) for head, members in manifest.heads.items()} == {"train": 3, "seen": 1}
    assert manifest.pins == {head: (members[0].episode_id,) for head, members in manifest.heads.items()}


@pytest.mark.parametrize(("operators", "each"), [(2, 4), (3, 4), (4, 8)])
def test_synthetic_whatever_its_operators_are_called(row, operators, each):
    rows = [row(f"s{i:03d}", operator=f"mecka/{i % operators}") for i in range(operators * each)]
    manifest = build_manifest(rows, load_rule("synthetic"), provenance={})
    assert len(manifest.held_out_operators) == 1
    assert len(manifest.head("unseen_operator")) == each
    assert len(manifest.head("seen")) == max(1, int((operators - 1) * each * 0.15))
    assert all(len(pins) == 1 for pins in manifest.pins.values())
