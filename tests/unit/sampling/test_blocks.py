"""Mapped blocks say what the store says, are shared and rebuilt; windows of one key are planned by the merge rule."""

import os
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from egodata.episode import read_all_numeric
from egodata.errors import CorruptEpisodeError, FeatureNotFoundError, WindowError
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.sampling.blocks import BlockCache, BlockError, map_block, stale_blocks
from egodata.sampling.requests import merge_windows, read_windows
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

ID, KEY = "5f0c00000000000000000001", "right.obs_ee_pose"
SETTINGS = EncodeSettings(frames_per_chunk=50, gop=12, bframes=3)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    paths = open_root(folder / "store", create=True)
    digests = publish_draft(paths, small_draft(folder, frames=330, episode_id=ID), settings=SETTINGS)
    return paths, digests.content


@pytest.fixture
def reader(stored):
    opened = ZarrStore(stored[0]).open(ID)
    yield opened
    opened.close()


def test_the_merge_rule():
    """The cases of docs/domain.md, section 5."""
    assert merge_windows([(57, 61), (60, 160)]) == [(57, 160)]
    assert merge_windows([(0, 1), (150, 151)]) == [(0, 151)]
    assert merge_windows([(0, 1), (250, 251)]) == [(0, 1), (250, 251)]
    assert merge_windows([(57, 58), (60, 61)], chunk_rows=1) == [(57, 58), (60, 61)]
    assert merge_windows([(57, 58), (58, 61), (60, 62)], chunk_rows=1) == [(57, 62)]
    assert merge_windows([(5, 5)]) == []


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(1, 60)), max_size=8), st.sampled_from([1, 7, 100]))
def test_merged_ranges_hold_every_window_and_touch_no_other_chunk(found, rows):
    windows = [(start, start + length) for start, length in found]
    merged = merge_windows(windows, chunk_rows=rows)
    assert all(any(a <= start and end <= b for a, b in merged) for start, end in windows)
    assert {i // rows for a, b in merged for i in (*range(a, b),)} == {i // rows for a, b in windows for i in range(a, b)}
    assert all(merged[i][1] <= merged[i + 1][0] for i in range(len(merged) - 1))


def test_windows_equal_slices_and_are_copies(reader):
    whole = read_all_numeric(reader)
    asked = {
        KEY: [(57, 61), (60, 160), (5, 5), (320, 330), (0, 1)],
        "obs_head_pose": [(250, 251), (0, 1)],
        "left.obs_ee_pose_valid": [(3, 3)],
    }
    found = read_windows(reader, asked)
    for key, windows in asked.items():
        assert [len(rows) for rows in found[key]] == [end - start for start, end in windows]
        for rows, (start, end) in zip(found[key], windows, strict=True):
            np.testing.assert_array_equal(rows, whole[key][start:end])
    found[KEY][0][:] = 0
    np.testing.assert_array_equal(read_windows(reader, asked)[KEY][1], whole[KEY][60:160])
    with pytest.raises(WindowError, match=rf"episode {ID}: rows \[300, 331\) of {KEY}"):
        read_windows(reader, {KEY: [(0, 10), (300, 331)]})


def test_each_key_is_asked_for_once(reader, monkeypatch):
    calls, rows = [], reader.rows
    monkeypatch.setattr(reader, "rows", lambda keys, ranges: calls.append((keys, ranges)) or rows(keys, ranges))
    read_windows(reader, {KEY: [(57, 61), (60, 160), (90, 95)], "obs_head_pose": [(0, 30)]})
    assert calls == [([KEY, "obs_head_pose"], [(57, 160), (0, 30)])]


def test_a_block_holds_what_the_store_holds(stored, reader, tmp_path):
    cache = BlockCache(tmp_path / "zarr")
    block = cache.block(reader, content=stored[1])
    whole = read_all_numeric(reader)
    assert set(block.arrays) == set(whole)
    for key, array in whole.items():
        np.testing.assert_array_equal(block.arrays[key], array)
        assert block.arrays[key].dtype == array.dtype and not block.arrays[key].flags.writeable
    window = block.rows([KEY], [(10, 40)])[KEY]
    window[:] = 0
    np.testing.assert_array_equal(block.windows({KEY: [(10, 40), (0, 0)]})[KEY][0], whole[KEY][10:40])
    with pytest.raises(WindowError, match=rf"episode {ID}: rows \[10, 331\) of {KEY} are outside"):
        block.rows([KEY], [(10, 331)])
    with pytest.raises(FeatureNotFoundError, match=f"episode {ID}: no numeric feature 'nothing'"):
        block.rows(["nothing"], [(0, 1)])


def test_a_block_is_built_once_and_shared(stored, reader, tmp_path, monkeypatch):
    cache = BlockCache(tmp_path / "zarr")
    path = cache.path(stored[1])
    cache.block(reader, content=stored[1])
    before = path.stat().st_mtime_ns
    other = pickle.loads(pickle.dumps(cache))
    monkeypatch.setattr(reader, "rows", None)
    assert other.block(reader, content=stored[1]).arrays.keys() == cache.block(reader, content=stored[1]).arrays.keys()
    assert path.stat().st_mtime_ns == before
    assert stale_blocks(tmp_path, wanted=[stored[1]]) == []
    assert stale_blocks(tmp_path, wanted=[]) == [path]


@pytest.mark.parametrize("damage", ["one byte", "cut", "empty", "other content", "text"])
def test_a_damaged_block_is_built_again(stored, reader, tmp_path, damage):
    cache = BlockCache(tmp_path / "zarr")
    path = cache.path(stored[1])
    cache.block(reader, content=stored[1])
    good = path.read_bytes()
    changed = {"one byte": good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], "cut": good[:-100], "empty": b"", "text": b"hello" * 9}
    path.write_bytes(changed.get(damage, good.replace(stored[1][:8].encode(), b"0" * 8)))
    with pytest.raises(BlockError):
        map_block(path, content=stored[1], where="x")
    again = BlockCache(tmp_path / "zarr").block(reader, content=stored[1])
    np.testing.assert_array_equal(again.arrays[KEY], reader.rows([KEY], [(0, 330)])[KEY])
    assert path.read_bytes() == good


def test_a_cache_that_cannot_be_written_still_reads(stored, reader, tmp_path):
    (tmp_path / "file").write_text("in the way")
    block = BlockCache(tmp_path / "file").block(reader, content=stored[1])
    assert block.rows([KEY], [(0, 5)])[KEY].shape == (5, 7)
    assert os.listdir(tmp_path) == ["file"]


def test_a_damaged_store_is_an_error_and_leaves_no_block(tmp_path):
    paths = open_root(tmp_path / "store", create=True)
    content = publish_draft(paths, small_draft(tmp_path, frames=130, episode_id=ID), settings=SETTINGS).content
    (paths.episode_link(ID) / KEY / "c" / "0" / "0").unlink()
    reader, cache = ZarrStore(paths).open(ID), BlockCache(paths.cache / "blocks" / "zarr")
    with pytest.raises(CorruptEpisodeError, match=f"episode {ID}: array {KEY}"):
        cache.block(reader, content=content)
    assert not cache.path(content).exists()
