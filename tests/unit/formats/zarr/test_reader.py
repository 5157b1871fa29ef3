"""Missing and changed bytes are errors that name array and chunk; nothing is filled in."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys

import google_crc32c
import numpy as np
import pytest

from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.testing.drafts import small_draft
from tests.unit.formats.zarr.conftest import ID, SETTINGS

KEY = "right.obs_ee_pose"


def _shard(paths):
    return paths.episode_link(ID) / KEY / "c" / "0" / "0"


def test_a_missing_shard_names_array_and_file(published, reader):
    _shard(published[0]).unlink()
    with pytest.raises(CorruptEpisodeError, match=f"episode {ID}: array {KEY}: shard file c/0/0 is missing"):
        reader.rows([KEY], [(0, 10)])


def test_a_chunk_that_the_shard_lacks_is_named(published, reader):
    shard = _shard(published[0])
    data = bytearray(shard.read_bytes())
    data[-36:-20] = b"\xff" * 16  # the index entry of chunk 0, zarr's mark of an absent chunk
    data[-4:] = google_crc32c.value(bytes(data[-36:-4])).to_bytes(4, "little")
    shard.write_bytes(data)
    with pytest.raises(CorruptEpisodeError, match=f"array {KEY}: chunk 0 .frames .0, 100.. is missing"):
        reader.rows([KEY], [(0, 10)])
    assert reader.rows([KEY], [(100, 130)])[KEY].shape == (30, 7)


@pytest.mark.parametrize("position", [40, -30])
def test_one_changed_byte_is_found(published, reader, position):
    shard = _shard(published[0])
    data = bytearray(shard.read_bytes())
    data[position] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptEpisodeError, match=f"array {KEY}: (chunk|shard index)"):
        reader.rows([KEY], [(0, 130)])


def test_a_cut_off_shard_is_found(published, reader):
    shard = _shard(published[0])
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(CorruptEpisodeError, match=f"array {KEY}: shard index of 2 chunks"):
        reader.rows([KEY], [(0, 1)])


def test_a_missing_or_cut_element_is_named(published, reader):
    folder = published[0].episode_link(ID) / "images.front_1" / "c"
    (folder / "1").unlink()
    (folder / "2").write_bytes((folder / "2").read_bytes()[:-7])
    assert reader.frames("front_1", [0]).shape == (1, 48, 64, 3)
    with pytest.raises(CorruptEpisodeError, match=r"array images\.front_1: element 1 is missing"):
        reader.frames("front_1", [50])
    with pytest.raises(CorruptEpisodeError, match=r"array images\.front_1: element 2 is cut off or changed"):
        reader.frames("front_1", [100])


def test_a_missing_span_is_an_error(published, reader):
    (published[0].episode_link(ID) / "annotations_subtask" / "c" / "1").unlink()
    with pytest.raises(CorruptEpisodeError, match="array annotations_subtask: element 1 is missing"):
        reader.spans("annotations_subtask")


@pytest.mark.parametrize("name", ["zarr.json", f"{KEY}/zarr.json"])
@pytest.mark.parametrize("how", ["gone", "text"])
def test_metadata_that_is_gone_or_damaged_is_named(published, reader, name, how):
    path = published[0].episode_link(ID) / name
    path.unlink() if how == "gone" else path.write_text("{]")
    with pytest.raises(CorruptEpisodeError, match=f"episode {ID}: .*zarr.json"):
        reader.rows([KEY], [(0, 1)])


def test_a_shape_that_disagrees_with_the_features_is_an_error(published, reader):
    path = published[0].episode_link(ID) / KEY / "zarr.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "shape": [200, 7]}))
    with pytest.raises(CorruptEpisodeError, match=r"stored as float32 \(200, 7\), features say float32 \(130, 7\)"):
        reader.rows([KEY], [(0, 1)])


def test_an_episode_that_is_not_there(paths):
    with pytest.raises(EpisodeNotFoundError, match=f"episode {ID}: not in "):
        ZarrStore(paths).open(ID)
    assert ZarrStore(paths).episode_ids() == []


def test_a_link_to_nothing_is_named(published):
    paths, _ = published
    shutil.rmtree(paths.episode_link(ID).resolve().parent)
    with pytest.raises(CorruptEpisodeError, match=f"episode {ID}: its link points at"):
        ZarrStore(paths).open(ID)


def test_reading_does_not_load_zarr(published):
    paths, _ = published
    code = (
        "import sys; from pathlib import Path; from egodata.formats import open_store; from egodata.schema.layout import open_root;"
        f"r = open_store(open_root(Path({str(paths.root)!r})), 'zarr').open({ID!r}); r.frames('front_1', [3]); r.rows([{KEY!r}], [(0, 5)]);"
        "sys.exit(' '.join({'zarr', 'torch', 'lance'} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.timeout(60)
def test_a_used_reader_works_in_a_spawned_worker(reader):
    here = reader.frames("front_1", [3, 120])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(reader.frames, ("front_1", [3, 120]))
    assert (there == here).all()


def test_memory_and_open_files_level_off(paths, tmp_path):
    drafts = [small_draft(tmp_path, frames=20, size=(32, 32), episode_id=f"ep{k}") for k in range(4)]
    for draft in drafts:
        publish_draft(paths, draft, settings=SETTINGS)
    store, counts = ZarrStore(paths), []
    readers = [store.open(f"ep{k % 4}") for k in range(60)]
    for reader in readers:
        reader.frames("front_1", [3])
        reader.rows([KEY], [(0, 20)])
        counts.append(len(os.listdir("/proc/self/fd")))
    assert max(counts) == counts[0]
    assert np.isfinite(readers[0].rows([KEY], [(0, 5)])[KEY]).all()
