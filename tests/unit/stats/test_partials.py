"""Source rows kept by content: a grown dataset reads only what is new, and nothing else changes."""

import pickle
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from egodata.annotations import Span
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.errors import EpisodeNotFoundError, FeatureNotFoundError, RecipeError
from egodata.sampling import HeadSource, SpanSelection, load_recipe
from egodata.schema.layout import open_root
from egodata.stats import feature_stats, norm_stats
from egodata.stats.partials import PartialStore, make_partials, partial_key, partial_path
from egodata.testing.memory import MemoryStore, ramp_hands, ramp_joints

HANDS = load_recipe("human_wrist6d")


@dataclass
class Counting:
    """A memory store that notes which episodes are opened."""

    store: MemoryStore
    opened: list[str] = field(default_factory=list)

    def __call__(self):
        return self

    def open(self, episode_id, *, content=None):
        self.opened.append(episode_id)
        return self.store.open(episode_id, content=content)


@pytest.fixture
def paths(tmp_path):
    return open_root(tmp_path / "store", create=True)


def hands(count):
    return MemoryStore({f"h{i:04d}": ramp_hands(f"h{i:04d}", frames=20 + i % 3, seed=i) for i in range(count)})


def head_of(store, count):
    items = list(store.episodes.items())[:count]
    return tuple(HeadEpisode(name, one.meta.total_frames, one.digests.content) for name, one in items)


def test_a_grown_dataset_reads_only_what_is_new(paths, tmp_path, monkeypatch):
    store = Counting(hands(30))
    monkeypatch.setattr("egodata.stats.compute.open_store", lambda *_, **__: store)
    norm_stats(paths, Manifest("set", "v1", "", {"train": head_of(store.store, 25)}, {}), recipe=HANDS)
    assert sorted(store.opened) == [f"h{i:04d}" for i in range(25)]
    store.opened.clear()
    grown = Manifest("set", "v2", "", {"train": head_of(store.store, 30)}, {})
    second = norm_stats(paths, grown, recipe=HANDS)
    assert store.opened == [f"h{i:04d}" for i in range(25, 30)]
    store.opened.clear()
    fresh = norm_stats(open_root(tmp_path / "other", create=True), grown, recipe=HANDS)
    assert len(store.opened) == 30
    assert fresh.path.read_bytes() == second.path.read_bytes()


def test_recipes_that_differ_elsewhere_share_rows(paths, monkeypatch):
    store = Counting(hands(3))
    monkeypatch.setattr("egodata.stats.compute.open_store", lambda *_, **__: store)
    manifest = Manifest("set", "v1", "", {"train": head_of(store.store, 3)}, {})
    one = norm_stats(paths, manifest, recipe=HANDS)
    pooled = norm_stats(paths, manifest, recipe=replace(HANDS, pool_horizon=True, prompt_roles=()))
    assert len(store.opened) == 3
    assert one.key != pooled.key
    assert pooled.features["action"].fields["mean"].shape == (18,)
    assert partial_key("a", HANDS) != partial_key("b", HANDS)
    assert partial_key("a", replace(HANDS, span_cutoff="fold_segments")) != partial_key("a", HANDS)


@pytest.mark.parametrize("selected", [False, True])
def test_windows_from_partials_are_those_of_the_store(paths, selected):
    memory = hands(2)
    memory.episodes["h0001"].annotations["fold_segments"] = (Span("x", 3, 9), Span("y", 9, 15))
    memory.episodes["h0000"].annotations["annotations"] = (Span("x", 3, 9),)
    selection = SpanSelection("annotations", absent="leave_out") if selected else None
    recipe = replace(HANDS, span_cutoff="fold_segments", span_selection=selection).numbers_only
    rows = PartialStore(paths, recipe, opener=memory)
    for turn in range(2):  # made, then read
        kept = HeadSource(head_of(memory, 2), pickle.loads(pickle.dumps(rows)) if turn else rows, recipe=recipe)
        direct = HeadSource(head_of(memory, 2), memory, recipe=recipe)
        assert len(kept) == len(direct) == (6 if selected else sum(e.meta.total_frames for e in memory.episodes.values()))
        for (_, one), (_, two) in zip(kept.windows(), direct.windows(), strict=True):
            for name in one.__dataclass_fields__:
                assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name


