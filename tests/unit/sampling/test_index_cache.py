"""Indexes are made once per content and recipe, and never trusted where they do not fit."""

import pickle

import numpy as np
import pytest

from egodata.catalog.manifest import HeadEpisode
from egodata.sampling import HeadSource, load_recipe
from egodata.sampling.cache import Keep
from egodata.sampling.index_cache import index_key
from egodata.testing.memory import MemoryStore, ramp_hands

RECIPE = load_recipe("human_wrist6d")


def heads(names="ab", frames=30):
    episodes = [ramp_hands(name, frames=frames, seed=number) for number, name in enumerate(names)]
    store = MemoryStore({e.meta.episode_id: e for e in episodes})
    return [HeadEpisode(e.meta.episode_id, e.meta.total_frames, e.digests.content) for e in episodes], store


class NoRows(MemoryStore):
    """A store whose numbers cannot be read."""

    def open(self, episode_id, *, content=None):
        reader = super().open(episode_id, content=content)
        reader.rows = None
        return reader


def open_source(folder, found, store, recipe=RECIPE):
    return HeadSource(found, store, recipe=recipe, keep=Keep(index=folder))


def test_a_second_start_reads_no_numbers(tmp_path):
    found, store = heads()
    first = open_source(tmp_path, found, store)
    again = open_source(tmp_path, found, NoRows(store.episodes))
    assert np.array_equal(again.index.frames, first.index.frames) and np.array_equal(again.index.offsets, first.index.offsets)
    assert again.excluded == first.excluded


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"offsets": [0, 9], "excluded": {}}', b'{"offsets": 3}'], ids=["empty", "cut", "other", "odd"]
)
def test_a_file_that_does_not_fit_is_made_again(tmp_path, damage):
    found, store = heads()
    good = open_source(tmp_path, found, store).index.frames.copy()
    next(tmp_path.glob("*.json")).write_bytes(damage)
    assert np.array_equal(open_source(tmp_path, found, store).index.frames, good)
    next(tmp_path.glob("*.npy")).write_bytes(b"\x93NUMPY")
    assert np.array_equal(open_source(tmp_path, found, store).index.frames, good)


def test_other_contents_order_and_numbers_have_other_keys():
    found, _ = heads()
    other, _ = heads("ac")
    keys = {
        index_key(found, RECIPE),
        index_key(found[::-1], RECIPE),
        index_key(other, RECIPE),
        index_key(found, load_recipe("human_keypoints144")),
    }
    assert len(keys) == 4


def test_workers_get_the_files_name_and_not_a_copy(tmp_path):
    found, store = heads(frames=4000)
    source = open_source(tmp_path, found, store)
    data = pickle.dumps(source.index)
    assert len(data) < 2000 < source.index.frames.nbytes
    assert np.array_equal(pickle.loads(data).frames, source.index.frames)
    loose = HeadSource(found, store, recipe=RECIPE)
    assert np.array_equal(pickle.loads(pickle.dumps(loose.index)).frames, loose.index.frames)


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    found, store = heads()
    assert len(open_source(blocked / "index", found, store)) == 60
