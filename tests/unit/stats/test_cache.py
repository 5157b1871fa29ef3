"""The content-keyed cache, over episodes in memory."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.errors import NotFoundError
from egodata.sampling import load_recipe
from egodata.schema.layout import open_root
from egodata.stats import norm_stats, stats_key
from egodata.testing.memory import MemoryStore, ramp_hands, ramp_joints


@pytest.fixture
def paths(tmp_path):
    return open_root(tmp_path / "store", create=True)


@pytest.fixture
def store(monkeypatch):
    """Hand and joint episodes; counts how often a store was opened."""
    made = [ramp_hands("hands0", frames=40), ramp_hands("hands1", frames=25, seed=3)]
    made += [ramp_joints("joints0", frames=50), ramp_joints("joints1", frames=35)]
    memory = MemoryStore({episode.meta.episode_id: episode for episode in made})
    opened = []
    monkeypatch.setattr("egodata.stats.compute.open_store", lambda paths, format, versions: opened.append(format) or memory)
    memory.episodes["opened"] = opened
    return memory


def manifest_of(store, *ids, seen=()):
    def head(names):
        return tuple(HeadEpisode(name, store.episodes[name].meta.total_frames, store.episodes[name].digests.content) for name in names)

    heads = {"train": head(ids)} | ({"seen": head(seen)} if seen else {})
    return Manifest("set", "v1", "d" * 64, heads, {})


def test_second_time_comes_from_the_cache_and_says_so(paths, store):
    manifest, recipe = manifest_of(store, "hands0", "hands1"), load_recipe("human_wrist6d")
    labels = []
    first = norm_stats(paths, manifest, recipe=recipe, progress=lambda label, done, total: labels.append(label))
    again = norm_stats(paths, manifest, recipe=recipe, format="lance")
    assert (first.cached, again.cached) == (False, True)
    assert first.to_bytes() == again.to_bytes() == first.path.read_bytes()
    assert first.path == paths.root / f"norm_stats/set/v1/{first.key[:16]}.json"
    assert (first.episodes, first.windows) == (2, 65)
    assert "statistics" in labels
    assert store.episodes["opened"] == ["zarr"]


def test_only_the_training_head_counts(paths, store):
    recipe = load_recipe("joints")
    alone, beside = manifest_of(store, "joints0"), manifest_of(store, "joints0", seen=("joints1",))
    assert stats_key(alone, recipe) == stats_key(beside, recipe)
    found = norm_stats(paths, beside, recipe=recipe)
    assert found.features["action"].fields["max"][0].tolist() == [49000, 49001, 49002]


def test_the_key_follows_content_recipe_and_nothing_else(store):
    recipe, manifest = load_recipe("human_wrist6d"), manifest_of(store, "hands0", "hands1")
    key = stats_key(manifest, recipe)
    assert stats_key(replace(manifest, name="other", version="v9", provenance={"a": 1}), recipe) == key
    assert stats_key(manifest, replace(recipe, name="mine", cameras=("left_wrist",), default_prompt="go")) == key
    assert stats_key(manifest, replace(recipe, action=replace(recipe.action, steps=50))) != key
    assert stats_key(manifest_of(store, "hands0"), recipe) != key
    changed = (replace(manifest.head("train")[0], content="0" * 64), manifest.head("train")[1])
    assert stats_key(replace(manifest, heads={"train": changed}), recipe) != key


def test_several_writers_at_once_agree(paths, store):
    manifest, recipe = manifest_of(store, "hands0", "hands1"), load_recipe("human_wrist6d")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: norm_stats(paths, manifest, recipe=recipe), range(4)))
    assert len({one.to_bytes() for one in found}) == 1
    assert [path.name for path in found[0].path.parent.iterdir()] == [found[0].path.name]
    assert not list(paths.cache.rglob("*.tmp"))


def test_versions_with_equal_training_heads_share(paths, store):
    recipe, manifest = load_recipe("joints"), manifest_of(store, "joints0")
    first = norm_stats(paths, manifest, recipe=recipe)
    opened = list(store.episodes["opened"])
    second = norm_stats(paths, replace(manifest, version="v2"), recipe=recipe)
    assert second.cached and second.path != first.path
    assert second.path.read_bytes() == first.path.read_bytes()
    assert store.episodes["opened"] == opened


@pytest.mark.parametrize("damage", ["{", "{}", "[]", None])
def test_a_corrupt_entry_is_computed_again(paths, store, damage):
    manifest, recipe = manifest_of(store, "joints0"), load_recipe("joints")
    first = norm_stats(paths, manifest, recipe=recipe)
    if damage is None:
        value = json.loads(first.path.read_text())
        value["features"]["action"]["mean"][0][0] = 7.0
        damage = json.dumps(value)
    first.path.write_text(damage)
    again = norm_stats(paths, manifest, recipe=recipe)
    assert not again.cached
    assert again.path.read_bytes() == first.to_bytes()


def test_an_entry_under_the_wrong_name_is_not_used(paths, store):
    recipe = load_recipe("joints")
    other = norm_stats(paths, manifest_of(store, "joints1"), recipe=recipe)
    manifest = manifest_of(store, "joints0")
    target = other.path.with_name(f"{stats_key(manifest, recipe)[:16]}.json")
    target.write_bytes(other.path.read_bytes())
    assert norm_stats(paths, manifest, recipe=recipe).key == stats_key(manifest, recipe)


def test_a_disk_that_cannot_be_written_does_not_stop_training(paths, store, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("egodata.stats.compute.write_atomic", full)
    found = norm_stats(paths, manifest_of(store, "joints0"), recipe=load_recipe("joints"))
    assert found.path is None
    assert found.windows == 50


def test_an_episode_that_is_gone_is_named(paths, store):
    manifest = manifest_of(store, "joints0")
    lost = replace(manifest.head("train")[0], content="0" * 64)
    with pytest.raises(NotFoundError, match="episode joints0"):
        norm_stats(paths, replace(manifest, heads={"train": (lost,)}), recipe=load_recipe("joints"))


def test_flagship_layout_normalises_and_comes_back(paths, store):
    recipe = load_recipe("human_wrist6d")
    stats = norm_stats(paths, manifest_of(store, "hands0", "hands1"), recipe=recipe)
    flat = [str(channel) for channel in stats.flat_channels()]
    assert "proprio left.grip" in flat and "proprio right.grip" in flat
    assert any(name.startswith("action left.x steps 0") for name in flat)
    assert not any(".r1" in name or ".r2" in name for name in flat)
    values = np.random.default_rng(0).normal(size=(3, 100, 18)).astype(np.float32)
    normaliser = stats.normalisers()["action"]
    scaled = normaliser.forward(values, np.ones(values.shape, bool))
    rotations = list(recipe.rotation_channels("action"))
    assert scaled[..., rotations].tobytes() == values[..., rotations].tobytes()
    assert (scaled[:, 0, [0, 1, 2, 9, 10, 11]] == 0).all()
