from collections import Counter

import pytest

from egodata.catalog.assign import assign, choose_held_out
from egodata.catalog.rules import Exclusion, HeldOutRule, PinCount
from egodata.errors import GateError


def ids(members):
    return [row.episode_id for row in members]


def test_heads_cover_what_is_selected_and_are_disjoint(rows, rule):
    result = assign(rows[::-1], rule())
    assert ids(result.heads["unseen_operator"]) == ["ep06", "ep07", "ep08", "ep09"]
    assert len(result.heads["seen"]) == 1
    together = sorted(ids(result.heads["train"]) + ids(result.heads["seen"]) + ids(result.heads["unseen_operator"]))
    assert together == ids(rows)
    assert result.left_out == {}
    assert assign(rows, rule()) == result


@pytest.mark.parametrize(("count", "ratio", "seen"), [(10, 0.2, 2), (1, 0.2, 1)])
def test_tiny_sets(row, rule, count, ratio, seen):
    result = assign([row(f"e{i}") for i in range(count)], rule(("train", "seen"), valid_ratio=ratio))
    assert (len(result.heads["train"]), len(result.heads["seen"])) == (count - seen, seen)


def test_an_empty_catalog_is_refused(rule):
    with pytest.raises(GateError, match=r"no episode is selected of 0 \(the catalog is empty\)"):
        assign([], rule())


def test_what_is_left_out_is_counted(rows, rule):
    wanted = rule(
        ("train", "seen"),
        held_out_operators=("mecka/c",),
        where={"operator": ("mecka/a", "mecka/c")},
        min_frames=52,
        exclusions=(Exclusion("ep05", "blurred"), Exclusion("gone", "never came")),
    )
    result = assign(rows, wanted)
    assert result.left_out == {"where": 4, "excluded: blurred": 1, "min_frames": 2, "held out, not a head": 2}
    assert result.absent_exclusions == ("gone",)
    assert sorted(ids(result.heads["train"]) + ids(result.heads["seen"])) == ["ep02", "ep03", "ep04"]
    with pytest.raises(GateError, match=r"no episode is selected of 12 \(where 12\)"):
        assign(rows, rule(where={"vendor": "scale"}))


def test_clips_of_one_recording_stay_together(row, rule):
    rows = [row(f"r{i}-c{k}-9", recording_id=f"r{i}", clip_index=k) for i in range(10) for k in range(3)]
    heads = assign(rows, rule(("train", "seen"))).heads
    assert len(heads["seen"]) == 6
    assert not {r.recording_id for r in heads["seen"]} & {r.recording_id for r in heads["train"]}


def test_grouping_by_session_keeps_sessions_together(row, rule):
    rows = [row(f"e{i}", session=f"s{i // 4}") for i in range(20)]
    heads = assign(rows, rule(("train", "seen"), group_by="session")).heads
    assert len({r.session for r in heads["seen"]}) == 1
    assert len(heads["seen"]) == 4


def test_a_filter_does_not_change_the_split_key(row, rule):
    """The other clip of the recording is filtered out, yet the recording still has two."""
    rows = [row("clip", recording_id="tape", aliased=True), row("short", recording_id="tape", n_frames=5)] + [
        row(f"e{i}") for i in range(9)
    ]
    heads = assign(rows, rule(("train", "seen"), min_frames=10)).heads
    without = assign([row("tape"), *rows[2:]], rule(("train", "seen"))).heads
    assert [r.recording_id for r in heads["seen"]] == [r.recording_id for r in without["seen"]]


def test_unknown_operators(row, rows, rule):
    mixed = [*rows, row("new", operator=None)]
    with pytest.raises(GateError, match=r"rule set: 1 episodes have no operator \(new\)"):
        assign(mixed, rule())
    assert "new" in ids(assign(mixed, rule(allow_null_operator=True)).heads["train"])
    assert assign(mixed, rule(("train", "seen")))  # holds nobody out, so it need not know
    with pytest.raises(GateError, match=r"held-out operator 'b' has no selected episode; known: mecka/a, mecka/b, mecka/c"):
        assign(rows, rule(held_out_operators=("b",)))


@pytest.mark.parametrize(
    ("pick", "count", "least", "expected"),
    [
        ("middle", 1, 1, ("c",)),
        ("middle", 2, 1, ("b", "c")),
        ("largest", 2, 1, ("d", "e")),
        ("smallest", 1, 1, ("a",)),
        ("smallest", 1, 2, ("b",)),
        ("middle", 1, 5, ("d",)),
    ],
)
def test_held_out_by_size(pick, count, least, expected):
    episodes = Counter({"e": 9, "d": 5, "c": 3, "b": 2, "a": 1})
    assert choose_held_out(episodes, HeldOutRule(count, least, pick), where="rule") == expected


def test_held_out_by_size_needs_enough_operators():
    with pytest.raises(
        GateError, match="held_out wants 1 of the operators with at least 4 episodes and one more to train on, got 0 such of 2"
    ):
        choose_held_out(Counter(a=3, b=2), HeldOutRule(1, 4), where="rule x")
    with pytest.raises(GateError, match="got 1 such of 1"):
        choose_held_out(Counter(a=3), HeldOutRule(), where="rule x")


def test_pins(rows, rule):
    result = assign(rows, rule(pins={"train": PinCount(2), "unseen_operator": ("ep09", "ep07")}))
    assert result.pins == {"train": tuple(ids(result.heads["train"])[:2]), "unseen_operator": ("ep09", "ep07")}
