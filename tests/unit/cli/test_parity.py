"""`egodata parity`: table, JSON, exit status."""

import json

import pytest

from egodata.catalog.freeze import freeze
from egodata.catalog.rules import DatasetRule, checked_rule
from egodata.cli.main import cli, run
from egodata.formats.lance import build_lance
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(profile="test", preset="ultrafast")


@pytest.fixture
def store(tmp_path):
    paths = open_root(tmp_path / "store", create=True)
    publish_draft(paths, small_draft(tmp_path, frames=20, episode_id="a"), settings=SETTINGS)
    build_lance(paths)
    return paths


def test_equal_formats_end_with_status_0(store, capsys):
    assert run(cli, ["parity", str(store.root)], program="egodata") == 0
    out = capsys.readouterr().out
    assert "catalog" in out and "content" in out and "passed" in out and "failed" not in out


def test_a_difference_ends_with_status_1_and_names_it(store, tmp_path, capsys):
    publish_draft(store, small_draft(tmp_path, frames=20, episode_id="b"), settings=SETTINGS)
    assert run(cli, ["parity", str(store.root)], program="egodata") == 1
    assert "catalog: episode b: in zarr, not in lance. Run `egodata lance build`." in capsys.readouterr().out
    assert run(cli, ["parity", str(store.root), "a", "--json"], program="egodata") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "passed" and found["levels"]["content"]["counts"]["episodes"] == 1


def test_a_dataset_under_a_recipe(store, capsys):
    freeze(
        store,
        checked_rule(DatasetRule(name="d", version="1", heads=("train",), where={"vendor": "mecka"}, valid_ratio=0.0)),
        format="lance",
    )
    command = ["parity", str(store.root), "d@1", "--recipe", "human_wrist6d", "--frames", "4", "--json"]
    assert run(cli, command, program="egodata") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["levels"]["loader"]["counts"]["samples"] == 8 and found["dataset"] == "d@1"


def test_a_recipe_without_a_dataset_is_an_input_error(store, capsys):
    assert run(cli, ["parity", str(store.root), "--recipe", "human_wrist6d"], program="egodata") == 2
    assert "--recipe needs a dataset" in capsys.readouterr().err