def test_some_steps_are_bit_for_bit_those_of_the_whole(paths):
    memory = hands(2)
    source = HeadSource(head_of(memory, 2), memory, recipe=HANDS.numbers_only)
    whole = feature_stats(source)
    parts = feature_stats(source, block_bytes=50_000)
    in_processes = feature_stats(source, block_bytes=100_000, workers=2)
    for feature, stats in whole.items():
        for name, values in stats.fields.items():
            assert values.tobytes() == parts[feature].fields[name].tobytes() == in_processes[feature].fields[name].tobytes()


def test_missing_partials_are_made_in_several_processes(paths):
    memory = hands(7)
    head = head_of(memory, 7)
    rows = PartialStore(paths, HANDS, opener=memory)
    rows.open(head[0].episode_id, content=head[0].content)
    told = []
    assert make_partials(rows, head, workers=2, progress=lambda label, done, total: told.append((label, done, total))) == 6
    assert told[0] == ("source rows", 0, 6) and told[-1] == ("source rows", 6, 6)
    behind = Counting(memory)
    source = HeadSource(head, PartialStore(paths, HANDS, opener=behind), recipe=HANDS.numbers_only)
    assert len(source) > 0 and behind.opened == []
    assert make_partials(rows, head, workers=2) == 0


@pytest.mark.parametrize("damage", [b"", b"x", lambda data: data[:-1], lambda data: data.replace(b'"fps":30', b'"fps":31')])
def test_a_damaged_partial_is_made_again(paths, damage):
    store = Counting(hands(1))
    (episode,) = head_of(store.store, 1)
    rows = PartialStore(paths, HANDS, opener=store)
    rows.open(episode.episode_id, content=episode.content)
    path = partial_path(paths, partial_key(episode.content, HANDS))
    data = path.read_bytes()
    path.write_bytes(damage(data) if callable(damage) else damage)
    rows.open(episode.episode_id, content=episode.content)
    assert store.opened == [episode.episode_id] * 2
    assert path.read_bytes() == data
    rows.open(episode.episode_id, content=episode.content)
    assert len(store.opened) == 2


def test_a_disk_that_cannot_be_written_only_costs_time(paths, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("egodata.stats.partials.write_atomic", full)
    memory = hands(1)
    (episode,) = head_of(memory, 1)
    reader = PartialStore(paths, HANDS, opener=memory).open(episode.episode_id, content=episode.content)
    found = reader.rows(["obs_head_pose"], [(2, 5)])["obs_head_pose"]
    np.testing.assert_array_equal(found, memory.episodes["h0000"].arrays["obs_head_pose"][2:5])
    assert not list(paths.cache.rglob("*"))


def test_what_a_partial_lacks_is_named(paths):
    memory = MemoryStore({"j": ramp_joints("j", frames=9)})
    (episode,) = head_of(memory, 1)
    rows = PartialStore(paths, load_recipe("joints"), opener=memory)
    reader = rows.open("j", content=episode.content)
    assert reader.digests == memory.episodes["j"].digests
    for call in (lambda: reader.frames("front_1", [0]), lambda: reader.video_info("front_1"), lambda: reader.video_chunk("front_1", 0)):
        with pytest.raises(FeatureNotFoundError, match="a partial keeps no images"):
            call()
    with pytest.raises(FeatureNotFoundError, match="obs_head_pose is not kept"):
        reader.rows(["obs_head_pose"], [(0, 1)])
    with pytest.raises(EpisodeNotFoundError, match="by content only"):
        rows.open("j")
    with pytest.raises(RecipeError, match="expected embodiment human_bimanual"):
        PartialStore(paths, HANDS, opener=memory).open("j", content=episode.content)
