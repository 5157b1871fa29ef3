"""Verify finds every kind of damage; the command reports it and exits with 1."""

import json

import pytest

from egodata.cli.main import cli, run as run_command
from egodata.findings import Severity
from egodata.formats.zarr import ZarrStore, verify_episode
from tests.unit.formats.zarr.conftest import ID


def _damage(group, kind):
    if kind == "file-missing":
        (group / "obs_head_pose" / "c" / "0" / "0").unlink()
    elif kind == "file-unlisted":
        (group / "obs_head_pose" / "notes.txt").write_text("hello")
    elif kind == "file-changed":
        path = group / "images.front_1" / "c" / "2"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif kind == "integrity-missing":
        (group.parent / "integrity.json").unlink()
    elif kind == "digest-mismatch":
        path = group / "zarr.json"
        path.write_text(path.read_text().replace("move_cube", "fold_shirt"))


@pytest.mark.parametrize("kind", ["file-missing", "file-unlisted", "file-changed", "integrity-missing", "digest-mismatch"])
def test_each_kind_of_damage_is_found(published, kind):
    paths, digests = published
    assert verify_episode(paths, ID) == []
    _damage(paths.episode_link(ID).resolve(), kind)
    found = verify_episode(paths, ID)
    assert kind in {finding.code for finding in found}
    assert {finding.severity for finding in found} == {Severity.ERROR}
    assert {finding.content for finding in found} <= {digests.content, ""}


def test_the_files_named_are_the_damaged_ones(published):
    paths, _ = published
    _damage(paths.episode_link(ID).resolve(), "file-changed")
    found = {(finding.code, finding.stream) for finding in verify_episode(paths, ID)}
    assert found == {
        ("file-changed", "images.front_1/c/2"),
        ("digest-mismatch", "media"),
        ("digest-mismatch", "content"),
        ("digest-mismatch", "recorded content"),
    }


def test_the_command_verifies_and_exits_with_1(published, capsys):
    paths, _ = published
    assert run_command(cli, ["verify", str(paths.root)], program="egodata") == 0
    assert "1 episodes verified, 0 with findings" in capsys.readouterr().out
    _damage(paths.episode_link(ID).resolve(), "file-missing")
    assert run_command(cli, ["verify", str(paths.root), ID, "--json"], program="egodata") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["episodes"] == 1
    assert told["findings"][0]["code"] == "file-missing"
    assert told["findings"][0]["stream"] == "obs_head_pose/c/0/0"
    assert run_command(cli, ["verify", str(paths.root), "nobody"], program="egodata") == 2
    assert "episode nobody: not in" in capsys.readouterr().err


def test_the_command_inspects_a_store_and_an_episode(published, capsys):
    paths, digests = published
    assert run_command(cli, ["inspect", str(paths.root), "--json"], program="egodata") == 0
    (row,) = json.loads(capsys.readouterr().out)["episodes"]
    assert (row["episode"], row["frames"], row["cameras"]) == (ID, 130, "front_1")
    assert run_command(cli, ["inspect", str(paths.root), ID, "--json"], program="egodata") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["digests"] == digests.to_json()
    assert {array["array"] for array in report["arrays"]} == set(ZarrStore(paths).open(ID).meta.numeric_keys)
    assert report["cameras"][0]["elements"] == 3
    assert run_command(cli, ["inspect", str(paths.root)], program="egodata") == 0
    assert run_command(cli, ["inspect", str(paths.root), ID], program="egodata") == 0
    assert "left.obs_ee_pose" in capsys.readouterr().out
