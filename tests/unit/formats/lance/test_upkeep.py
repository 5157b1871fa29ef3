"""Compaction and cleanup keep every id, count and byte, whatever stops them and whoever writes beside them."""

import subprocess
import sys
from pathlib import Path

import lance
import pytest

from egodata.annotations import SUBTASK, Span
from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError, NotFoundError
from egodata.formats.lance import LanceStore, build_lance, cleanup_lance, commit, compact_lance, table_versions, tag_dataset, upkeep
from egodata.formats.lance.positions import episode_rows
from egodata.formats.lance.tables import TABLES, committed_versions, open_table

HELPERS = Path(__file__).with_name("conftest.py")


def everything(paths, versions=None):
    """Return every byte that a reader can ask for."""
    store = LanceStore(paths, versions=versions)
    found = {}
    for name in store.episode_ids():
        reader = store.open(name)
        keys, total = reader.meta.numeric_keys, reader.meta.total_frames
        numbers = {key: array.tobytes() for key, array in reader.rows(keys, [(0, total)] * len(keys)).items()}
        videos = [reader.video_chunk("front_1", index) for index in range(reader.video_info("front_1").chunks)]
        found[name] = (reader.digests.content, numbers, videos, {key: reader.spans(key) for key in reader.annotation_keys})
    return found


@pytest.fixture
def grown(paths, source):
    """Three builds: every table has several files, deleted rows and old versions."""
    for seed, name in enumerate("abc"):
        source.put(name, seed=seed, frames=30)
        build_lance(paths, source=source)
    source.put("b", seed=9, frames=40)
    source.episodes["a"].annotations = {SUBTASK: [Span("new", 0, 4)]}
    build_lance(paths, source=source)
    return source


def test_compaction_keeps_all_and_is_one_commit(paths, grown):
    before, old = everything(paths), table_versions(paths)
    done = compact_lance(paths)
    assert done.wrote and done.blobs == 3 and all(after == 1 for _, after in done.files.values())
    assert everything(paths) == before == everything(paths, old)
    assert table_versions(paths) == done.versions
    assert [lance.dataset(paths.lance / f"{table}.lance").version for table in TABLES] == [done.versions[table] for table in TABLES]
    assert not compact_lance(paths).wrote and table_versions(paths) == done.versions
    assert build_lance(paths, source=grown).versions == done.versions


def test_compaction_that_changes_rows_is_not_committed(monkeypatch, paths, grown):
    before, versions = everything(paths), table_versions(paths)
    real = upkeep._compacted

    def losing(paths, dataset):
        after = real(paths, dataset)
        if dataset.uri.endswith("frames.lance"):
            after.delete("episode_id = 'c' AND frame_index = 3")
            return open_table(paths, "frames")
        return after

    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "_compacted", losing)
        with pytest.raises(CorruptEpisodeError, match="compaction changed its rows, first at episode c"):
            compact_lance(paths)
    assert table_versions(paths) == versions and everything(paths) == before
    assert compact_lance(paths).wrote and everything(paths) == before


def test_a_changed_blob_is_noticed(monkeypatch, paths, grown):
    with monkeypatch.context() as patch:
        patch.setattr(upkeep.hashlib, "sha256", upkeep.hashlib.sha1)
        with pytest.raises(CorruptEpisodeError, match="episode a: camera front_1: element 0 is not what its digest says"):
            compact_lance(paths)


def test_cleanup_keeps_tags_and_newest_and_removes_the_rest(paths, grown):
    sets = committed_versions(paths)
    tag_dataset(paths, "ab" * 32, versions=sets[2])
    old, newest = everything(paths, sets[2]), everything(paths)
    planned = cleanup_lance(paths, keep=1, dry_run=True)
    assert [versions["episodes"] for versions in committed_versions(paths)] == [versions["episodes"] for versions in sets]
    done = cleanup_lance(paths, keep=1)
    assert done.removed == planned.removed and done.size_bytes > 0 and done.removed["episodes"]
    assert committed_versions(paths) == [sets[0], sets[2]]
    assert everything(paths) == newest and everything(paths, sets[2]) == old
    with pytest.raises(NotFoundError, match="cleaned up"):
        everything(paths, sets[1])


def test_cleanup_keeps_contents_that_are_named(paths, grown):
    first = next(versions for versions in reversed(committed_versions(paths)) if "b" in LanceStore(paths, versions=versions).episode_ids())
    content = LanceStore(paths, versions=first).open("b").digests.content
    done = cleanup_lance(paths, named=[("b", content), ("b", "0" * 64)], keep=1)
    assert done.unfound == (("b", "0" * 64),)
    assert LanceStore(paths).open("b", content=content).meta.total_frames == 30
    cleanup_lance(paths, keep=1)
    with pytest.raises(EpisodeNotFoundError, match="no other live version holds it"):
        LanceStore(paths).open("b", content=content)


def test_cleanup_after_compaction_takes_the_old_files_and_a_killed_builds(monkeypatch, paths, grown):
    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    grown.put("d", seed=3, frames=30)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "commit", killed)
        with pytest.raises(Killed):
            build_lance(paths, source=grown)
    compact_lance(paths)
    before = everything(paths)
    assert set(before) == {"a", "b", "c"}
    cleanup_lance(paths, keep=1)
    assert everything(paths) == before
    for table in TABLES:
        data = [path for path in (paths.lance / f"{table}.lance" / "data").iterdir() if path.suffix == ".lance"]
        assert len(data) == 1, table


WRITER = """
import importlib.util, sys, time
from pathlib import Path
from egodata.formats.lance import build_lance, compact_lance, cleanup_lance
from egodata.schema.layout import open_root
root, folder, role, helpers = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
spec = importlib.util.spec_from_file_location("helpers", helpers)
helpers = sys.modules["helpers"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helpers)
paths, store = open_root(root), helpers.MemoryStore(folder)
folder.mkdir(exist_ok=True)
for seed, name in enumerate("abc"):
    store.put(name, seed=seed, frames=30)
for turn in range(4):
    if role == "compact":
        compact_lance(paths)
        cleanup_lance(paths, keep=6)
    else:
        store.put("a", seed=turn, frames=20 + turn)
        build_lance(paths, source=store)
"""


def test_two_writers_and_a_compaction_at_once(tmp_path, paths, source):
    for seed, name in enumerate("abc"):
        source.put(name, seed=seed, frames=30)
    frozen = build_lance(paths, source=source).versions
    tag_dataset(paths, "cd" * 32, versions=frozen)
    old = everything(paths, frozen)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(paths.root), str(tmp_path / f"w{number}"), role, str(HELPERS)], stderr=subprocess.PIPE
        )
        for number, role in enumerate(("write", "write", "compact"))
    ]
    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors.decode()
    source.put("a", seed=3, frames=23)
    build_lance(paths, source=source)
    assert set(everything(paths)) == {"a", "b", "c"} and everything(paths, frozen) == old
    for table in ("frames", "videos", "episodes"):
        assert set(episode_rows(LanceStore(paths).table(table))) == {"a", "b", "c"}
    assert LanceStore(paths).table("frames").count_rows() == 23 + 30 + 30


def test_a_store_without_a_copy(paths):
    for upkept in (compact_lance, cleanup_lance):
        with pytest.raises(NotFoundError, match="no Lance table episodes"):
            upkept(paths)
