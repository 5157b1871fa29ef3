"""Commits killed with SIGKILL at any moment: ids stay unique, counts right, and frozen versions readable."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from egodata.formats.lance import LanceStore, build_lance, tag_dataset
from egodata.formats.lance.positions import episode_rows
from egodata.formats.lance.tables import TABLES, committed_versions

KILLS = int(os.environ.get("EGODATA_KILLS", "20"))
HELPERS = Path(__file__).with_name("conftest.py")
CHILD = """
import importlib.util, sys
from pathlib import Path
from egodata.formats.lance import build_lance, cleanup_lance, compact_lance
from egodata.schema.layout import open_root
root, folder, first, helpers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
spec = importlib.util.spec_from_file_location("helpers", helpers)
helpers = sys.modules["helpers"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helpers)
paths, store = open_root(root), helpers.MemoryStore(folder)
for seed, name in enumerate("abc"):
    store.put(name, seed=seed, frames=20)
print("ready", flush=True)
for turn in range(first, first + 10_000):
    store.put("b", seed=turn % 5, frames=20 + turn % 5)
    if turn % 2:
        store.put("d", seed=turn % 3, frames=10 + turn % 3)
    else:
        store.episodes.pop("d", None)
    build_lance(paths, source=store)
    if turn % 3 == 0:
        compact_lance(paths)
    if turn % 4 == 0:
        cleanup_lance(paths, keep=2)
"""


def read_all(paths, versions=None):
    """Read every row at some versions; the readers refuse rows that are doubled, missing or apart."""
    store = LanceStore(paths, versions=versions)
    found = {}
    for name in store.episode_ids():
        reader = store.open(name)
        keys, total = reader.meta.numeric_keys, reader.meta.total_frames
        numbers = {key: array.tobytes() for key, array in reader.rows(keys, [(0, total)] * len(keys)).items()}
        found[name] = (numbers, [reader.video_chunk("front_1", at) for at in range(reader.video_info("front_1").chunks)])
    for table in TABLES:
        assert set(episode_rows(store.table(table))) <= set(found)
    assert store.table("episodes").count_rows() == len(found)
    assert store.table("frames").count_rows() == sum(store.open(name).meta.total_frames for name in found)
    return found


@pytest.mark.timeout(60 + 15 * KILLS)
def test_kills_at_any_moment(tmp_path, paths, source):
    rng = random.Random(7)
    for seed, name in enumerate("abc"):
        source.put(name, seed=seed, frames=20)
    frozen = build_lance(paths, source=source).versions
    tag_dataset(paths, "ef" * 32, versions=frozen)
    before = read_all(paths, frozen)
    for number in range(KILLS):
        folder = tmp_path / "child"
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-c", CHILD, str(paths.root), str(folder), str(number), str(HELPERS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            ready = child.stdout.readline()
            time.sleep(rng.uniform(0, 0.6))  # the moment is what is tested
            child.send_signal(signal.SIGKILL)
            errors = child.stderr.read()
            child.wait(timeout=60)
        assert ready == "ready\n" and child.returncode == -signal.SIGKILL, errors
        found = read_all(paths)
        assert set(found) in ({"a", "b", "c"}, {"a", "b", "c", "d"}) and found["a"] == before["a"] and found["c"] == before["c"]
        assert read_all(paths, frozen) == before
    built = build_lance(paths, source=source)
    assert read_all(paths) == before and committed_versions(paths)[0] == built.versions
