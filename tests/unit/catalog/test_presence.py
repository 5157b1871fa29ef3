import sys
from dataclasses import replace

import pytest

from egodata.catalog import check_present, freeze, load_dataset
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.catalog.rules import PinCount
from egodata.errors import CorruptEpisodeError, GateError
from egodata.schema.layout import open_root
from egodata.testing.memory import MemoryStore, ramp_joints


@pytest.fixture
def store():
    return MemoryStore({f"j{i:02d}": ramp_joints(f"j{i:02d}", frames=3) for i in range(30)})


@pytest.fixture
def manifest(store):
    head = tuple(HeadEpisode(name, 3, one.digests.content) for name, one in store.episodes.items())
    return Manifest("set", "v1", "d" * 64, {"train": head[:20], "seen": head[20:]}, {"seen": ("j27",)})


def test_all_or_a_repeatable_sample_with_every_pin(store, manifest):
    assert check_present(manifest, store, sample=None) == 30
    opened = []

    class Noting(MemoryStore):
        def open(self, episode_id, *, content=None):
            opened.append(episode_id)
            return super().open(episode_id, content=content)

    for _ in range(2):
        assert check_present(manifest, Noting(store.episodes), sample=5) == 5
    assert opened[:5] == opened[5:] and opened[0] == "j27" and len(set(opened)) == 5
    check_present(replace(manifest, digest="e" * 64), Noting(store.episodes), sample=5)
    assert set(opened[10:]) != set(opened[:5])


def test_what_is_gone_is_named_with_its_head(store, manifest):
    lost = replace(manifest.head("train")[3], content="0" * 64)
    damaged = replace(manifest, heads={**manifest.heads, "train": (*manifest.head("train")[:3], lost, *manifest.head("train")[4:])})
    with pytest.raises(GateError, match=r"dataset set@v1: 1 of 30 episodes are gone in the recorded content: j03 \(train, content 0{16}\)"):
        check_present(damaged, store, sample=None)
    del store.episodes["j27"]
    with pytest.raises(GateError, match=r"1 of 4 looked at episodes are gone in the recorded content: j27 \(seen"):
        check_present(manifest, store, sample=4)


def test_a_damaged_copy_counts_as_gone(manifest):
    class Damaged(MemoryStore):
        def open(self, episode_id, *, content=None):
            raise CorruptEpisodeError(f"episode {episode_id}: truncated")

    with pytest.raises(GateError, match="30 of 30 episodes are gone.* and 25 more"):
        check_present(manifest, Damaged({}), sample=None)


def test_loading_looks_into_the_copy_that_will_be_read(tmp_path, rows, rule, monkeypatch):
    paths = open_root(tmp_path / "store", create=True)
    monkeypatch.setattr(sys.modules["egodata.catalog.freeze"], "_catalog", lambda paths, format: (list(rows), None))
    freeze(paths, rule(pins={"train": PinCount(1)}), format="zarr")
    assert load_dataset(paths, "set@v1").ref == "set@v1"
    with pytest.raises(GateError, match="12 of 12 episodes are gone in the recorded content"):
        load_dataset(paths, "set@v1", format="zarr")
