import pytest

from egodata.catalog.rows import CatalogRow
from egodata.catalog.rules import (
    ADDED_FIELDS,
    FILTER_TYPES,
    DatasetRule,
    Exclusion,
    HeldOutRule,
    PinCount,
    checked_rule,
    load_rule,
    matches,
    rule_identity,
)
from egodata.errors import ConfigError, NotFoundError, SchemaError


def written(tmp_path, text):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return load_rule(str(path))


@pytest.mark.parametrize(("name", "heads"), [("synthetic", 3), ("joints", 2), ("flagship", 3)])
def test_shipped_rules_load(name, heads):
    rule = load_rule(name)
    assert rule.name == name
    assert len(rule.heads) == heads


def test_flagship_names_the_published_operators_and_pins():
    rule = load_rule("flagship")
    assert rule.held_out_operators == ("mecka/6871d82a1aaf88556f0c6041", "mecka/6903a36c466be157ec64562d")
    assert rule.pins["seen"] == ("692e771c39719ab57395b408",)
    assert rule.pins["train"] == ("692e9bda21fc595fbe6f941e",)
    assert rule.pins["unseen_operator"] == ("692eadbaaec602a46af10686", "692ea49a727c13b350cb7c48")
    assert (rule.valid_ratio, rule.algorithm, rule.seed) == (0.05, "shuffle-v1", 42)


def test_unknown_rule_lists_the_nearest():
    with pytest.raises(NotFoundError, match=r"did you mean synthetic\?"):
        load_rule("synthetics")


def test_every_key_is_read(tmp_path):
    rule = written(
        tmp_path,
        """
        name: mine
        version: "2025.1"
        heads: [unseen_operator, train, seen]
        where: {vendor: [mecka, scale], operator: [null, mecka/a], has_calibration: true, cameras: front_1}
        held_out: {count: 2, min_episodes: 70, pick: largest}
        valid_ratio: 0.1
        algorithm: hash-v1
        seed: 7
        group_by: session
        allow_null_operator: true
        pins: {seen: [a, b], train: {count: 3}}
        min_frames: 30
        exclusions: [{id: bad, reason: wrong room}]
        """,
    )
    assert rule == DatasetRule(
        name="mine",
        version="2025.1",
        heads=("train", "seen", "unseen_operator"),
        where={"vendor": ("mecka", "scale"), "operator": (None, "mecka/a"), "has_calibration": True, "cameras": "front_1"},
        held_out=HeldOutRule(2, 70, "largest"),
        valid_ratio=0.1,
        algorithm="hash-v1",
        seed=7,
        group_by="session",
        allow_null_operator=True,
        pins={"seen": ("a", "b"), "train": PinCount(3)},
        min_frames=30,
        exclusions=(Exclusion("bad", "wrong room"),),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("where: {vendr: mecka}", r"where\.vendr: no such column; did you mean vendor"),
        ("where: {n_frames: many}", r"where\.n_frames: expected int, got 'many'"),
        ("where: {has_calibration: 1}", r"where\.has_calibration: expected bool, got 1"),
        ("where: {vendor: null}", r"where\.vendor: expected str, got None"),
        ("heads: [seen]", "train among them"),
        ("heads: [train, train]", "each at most once"),
        ("heads: [train]", "valid_ratio: expected above 0 exactly where heads has seen"),
        ("valid_ratio: 0", "valid_ratio: expected above 0 exactly where heads has seen"),
        ("valid_ratio: 1.0", "valid_ratio: expected at least 0 and below 1, got 1.0"),
        ("heads: [train, seen, unseen_operator]", "unseen_operator needs held_out_operators or held_out"),
        ("held_out_operators: [mecka/a]\nheld_out: {}", "not both"),
        ("held_out: {count: 0}", "count and min_episodes of at least 1"),
        ("pins: {unseen_operator: [a]}", r"pins\.unseen_operator: not among heads"),
        ("pins: {seen: [a, a]}", r"pins\.seen: an episode is named twice"),
        ("pins: {seen: {count: -1}}", "expected at least 0, got -1"),
        ("min_frames: 0", "min_frames: expected at least 1, got 0"),
        ("max_per_operator: 0", "max_per_operator: expected at least 1, got 0"),
        ("max_per_task: -1", "max_per_task: expected at least 1, got -1"),
        ("min_valid_share: {obs_head_pose: 1.5}", r"min_valid_share\.obs_head_pose: expected above 0 and at most 1, got 1\.5"),
        ("allow_null_session: true", "allow_null_session: only with group_by session, got recording"),
        ("algorithm: shuffle", "algorithm"),
        ("filter: x == 1", "filter"),
        ("exclusions: [bad]", "exclusions"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, line, message):
    start = "name: mine\n" + ("" if line.startswith("heads") else "heads: [train, seen]\n")
    with pytest.raises(ConfigError, match=message):
        written(tmp_path, start + line)


@pytest.mark.parametrize("name", ["a--b", "a/b", ""])
def test_names_are_checked(name):
    with pytest.raises(SchemaError):
        checked_rule(DatasetRule(name=name, heads=("train",), valid_ratio=0.0))


def test_filters_are_equality_or_one_of(row):
    one = row("a", cameras=("front_1", "left_wrist"), operator=None)
    assert matches(one, {})
    assert matches(one, {"vendor": "mecka", "n_frames": (99, 100)})
    assert not matches(one, {"vendor": "mecka", "n_frames": 99})
    assert matches(one, {"cameras": ("left_wrist", "right_wrist")})
    assert not matches(one, {"cameras": "right_wrist"})
    assert matches(one, {"operator": None})


def test_every_column_of_the_catalog_can_be_asked_for():
    assert set(FILTER_TYPES) == set(CatalogRow.__dataclass_fields__)


def test_identity_of_a_rule_ignores_how_it_was_written(rule):
    one = rule(("train", "seen"), where={"vendor": "mecka"}, exclusions=(Exclusion("a", "x"), Exclusion("b", "y")))
    two = rule(("seen", "train"), where={"vendor": ("mecka",)}, exclusions=(Exclusion("b", "y"), Exclusion("a", "x")), version="v9")
    assert rule_identity(one) == rule_identity(two)
    assert rule_identity(one) != rule_identity(rule(("train", "seen"), where={"vendor": "scale"}))


def test_fields_added_later_do_not_change_older_digests(rule):
    assert not set(ADDED_FIELDS) & set(rule_identity(rule(("train", "seen"))))
    limits = {"min_valid_share": {"a": 0.5}, "max_per_operator": 2, "max_per_task": 3}
    used = rule(("train", "seen"), group_by="session", allow_null_session=True, **limits)
    assert set(ADDED_FIELDS) <= set(rule_identity(used))
