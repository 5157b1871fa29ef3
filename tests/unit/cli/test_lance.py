"""`egodata lance build`: counts, no work twice, exit status."""

import json

from egodata.cli.main import cli, run
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
