"""The shipped rules on catalogs of the shape that they are for."""

import random
from dataclasses import replace

import pytest

from egodata.catalog.freeze import build_manifest
from egodata.catalog.rules import load_rule
from egodata.catalog.splits import shuffle_v1
from egodata.errors import GateError
from egodata.sampling import auto_per_episode

HELD_OUT = ("6871d82a1aaf88556f0c6041", "6903a36c466be157ec64562d")
LARGEST = ("6903686e0e94ce070afd1f24", "690366b20e94ce070afd1e8a", "683785ac01ca734152093448")
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
    """1,607 episodes of 20 operators: three large ones with 1,079, fifteen others, two held out with 191."""
    sizes = [*zip(LARGEST, (405, 360, 314), strict=True), *((f"{i:024x}", 23 if i < 7 else 22) for i in range(15))]
    owners = [operator for operator, size in sizes for _ in range(size)]
    random.Random(0).shuffle(owners)
    rows = [row(name, operator=f"mecka/{owner}", n_frames=197) for name, owner in zip(flagship_ids, owners, strict=True)]
    apart = [*UNSEEN_PINS, *(f"6903{i:020x}" for i in range(189))]
    return rows + [row(name, operator=f"mecka/{HELD_OUT[i % 2]}") for i, name in enumerate(apart)]


def test_flagship(flagship, row):
    other_task = row("0" * 24, task_name="wash_cups", operator=f"mecka/{HELD_OUT[0]}")
    manifest = build_manifest([*flagship, other_task], load_rule("flagship"), provenance={})
    assert {head: len(members) for head, members in manifest.heads.items()} == {"train": 1346, "seen": 70, "unseen_operator": 191}
    assert manifest.pins == {"train": (TRAIN_PIN,), "seen": (SEEN_PIN,), "unseen_operator": UNSEEN_PINS}
    assert manifest.held_out_operators == tuple(f"mecka/{operator}" for operator in HELD_OUT)
    assert manifest.provenance["left_out"] == {"where": 1}


def test_frames_per_episode_of_the_three_heads(flagship):
    manifest = build_manifest(flagship, load_rule("flagship"), provenance={})
    assert len({episode.operator for head in manifest.heads for episode in manifest.head(head)}) == 20
    assert [auto_per_episode(len(manifest.head(head))) for head in ("seen", "train", "unseen_operator")] == [73, 3, 26]


@pytest.mark.parametrize(("name", "train", "seen"), [("flagship_top1", 385, 20), ("flagship_top3", 1026, 53)])
def test_variants_of_the_flagship(flagship, name, train, seen):
    manifest = build_manifest(flagship, load_rule(name), provenance={})
    assert {head: len(members) for head, members in manifest.heads.items()} == {"train": train, "seen": seen, "unseen_operator": 191}
    assert manifest.pins["unseen_operator"] == UNSEEN_PINS


def test_flagship_stops_at_a_pin_that_moved(flagship):
    rule = load_rule("flagship")
    with pytest.raises(GateError, match=f"pin {SEEN_PIN} of head train: it is in seen"):
        build_manifest(flagship, replace(rule, pins={**rule.pins, "train": (TRAIN_PIN, SEEN_PIN)}), provenance={})
    reseeded = next(seed for seed in range(100) if SEEN_PIN not in shuffle_v1([r.episode_id for r in flagship[:1416]], 0.05, seed=seed))
    with pytest.raises(GateError, match=f"pin {SEEN_PIN} of head seen: it is in train; move or remove the pin"):
        build_manifest(flagship, replace(rule, seed=reseeded), provenance={})
    given_away = [replace(r, operator=f"mecka/{HELD_OUT[0]}") if r.episode_id == TRAIN_PIN else r for r in flagship]
    with pytest.raises(GateError, match=f"pin {TRAIN_PIN} of head train: it is in unseen_operator"):
        build_manifest(given_away, rule, provenance={})
    gone = [r for r in flagship if r.episode_id != UNSEEN_PINS[0]]
    with pytest.raises(GateError, match=f"pin {UNSEEN_PINS[0]} of head unseen_operator: it is in no head"):
        build_manifest(gone, rule, provenance={})


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
