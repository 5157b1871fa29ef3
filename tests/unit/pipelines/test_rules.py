"""Rules that a store keeps for its dataset partitions."""

from pathlib import Path

import pytest

from egodata.catalog import load_rule
from egodata.errors import ConflictError, NotFoundError, SchemaError
from egodata.schema.layout import StorePaths, open_root
from pipelines.rules import keep_rule, rule_for, rule_for_delivery


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    return open_root(tmp_path / "store", create=True)


def test_a_shipped_rule_is_used_as_it_is(paths: StorePaths) -> None:
    assert keep_rule(paths, "synthetic") == load_rule("synthetic") == rule_for(paths, "synthetic")
    with pytest.raises(NotFoundError, match="did you mean synthetic"):
        rule_for(paths, "syntetic")


def test_a_rule_of_ones_own_is_kept_and_another_of_its_name_is_refused(paths: StorePaths, tmp_path: Path) -> None:
    mine = tmp_path / "x.yaml"
    mine.write_text("name: mine\nheads: [train]\nvalid_ratio: 0\n")
    kept = keep_rule(paths, str(mine))
    assert rule_for(paths, "mine") == kept
    assert keep_rule(paths, str(mine)) == kept
    mine.write_text("name: mine\nheads: [train, seen]\nvalid_ratio: 0.5\n")
    with pytest.raises(ConflictError, match="rule mine: the store holds another one of that name"):
        keep_rule(paths, str(mine))
    assert rule_for(paths, "mine") == kept


def test_a_delivery_gets_the_vendors_rule_narrowed_to_it(paths: StorePaths) -> None:
    rule = rule_for_delivery(paths, template="joints", vendor="lerobot", delivery="monday")
    assert rule.name == "monday"
    assert rule.where == {"vendor": "lerobot", "delivery": "monday"}
    assert (rule.heads, rule.valid_ratio, rule.pins) == (
        load_rule("joints").heads,
        load_rule("joints").valid_ratio,
        load_rule("joints").pins,
    )
    assert rule_for(paths, "monday") == rule
    with pytest.raises(SchemaError, match="no '-' at the ends"):
        rule_for_delivery(paths, template="joints", vendor="lerobot", delivery="a--b")
