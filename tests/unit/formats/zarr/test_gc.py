"""gc removes what nothing names, and nothing else; leases live as long as their process."""

import json
import os
import subprocess
import sys

import pytest

from egodata.annotations import TASK, Span
from egodata.catalog import HeadEpisode, Manifest
from egodata.catalog.leases import held_leases, kept_contents, lease, lease_folder, named_contents
from egodata.catalog.manifest import manifest_bytes, manifest_digest
from egodata.cli.main import cli, run as run_command
from egodata.errors import EpisodeNotFoundError, GateError
from egodata.formats.zarr import ZarrStore, attach_annotations, publish_draft, verify_episode, versions as on_disk
from egodata.formats.zarr.gc import collect_garbage
from tests.unit.formats.zarr.conftest import ID, SETTINGS


def _versions(paths):
    return [version.folder.name for version in on_disk.list_versions(paths, ID)]


def _attached(paths, content, *texts):
    """Attach once per text; returns the contents, the first one included."""
    contents = [content]
    for text in texts:
        contents.append(attach_annotations(paths, ID, {TASK: [Span(text, 0, 5)]}, expected=contents[-1]).content)
    return contents


def _manifest(content):
    made = Manifest("d", "1", "", {"train": (HeadEpisode(ID, 130, content),)}, {})
    return Manifest("d", "1", manifest_digest(made), made.heads, {})


def _freeze(paths, content):
    path = paths.manifest("d", "1")
    path.parent.mkdir(parents=True)
    path.write_bytes(manifest_bytes(_manifest(content)))
    return path


def test_only_what_nothing_names_goes(published, capsys):
    paths, digests = published
    contents = _attached(paths, digests.content, "one", "two", "three")
    _freeze(paths, contents[1])
    names = _versions(paths)
    told = collect_garbage(paths, named_contents(paths), dry_run=True)
    assert [item.version for item in told.freed] == [names[0], names[2]]
    assert _versions(paths) == names, "a dry run removes nothing"
    assert run_command(cli, ["gc", str(paths.root), "--json"], program="egodata") == 0
    said = json.loads(capsys.readouterr().out)
    assert [item["version"] for item in said["freed"]] == [names[0], names[2]]
    assert said["bytes"] == told.size_bytes > 0
    assert _versions(paths) == [names[1], names[3]]
    store = ZarrStore(paths)
    for content in (contents[1], contents[3]):
        assert verify_episode(paths, ID, content=content) == []
        assert store.open(ID, content=content).frames("front_1", [129]).shape[0] == 1
    with pytest.raises(EpisodeNotFoundError):
        store.open(ID, content=contents[2])
    assert run_command(cli, ["gc", str(paths.root)], program="egodata") == 0
    assert "0 versions, freed 0.0 MB" in capsys.readouterr().out


def test_bytes_shared_by_hard_link_are_not_counted(published):
    paths, digests = published
    _attached(paths, digests.content, "one")
    (item,) = collect_garbage(paths, set, dry_run=True).freed
    video = sum(path.stat().st_size for path in paths.episode_link(ID).rglob("*") if path.is_file())
    assert 0 < item.size_bytes < video / 2


def test_of_equal_builds_the_newest_intact_one_stays(published, draft):
    paths, digests = published
    first = _versions(paths)[0]
    element = paths.episode_link(ID) / "images.front_1" / "c" / "0"
    data = element.read_bytes()
    element.unlink()
    element.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert publish_draft(paths, draft, settings=SETTINGS) == digests
    rebuilt = _versions(paths)[1]
    contents = _attached(paths, digests.content, "new")
    _freeze(paths, contents[0])
    freed = collect_garbage(paths, named_contents(paths)).freed
    assert [item.version for item in freed] == [first]
    assert rebuilt in _versions(paths)
    assert verify_episode(paths, ID, content=digests.content) == []


def test_damaged_builds_of_a_named_content_stay_while_there_is_no_intact_one(published):
    paths, digests = published
    contents = _attached(paths, digests.content, "new")
    _freeze(paths, contents[0])
    (on_disk.list_versions(paths, ID)[0].group / "obs_head_pose" / "c" / "0" / "0").unlink()
    assert collect_garbage(paths, named_contents(paths)).freed == ()


def test_an_unreadable_manifest_stops_everything(published, capsys):
    paths, digests = published
    contents = _attached(paths, digests.content, "one", "two")
    path = _freeze(paths, contents[0])
    path.write_text(path.read_text().replace('"seed":0', '"seed":1'))
    with pytest.raises(GateError, match="dataset d@1: changed since it was frozen"):
        kept_contents(paths)
    names = _versions(paths)
    assert run_command(cli, ["gc", str(paths.root)], program="egodata") == 1
    assert "Nothing is removed" in capsys.readouterr().err
    assert _versions(paths) == names


def test_an_episode_that_is_being_written_is_left_alone(published):
    paths, digests = published
    _attached(paths, digests.content, "one")
    with on_disk.episode_lock(paths, ID):
        found = collect_garbage(paths, set)
    assert (found.freed, found.busy) == ((), (ID,))


def test_leftovers_of_killed_writers_go(published):
    paths, _ = published
    build = paths.episode_versions(ID) / ".build"
    build.mkdir()
    (paths.episode_versions(ID) / ".removed").mkdir()
    assert collect_garbage(paths, set, dry_run=True).leftovers == 0
    assert build.exists()
    assert collect_garbage(paths, set).leftovers == 2
    assert sorted(os.listdir(paths.episode_versions(ID))) == sorted([".lock", *_versions(paths)])


HOLDER = """
import sys
from pathlib import Path
from egodata.catalog import HeadEpisode, Manifest
from egodata.catalog.leases import lease
from egodata.schema.layout import open_root
manifest = Manifest("gone", "1", "d", {"train": (HeadEpisode(sys.argv[2], 130, sys.argv[3]),)}, {})
with lease(open_root(Path(sys.argv[1])), manifest):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lease_holds_while_its_process_lives_even_if_it_is_killed(published):
    paths, digests = published
    contents = _attached(paths, digests.content, "one", "two")
    command = [sys.executable, "-c", HOLDER, str(paths.root), ID, contents[0]]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    assert [kept.by for kept in held_leases(paths)] == [f"lease of process {holder.pid} on gone@1"]
    assert len(collect_garbage(paths, named_contents(paths)).freed) == 1
    assert ZarrStore(paths).open(ID, content=contents[0]).digests.content == contents[0]
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    assert held_leases(paths) == []
    assert list(lease_folder(paths).iterdir()) == []
    assert len(collect_garbage(paths, named_contents(paths)).freed) == 1
    with pytest.raises(EpisodeNotFoundError):
        ZarrStore(paths).open(ID, content=contents[0])


def test_a_lease_is_given_back(published):
    paths, digests = published
    with lease(paths, _manifest(digests.content)) as path:
        assert path.is_file()
    assert list(lease_folder(paths).iterdir()) == []
