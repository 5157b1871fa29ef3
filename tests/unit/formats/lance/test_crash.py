"""A build killed around every commit, and its retry: readers see old or new, and no row is doubled or lost."""

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import lance
import pytest
from filelock import FileLock

from egodata.annotations import SUBTASK, Span
from egodata.errors import ConflictError, InputError
from egodata.formats.lance import LanceStore, build, build_lance, commit, table_versions
from egodata.formats.lance.positions import episode_rows
from egodata.formats.lance.tables import TABLES

HELPERS = Path(__file__).with_name("conftest.py")
KILLED_BUILD = """
import importlib.util, os, signal, sys
from pathlib import Path
import lance
from egodata.formats.lance import build, commit
from egodata.schema.layout import open_root

root, folder, point, helpers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
spec = importlib.util.spec_from_file_location("helpers", helpers)
helpers = sys.modules["helpers"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helpers)
done = 0

def counted(function):
    def call(*args, **options):
        global done
        if done == point:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        return function(*args, **options)
    return call

commit.commit = counted(commit.commit)
lance.LanceDataset.add_columns = counted(lance.LanceDataset.add_columns)
build.build_lance(open_root(root), source=helpers.second_generation(helpers.MemoryStore(folder)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def helpers():
    spec = importlib.util.spec_from_file_location("lance_helpers", HELPERS)
    module = sys.modules["lance_helpers"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_equal_to_source(paths, source):
    """The pinned versions, and the newest ones, hold exactly the source's episodes once each."""
    store = LanceStore(paths)
    assert store.episode_ids() == source.episode_ids()
    for name, episode in source.episodes.items():
        reader = store.open(name, content=episode.digests.content)
        keys, total = episode.meta.numeric_keys, episode.meta.total_frames
        for key, array in reader.rows(keys, [(0, total)] * len(keys)).items():
            assert array.tobytes() == episode.arrays[key].tobytes()
        assert [reader.video_chunk("front_1", i) for i in range(reader.video_info("front_1").chunks)] == episode.chunks
        assert reader.spans(SUBTASK) == episode.spans(SUBTASK)
    assert len(episode_rows(store.table("frames"))) == len(source.episodes)


@pytest.fixture
def first(paths, source):
    for seed, name in enumerate("abc"):
        source.put(name, seed=seed, frames=30)
    build_lance(paths, source=source)
    return source


@pytest.mark.parametrize("point", [1, 2, 3, 4])
def test_sigkill_between_two_commits_then_retry(tmp_path, paths, first, point):
    """Points: before videos, frames, annotations, episodes; the feature column is committed before all of them."""
    before = table_versions(paths)
    command = [sys.executable, "-c", KILLED_BUILD, str(paths.root), str(tmp_path), str(point), str(HELPERS)]
    died = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert table_versions(paths) == before
    assert_equal_to_source(paths, first)
    source = helpers().second_generation(helpers().MemoryStore(tmp_path))
    built = build_lance(paths, source=source)
    assert (built.added, built.changed, built.removed, built.unchanged) == (1, 1, 1, 1)
    assert_equal_to_source(paths, source)
    for table in TABLES:
        assert lance.dataset(paths.lance / f"{table}.lance").version == built.versions[table]
    assert build_lance(paths, source=source).versions == built.versions


class Killed(BaseException):
    """Stands for a kill at a point in this process."""


def dying(function, point):
    left = [point]

    def call(*args, **options):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return function(*args, **options)

    return call


@pytest.mark.parametrize("point", range(4))
def test_killed_while_the_tables_are_made(monkeypatch, paths, source, point):
    source.put("a", frames=20)
    with monkeypatch.context() as patch:
        patch.setattr(build, "_empty_table", dying(build._empty_table, point))
        with pytest.raises(Killed):
            build_lance(paths, source=source)
    assert build_lance(paths, source=source).added == 1
    assert_equal_to_source(paths, source)


@pytest.mark.parametrize("point", range(4))
def test_leftovers_are_swept_when_there_is_nothing_else_to_do(monkeypatch, paths, first, point):
    """The killed build's change is taken back in the source: the next build leaves no row that nothing names."""
    kept = first.episodes["b"].annotations, first.episodes["b"].arrays["obs_head_pose"]
    first.episodes["b"].annotations = {SUBTASK: [Span("new", 0, 4)]}
    first.episodes["b"].arrays["obs_head_pose"] = kept[1] + 1
    with monkeypatch.context() as patch:
        patch.setattr(commit, "commit", dying(commit.commit, point))
        with pytest.raises(Killed):
            build_lance(paths, source=first)
    first.episodes["b"].annotations, first.episodes["b"].arrays["obs_head_pose"] = kept
    built = build_lance(paths, source=first)
    assert not built.wrote
    assert_equal_to_source(paths, first)
    for table in TABLES:
        handle = lance.dataset(paths.lance / f"{table}.lance")
        assert handle.version == built.versions[table]
        assert set(episode_rows(handle)) == {"a", "b", "c"}
    assert build_lance(paths, source=first).versions == built.versions


def test_versions_written_by_something_else_are_put_aside(paths, first):
    named = table_versions(paths)
    lance.dataset(paths.lance / "episodes.lance").delete("episode_id = 'a'")
    assert table_versions(paths) == named
    assert LanceStore(paths).episode_ids() == ["a", "b", "c"]
    first.put("d", seed=3, frames=20)
    build_lance(paths, source=first)
    assert_equal_to_source(paths, first)


def test_a_full_disk_is_one_line_and_the_next_build_goes_on(monkeypatch, paths, first):
    before = table_versions(paths)
    first.put("d", seed=3, frames=20)

    def full(*args, **options):
        raise OSError("LanceError(IO): No space left on device (os error 28), rust/lance/src/blob.rs:1093:9")

    with monkeypatch.context() as patch:
        patch.setattr(commit, "write_fragments", full)
        with pytest.raises(InputError, match=r"videos\.lance: cannot be written .*No space left on device.* build again"):
            build_lance(paths, source=first)
    assert table_versions(paths) == before
    assert build_lance(paths, source=first).added == 1
    assert_equal_to_source(paths, first)


def test_one_build_at_a_time(monkeypatch, paths, first):
    monkeypatch.setattr(build, "LOCK_WAIT_S", 0.05)
    with FileLock(paths.lance / ".lock"), pytest.raises(ConflictError, match="another Lance build holds"):
        build_lance(paths, source=first)
    assert not build_lance(paths, source=first).wrote


def test_a_writer_without_the_lock_is_noticed(monkeypatch, paths, first):
    first.put("b", seed=9, frames=20)
    stage = build.stage

    def interfering(dataset, *args, **options):
        if dataset.uri.endswith("frames.lance"):
            lance.dataset(dataset.uri).delete("episode_id = 'b' AND frame_index = 3")
        return stage(dataset, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(build, "stage", interfering)
        with pytest.raises(ConflictError, match=r"frames\.lance: another program changed it"):
            build_lance(paths, source=first)
    assert build_lance(paths, source=first).changed == 1
    assert_equal_to_source(paths, first)


def test_an_annotation_change_writes_no_data_file_elsewhere(paths, first):
    def files(table):
        return sorted(path.name for path in (paths.lance / f"{table}.lance" / "data").rglob("*.lance"))

    before = {table: files(table) for table in TABLES}
    first.episodes["a"].annotations = {SUBTASK: [Span("x", 0, 2)]}
    build_lance(paths, source=first)
    assert {table for table in TABLES if files(table) != before[table]} == {"annotations", "episodes"}
