"""`egodata lance`: counts, no work twice, exit status."""

import json

from egodata.catalog import DatasetRule, freeze
from egodata.catalog.leases import lease
from egodata.cli.main import cli, run
from egodata.formats import open_store
from egodata.formats.lance import build_lance
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(profile="test", preset="ultrafast")


def test_build_twice_says_that_nothing_was_left_to_do(tmp_path, capsys):
    paths = open_root(tmp_path / "store", create=True)
    publish_draft(paths, small_draft(tmp_path, frames=20), settings=SETTINGS)
    assert run(cli, ["lance", "build", str(paths.root)], program="egodata") == 0
    assert "lance: 1 added, 0 changed, 0 removed, 0 unchanged" in capsys.readouterr().out
    assert run(cli, ["lance", "build", str(paths.root)], program="egodata") == 0
    assert "lance: nothing to do, 1 episodes unchanged" in capsys.readouterr().out
    assert run(cli, ["lance", "build", str(paths.root), "--json"], program="egodata") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unchanged"] == 1 and set(found["versions"]) == {"videos", "frames", "annotations", "episodes"}


def test_a_folder_that_is_no_store_is_an_input_error(tmp_path, capsys):
    assert run(cli, ["lance", "build", str(tmp_path / "none")], program="egodata") == 2
    assert "no store.json there" in capsys.readouterr().err


def test_compact_and_cleanup_honour_datasets_and_leases(tmp_path, capsys):
    paths = open_root(tmp_path / "store", create=True)
    for name in ("b", "a"):
        publish_draft(paths, small_draft(tmp_path, frames=20, episode_id=name), settings=SETTINGS)
        build_lance(paths)
    rule = DatasetRule(name="d", heads=("train",), valid_ratio=0.0, where={"episode_id": "a"})
    frozen = freeze(paths, rule, version="1").manifest
    old = open_store(paths, "lance").open("a").digests.content
    for seed in (1, 2, 3, 4):
        publish_draft(paths, small_draft(tmp_path, frames=20, seed=seed, episode_id="a"), settings=SETTINGS)
        build_lance(paths)
    leased = freeze(paths, rule, version="2", format="zarr").manifest
    assert run(cli, ["lance", "compact", str(paths.root)], program="egodata") == 0
    assert "2 video elements checked" in capsys.readouterr().out
    with lease(paths, leased):
        assert run(cli, ["lance", "cleanup", str(paths.root), "--keep", "1", "--dry-run"], program="egodata") == 0
        out = capsys.readouterr().out
        assert "would remove versions" in out and "honoured: lease of process" in out and "on d@2" in out
        assert run(cli, ["lance", "cleanup", str(paths.root), "--keep", "1", "--json"], program="egodata") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["removed"]["episodes"] and found["unfound"] == [] and found["bytes"] > 0
    (member,) = frozen.head("train")
    assert member.content == old
    assert open_store(paths, "lance", versions=frozen.lance_versions).open("a", content=old).meta.total_frames == 20
    assert open_store(paths, "lance").open("a", content=leased.head("train")[0].content).meta.total_frames == 20
