"""Building and refreshing the copy: only what differs is written, and every version stays consistent."""

from dataclasses import replace

import lance
import numpy as np
import pytest

from egodata.annotations import SUBTASK, Span
from egodata.errors import CorruptEpisodeError
from egodata.formats.lance import LanceStore, build_lance, table_versions


def counts(store):
    return {table: store.table(table).count_rows() for table in ("videos", "frames", "annotations", "episodes")}


def assert_same(reader, other):
    assert reader.meta == other.meta
    assert reader.digests == other.digests
    assert reader.calibration == other.calibration
    assert reader.annotation_keys == other.annotation_keys
    for key in other.annotation_keys:
        assert reader.spans(key) == other.spans(key)
    keys, total = other.meta.numeric_keys, other.meta.total_frames
    found = reader.rows(keys, [(0, total)] * len(keys))
    for key in keys:
        assert found[key].dtype == other.arrays[key].dtype
        assert found[key].tobytes() == other.arrays[key].tobytes(), key
    assert [reader.video_chunk("front_1", i) for i in range(other.info.chunks)] == other.chunks


def test_first_build_copies_everything(paths, source):
    for name, seed in (("b", 1), ("a", 2), ("c", 3)):
        source.put(name, seed=seed)
    built = build_lance(paths, source=source)
    assert (built.added, built.changed, built.removed, built.unchanged) == (3, 0, 0, 0)
    store = LanceStore(paths)
    assert store.episode_ids() == ["a", "b", "c"]
    for name in "abc":
        assert_same(store.open(name), source.episodes[name])
    assert store.versions == built.versions == table_versions(paths)


def test_nothing_changed_commits_nothing(paths, source):
    source.put("a")
    first = build_lance(paths, source=source)
    again = build_lance(paths, source=source)
    assert not again.wrote and again.unchanged == 1 and again.versions == first.versions
    for table, version in first.versions.items():
        assert lance.dataset(paths.lance / f"{table}.lance").version == version


def test_a_new_and_a_changed_and_a_removed_episode(paths, source):
    for seed, name in enumerate("abcd"):
        source.put(name, seed=seed)
    build_lance(paths, source=source)
    source.put("b", seed=9, frames=40)
    source.put("e", seed=5)
    del source.episodes["c"]
    built = build_lance(paths, source=source)
    assert (built.added, built.changed, built.removed, built.unchanged) == (1, 1, 1, 2)
    store = LanceStore(paths)
    assert store.episode_ids() == ["a", "b", "d", "e"]
    for name in store.episode_ids():
        assert_same(store.open(name), source.episodes[name])
    assert counts(store) == {"videos": 2 + 1 + 2 + 2, "frames": 60 * 3 + 40, "annotations": 12, "episodes": 4}


def test_annotations_alone_rewrite_no_frames(paths, source):
    episode = source.put("a")
    first = build_lance(paths, source=source)
    episode.annotations = {SUBTASK: [Span("other", 3, 9)]}
    second = build_lance(paths, source=source)
    assert second.changed == 1
    assert {table for table in first.versions if first.versions[table] != second.versions[table]} == {"annotations", "episodes"}
    assert_same(LanceStore(paths).open("a"), episode)


def test_meta_alone_rewrites_the_episode_row(paths, source):
    episode = source.put("a")
    first = build_lance(paths, source=source)
    episode.meta = replace(episode.meta, task_name="fold")
    second = build_lance(paths, source=source)
    assert {table for table in first.versions if first.versions[table] != second.versions[table]} == {"episodes"}
    assert LanceStore(paths).open("a").meta.task_name == "fold"


def test_empty_is_not_absent(paths, source):
    source.put("none", annotations={})
    source.put("empty", annotations={SUBTASK: []})
    build_lance(paths, source=source)
    store = LanceStore(paths)
    assert store.open("none").spans(SUBTASK) is None and store.open("none").annotation_keys == ()
    assert store.open("empty").spans(SUBTASK) == () and store.open("empty").annotation_keys == (SUBTASK,)


def test_odd_texts_come_back_exactly(paths, source):
    texts = ["", "  ", "🫱 cube", "שלום", "a | b", "x" * 10_000, "quote ' \" \n"]
    source.put("a", annotations={SUBTASK: [Span(text, 0, 5) for text in texts]})
    build_lance(paths, source=source)
    assert [span.text for span in LanceStore(paths).open("a").spans(SUBTASK)] == texts


def test_mixed_features_stay_apart(paths, source):
    source.put("a")
    source.put("robot", seed=1)
    source.add_feature("robot", "obs_joints", np.arange(60 * 7, dtype=np.float32).reshape(60, 7), unit="rad")
    source.add_feature("robot", "obs_joints_source", np.arange(60, dtype=np.uint8) % 3)
    build_lance(paths, source=source)
    store = LanceStore(paths)
    assert "obs_joints" not in store.open("a").meta.features
    assert_same(store.open("robot"), source.episodes["robot"])
    field = store.table("frames").schema.field("obs_joints")
    assert field.metadata[b"egodata.unit"] == b"rad" and str(field.type) == "fixed_size_list<item: float>[7]"


def test_features_that_appear_later_and_differ_in_width(paths, source):
    source.put("a")
    build_lance(paths, source=source)
    for name, width in (("r1", 7), ("r2", 14), ("r3", 7)):
        source.put(name, seed=width)
        source.add_feature(name, "obs_joints", np.random.default_rng(width).normal(size=(60, width)).astype(np.float32))
        source.add_feature(name, "index", np.arange(60, dtype=np.int64) * 3)
        build_lance(paths, source=source)
    store = LanceStore(paths)
    for name in source.episodes:
        assert_same(store.open(name), source.episodes[name])
    names = store.table("frames").schema.names
    assert "obs_joints" in names and "obs_joints:float32x14" in names and "index:int64x1" in names
    assert store.table("frames").to_table(columns=["index"])["index"].to_pylist() == list(range(240))


def test_a_damaged_source_makes_nothing_visible(paths, source):
    source.put("a")
    before = build_lance(paths, source=source).versions
    source.put("b", seed=1)
    stored = source.episodes["b"].digests
    broken = source.episodes["b"]
    broken.arrays["obs_head_pose"] = broken.arrays["obs_head_pose"].copy()
    broken.arrays["obs_head_pose"][5, 0] += 1
    type(broken).digests, original = property(lambda self: stored if self is broken else original.fget(self)), type(broken).digests
    try:
        with pytest.raises(CorruptEpisodeError, match="episode b: media digest"):
            build_lance(paths, source=source)
    finally:
        type(broken).digests = original
    assert LanceStore(paths).episode_ids() == ["a"]
    assert table_versions(paths) == before
    assert build_lance(paths, source=source).added == 1


def test_the_storage_version_is_pinned_in_store_json(paths, source):
    import json

    source.put("a")
    build_lance(paths, source=source)
    pinned = json.loads((paths.root / "store.json").read_text())["lance_storage_version"]
    assert pinned == lance.dataset(paths.lance / "frames.lance").data_storage_version == "2.2"


def test_an_empty_store_builds_empty_tables(paths, source):
    built = build_lance(paths, source=source)
    assert not built.wrote and LanceStore(paths).episode_ids() == []
    assert build_lance(paths, source=source).versions == built.versions
