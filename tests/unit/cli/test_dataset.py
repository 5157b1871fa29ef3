import json
import sys

import pytest

from egodata.catalog.rows import CatalogRow
from egodata.cli.main import cli, run
from egodata.schema.layout import open_root

RULE = """
name: set
heads: [train, seen, unseen_operator]
held_out: {min_episodes: 2}
valid_ratio: 0.2
min_frames: 10
exclusions: [{id: gone, reason: never came}]
pins: {train: {count: 1}}
"""


def catalog_row(number: int) -> CatalogRow:
    name, digest, length = f"ep{number:02d}", f"{number:064x}", 9 if number == 11 else 100
    operator = f"mecka/{'aaaaaabbbbbc'[number]}"
    return CatalogRow(
        name, name, 0, True, "mecka", "d", "d", operator, None, "t", "human_bimanual", length, 30, 1, digest, digest[::-1], (), (), True
    )


@pytest.fixture
def store(tmp_path, monkeypatch):
    rows = [catalog_row(i) for i in range(12)]
    monkeypatch.setattr(sys.modules["egodata.catalog.freeze"], "_catalog", lambda paths, format: (rows, None))
    (tmp_path / "set.yaml").write_text(RULE)
    open_root(tmp_path / "store", create=True)
    return tmp_path


def call(capsys, *words):
    status = run(cli, [str(word) for word in words], program="egodata")
    return status, *capsys.readouterr()


def test_freeze_show_list_diff(store, capsys):
    root, rule = store / "store", store / "set.yaml"
    assert "no datasets yet. Freeze one with" in call(capsys, "dataset", "list", root)[1]
    status, out, _ = call(capsys, "dataset", "freeze", root, rule)
    assert status == 0
    for text in (
        "unseen_operator",
        "held-out operators: mecka/",
        "left out: 1 (min_frames)",
        "excluded but not in the catalog: gone",
        "frozen: ",
    ):
        assert text in out
    assert "unchanged: the same content was frozen before as set@v1" in call(capsys, "dataset", "freeze", root, rule)[1]
    summary = json.loads(call(capsys, "dataset", "show", root, "set@v1", "--json")[1])
    assert sum(head["episodes"] for head in summary["heads"].values()) == 11
    assert len(summary["heads"]["train"]["pins"]) == 1
    assert json.loads(call(capsys, "dataset", "freeze", root, rule, "--version", "v2", "--json")[1])["created"]
    status, out, _ = call(capsys, "dataset", "list", root)
    assert status == 0 and "v1" in out and "v2" in out and summary["digest"][:16] in out
    assert call(capsys, "dataset", "diff", root, "set@v1", "set@v2")[:2] == (0, "no difference\n")
    (store / "set.yaml").write_text(RULE + "seed: 3\n")
    call(capsys, "dataset", "freeze", root, rule, "--version", "v3")
    status, out, _ = call(capsys, "dataset", "diff", root, "set@v1", "set@v3")
    assert status == 1
    assert "seed: 42 -> 3" in out
    status, _, err = call(capsys, "dataset", "freeze", root, rule)
    assert status == 2
    assert "already frozen with digest" in err


def test_errors_are_one_line_with_a_status(store, capsys):
    root = store / "store"
    status, out, err = call(capsys, "dataset", "show", root, "set@latest")
    assert (status, out) == (2, "")
    assert err.startswith("egodata: dataset 'set@latest': 'latest' moves") and err.count("\n") == 1
    status, _, err = call(capsys, "dataset", "freeze", root, store / "set.yaml", "--version", "latest")
    assert status == 2 and "dataset version 'latest'" in err and not (root / "datasets").exists()
    (store / "set.yaml").write_text(RULE.replace("{count: 1}", "[ep99]"))
    status, _, err = call(capsys, "dataset", "freeze", root, store / "set.yaml")
    assert status == 1  # a failed gate
    assert "pin ep99 of head train: it is in no head" in err
    status, _, err = call(capsys, "dataset", "freeze", root, "sinthetic")
    assert status == 2 and "did you mean synthetic?" in err
