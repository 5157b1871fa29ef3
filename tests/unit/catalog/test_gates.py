from dataclasses import replace

import pytest

from egodata.catalog.freeze import build_manifest
from egodata.catalog.gates import check_gates
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.errors import GateError


@pytest.fixture
def good(rows, rule):
    return build_manifest(rows, rule(), provenance={})


def swapped(manifest: Manifest, head: str, episodes) -> Manifest:
    return replace(manifest, heads={**manifest.heads, head: tuple(episodes)})


def test_a_good_one_passes(good):
    check_gates(good)


def test_empty_heads_are_refused(good, rows, rule):
    with pytest.raises(GateError, match="dataset set@v1: head seen is empty, expected at least one episode"):
        check_gates(swapped(good, "seen", []))
    with pytest.raises(GateError, match="head train is empty"):
        build_manifest(rows[:1], rule(("train", "seen")), provenance={})
    with pytest.raises(GateError, match="head seen is empty"):  # hash-v1 has no minimum
        build_manifest(rows, rule(("train", "seen"), algorithm="hash-v1", valid_ratio=1e-9), provenance={})
    with pytest.raises(GateError, match="no head train"):
        check_gates(replace(good, heads={"seen": good.head("seen")}))


def test_order_inside_a_head(good):
    with pytest.raises(GateError, match="head train: ids are not sorted and distinct"):
        check_gates(swapped(good, "train", good.head("train")[::-1]))
    with pytest.raises(GateError, match="head train: ids are not sorted and distinct"):
        check_gates(swapped(good, "train", good.head("train")[:1] * 2))


def test_an_episode_in_two_heads(good):
    first = good.head("train")[0]
    with pytest.raises(GateError, match=rf"share one episode: {first.episode_id} \(train\) and {first.episode_id} \(seen\)"):
        check_gates(swapped(good, "seen", [first]))


def test_a_recording_in_two_heads(rows, rule):
    """A held-out operator's clip of a recording that another operator is in too."""
    shared = [replace(rows[0], recording_id="tape"), *rows[1:6], replace(rows[6], recording_id="tape", clip_index=1), *rows[7:]]
    with pytest.raises(
        GateError, match=r"1 pairs of episodes in two heads share one recording: ep00 \((train|seen)\) and ep06 \(unseen_operator\)"
    ):
        build_manifest(shared, rule(), provenance={})


def test_the_same_media_under_two_ids(rows, rule):
    twins = [*rows[:6], replace(rows[6], media=rows[0].media), *rows[7:]]
    with pytest.raises(GateError, match=r"share one media digest: ep00 \((train|seen)\) and ep06 \(unseen_operator\)"):
        build_manifest(twins, rule(), provenance={})


def test_a_session_in_two_heads_only_where_the_rule_groups_by_it(good):
    seen = replace(good.head("seen")[0], session="monday")
    train = [replace(good.head("train")[0], session="monday"), *good.head("train")[1:]]
    mixed = swapped(swapped(good, "train", train), "seen", [seen])
    check_gates(mixed)
    with pytest.raises(GateError, match="share one session"):
        check_gates(replace(mixed, rule={**mixed.rule, "group_by": "session"}))
    with pytest.raises(GateError, match="share one operator"):
        check_gates(replace(good, rule={**good.rule, "group_by": "operator"}))


def test_held_out_operators(good):
    leaked = [replace(good.head("train")[0], operator="mecka/b"), *good.head("train")[1:]]
    with pytest.raises(GateError, match=f"head train holds 1 episodes of held-out operators: {leaked[0].episode_id}"):
        check_gates(swapped(good, "train", leaked))
    stray = HeadEpisode("ep99", 10, "c", "m", operator="mecka/a")
    with pytest.raises(GateError, match="head unseen_operator holds 1 episodes of other operators: ep99"):
        check_gates(swapped(good, "unseen_operator", [*good.head("unseen_operator"), stray]))


def test_a_pin_outside_its_head_names_where_it_went(rows, rule):
    with pytest.raises(
        GateError,
        match="pin ep08 of head train: it is in unseen_operator; move or remove the pin; pin gone of head train: it is in no head",
    ):
        build_manifest(rows, rule(pins={"train": ("ep08", "gone")}), provenance={})


def test_only_the_first_five_are_shown(good):
    members = [HeadEpisode(f"x{i}", 9, f"c{i}", f"m{i}", operator="mecka/b") for i in range(8)]
    with pytest.raises(GateError, match="holds 8 episodes of held-out operators: x0, x1, x2, x3, x4 and 3 more"):
        check_gates(swapped(good, "seen", members))
