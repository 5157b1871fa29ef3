"""A head as samples: index, caches, prompts, images, errors, copies for workers."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from egodata.annotations import SUBTASK, TASK, Span
from egodata.catalog.manifest import HeadEpisode
from egodata.errors import EpisodeNotFoundError, RecipeError, SampleError, WindowError
from egodata.sampling import HeadSource, ImageHistory, load_recipe, sample_digest
from egodata.sampling.cache import EpisodeCache, read_numbers
from egodata.schema.features import camera_key, mask_spec, valid_key
from egodata.testing.memory import MemoryStore, ramp_hands, ramp_joints

HANDS, JOINTS = load_recipe("human_wrist6d"), load_recipe("joints")


def head_of(*episodes):
    return [HeadEpisode(e.meta.episode_id, e.meta.total_frames, e.digests.content, operator=f"memory/{e.meta.operator}") for e in episodes]


def source_of(*episodes, recipe=JOINTS, **options):
    return HeadSource(head_of(*episodes), MemoryStore({e.meta.episode_id: e for e in episodes}), recipe=recipe, **options)


def hide(episode, side, frames):
    for key in (f"{side}.obs_ee_pose", f"{side}.obs_ee_pose_valid"):
        array = episode.arrays[key].copy()
        array[frames] = False if array.dtype == bool else np.nan
        episode.arrays[key] = array


class Halves:
    """A normaliser whose numbers are easy: (x - centre) / scale."""

    def __init__(self, centre, scale):
        self.centre, self.scale = np.float32(centre), np.float32(scale)

    def forward(self, values, valid):
        return np.where(valid, (values - self.centre) / self.scale, np.float32(0))

    def inverse(self, values):
        return values * self.scale + self.centre


def test_the_index_joins_usable_frames_in_head_order_and_counts_the_others():
    first, second = ramp_hands("a", frames=40), ramp_hands("b", frames=20, seed=1)
    hide(first, "left", slice(0, 10))
    hide(first, "right", slice(5, 12))
    source = source_of(second, first, recipe=HANDS)  # head order, not sorted here
    assert len(source) == 20 + 35
    assert source.excluded == {"no_valid_arm": 5}
    assert source.index.offsets.tolist() == [0, 20, 55]
    assert source.index.frames[20:].tolist() == [0, 1, 2, 3, 4, *range(10, 40)]
    assert source.index.frames.dtype == np.int32
    assert source.index.episodes.tolist() == [0] * 20 + [1] * 35
    assert (source.sample(25).episode_id, source.sample(25).frame) == ("a", 10)
    assert source.operators() == ("memory/op",)


def test_a_sample_outside_the_index_is_refused():
    source = source_of(ramp_joints("j", frames=10))
    for i in (-1, 10):
        with pytest.raises(WindowError, match=f"sample {i}: expected 0 to 9"):
            source.sample(i)


def test_invalid_numbers_leave_as_zeros_beside_their_bits_normalised_or_not():
    episode = ramp_hands("h", frames=60)
    hide(episode, "left", slice(10, 20))
    plain = source_of(episode, recipe=HANDS)
    scaled = plain.with_normalisers({"action": Halves(7, 2), "proprio": Halves(7, 2)})
    for source in (plain, scaled):
        sample = source.sample(15)
        assert not sample.arm_valid[2, 0]
        assert sample.arm_valid[2, 1]
        assert not sample.action[:, :9].any()
        assert not sample.action_mask[:, :9].any()
        assert not sample.proprio[2, :10].any()
        assert sample.reference[0].tolist() == [0, 0, 0, 1, 0, 0, 0]
        for i in range(len(source)):
            one = source.sample(i)
            assert np.isfinite(one.action).all()
            assert np.isfinite(one.proprio).all()
            assert np.isfinite(one.reference).all()
    raw = plain.sample(30)
    np.testing.assert_allclose(scaled.sample(30).action, (raw.action - 7) / 2, rtol=1e-6)


def test_padding_repeats_the_last_action_also_after_normalising():
    source = source_of(ramp_joints("j", frames=50), normalisers={"action": Halves(1000, 500)})
    sample = source.sample(45)
    assert sample.action_mask.all(-1).sum() < 100
    np.testing.assert_allclose(sample.action[-1], (49_000 + np.arange(3) - 1000) / 500, rtol=1e-6)


def test_statistics_see_the_numbers_that_samples_hold():
    episode = ramp_hands("h", frames=60)
    hide(episode, "left", slice(10, 20))
    source = source_of(episode, recipe=HANDS)
    (_, windows), *rest = source.windows()
    assert rest == []
    for i in range(60):
        sample = source.sample(i)
        np.testing.assert_array_equal(sample.action, np.where(np.isfinite(windows.actions[i]), windows.actions[i], 0))
        np.testing.assert_array_equal(sample.action_mask, windows.action_mask[i])
        np.testing.assert_array_equal(sample.proprio, np.where(windows.proprio_valid[i], windows.proprio[i], 0))
        np.testing.assert_array_equal(sample.arm_valid, windows.arm_valid[i])


def annotated(frames=40):
    episode = ramp_joints("j", frames=frames)
    episode.annotations = {
        SUBTASK: [Span("reach", 0, 10), Span("grasp", 5, 20)],
        TASK: [Span("fold", 0, 30)],
        "annotations": [Span("never", 0, 40)],
    }
    return episode


def test_prompts_come_from_the_recipes_keys_only():
    source = source_of(annotated())
    assert [source.sample(i).prompts for i in (0, 5, 10, 20, 30)] == [
        ("reach", "fold"),
        ("reach", "grasp", "fold"),
        ("grasp", "fold"),
        ("fold",),
        (),
    ]
    assert [source.sample(i).prompt for i in (0, 10, 20, 30)] == ["reach", "grasp", "fold", ""]


def test_training_draws_prompts_from_epoch_and_index_evaluation_takes_the_first():
    source = source_of(annotated(), seed=4)
    drawn = {epoch: [source.sample(i, epoch=epoch, with_images=False).prompt for i in range(40)] for epoch in range(3)}
    assert drawn[0] == [s.prompt for s in source.samples(range(40), epoch=0, with_images=False)]
    assert drawn[0] != drawn[1] != drawn[2]
    assert set(drawn[0][5:10]) | set(drawn[1][5:10]) | set(drawn[2][5:10]) == {"reach", "grasp", "fold"}
    assert drawn[0] != [s.prompt for s in source_of(annotated(), seed=5).samples(range(40), epoch=0, with_images=False)]
    assert source.sample(7).prompt == "reach"


def test_absent_and_empty_keys_give_the_default_and_the_share_of_empty_prompts_is_known():
    with_text, empty, absent = annotated(), ramp_joints("k", frames=40), ramp_joints("l", frames=20)
    empty.annotations = {SUBTASK: []}
    source = source_of(with_text, empty, absent)
    assert source.empty_prompt_share() == (10 + 40 + 20) / 100
    assert with_text.frame_reads == []
    recipe = replace(JOINTS, default_prompt="do the task")
    assert source_of(absent, recipe=recipe).sample(3).prompt == "do the task"


def test_numbers_are_read_once_and_frames_once_per_batch():
    episode = ramp_joints("j", frames=40)
    source = source_of(episode, recipe=replace(JOINTS, image_history=ImageHistory(count=2, gap_s=0.1)))
    samples = source.samples([6, 3, 6, 0])
    assert len(episode.row_reads) == 1
    assert episode.frame_reads == [("front_1", [0, 3, 6])]
    shown = [sample.images["front_1"][:, 0, 0, 0].tolist() for sample in samples]
    assert shown == [[3, 6], [0, 3], [3, 6], [0, 0]]
    assert samples[3].image_mask["front_1"].tolist() == [False, True]
    assert [sample.frame for sample in samples] == [6, 3, 6, 0]


def test_a_camera_that_lagged_gives_black_frames_that_are_masked():
    episode = ramp_joints("j", frames=20)
    key = valid_key(camera_key("front_1"))
    episode.arrays[key] = np.arange(20) != 7
    episode.meta = replace(episode.meta, features={**episode.meta.features, key: mask_spec()})
    seen, lost = source_of(episode).samples([6, 7])
    assert seen.image_mask["front_1"].all()
    assert not lost.image_mask["front_1"].any()
    assert not lost.images["front_1"].any()


def test_a_failure_names_episode_and_frame_even_in_a_batch():
    episode = ramp_joints("j", frames=40)
    episode.broken_frames = frozenset({9})
    source = source_of(episode)
    with pytest.raises(SampleError, match="episode j frame 9: frame 9 does not decode"):
        source.samples([3, 9, 12])
    assert source.sample(9, with_images=False).frame == 9


def test_a_lost_content_is_named():
    episode = ramp_joints("j", frames=40)
    wanted = [replace(head_of(episode)[0], content="0" * 64)]
    with pytest.raises(EpisodeNotFoundError, match="episode j"):
        HeadSource(wanted, MemoryStore({"j": episode}), recipe=JOINTS)


def test_two_bodies_in_one_head_are_refused():
    with pytest.raises(RecipeError, match="episode k has 4 action and 4 proprio channels, j has 3 and 3"):
        source_of(ramp_joints("j", frames=5), ramp_joints("k", frames=5, dim=4))


def test_a_pickled_copy_opens_again_and_gives_the_same_samples():
    source = source_of(annotated(), ramp_joints("k", frames=30), normalisers={"action": Halves(3, 2)})
    before = [sample_digest(sample) for sample in source.samples(range(70), epoch=2)]
    copy = pickle.loads(pickle.dumps(source))
    assert copy._cache.held_bytes == 0
    assert [sample_digest(sample) for sample in copy.samples(range(70), epoch=2)] == before


def test_the_cache_of_numbers_stays_under_its_cap_and_keeps_the_last_used():
    episodes = [ramp_joints(f"e{i:02d}", frames=100) for i in range(5)]
    heads = head_of(*episodes)
    size = read_numbers(episodes[0], JOINTS).tracks.size_bytes
    episodes[0].row_reads.clear()
    cache = EpisodeCache(MemoryStore({e.meta.episode_id: e for e in episodes}), JOINTS, numbers_bytes=3 * size)
    for ordinal in (0, 1, 2, 0, 3, 4, 0, 1):
        cache.numbers(heads[ordinal])
        assert 0 < cache.held_bytes <= 3 * size
    assert [len(episode.row_reads) for episode in episodes] == [1, 2, 1, 1, 1]
    cache.close()
    assert cache.held_bytes == 0


def test_span_cutoff_shortens_the_mask():
    recipe = replace(JOINTS, span_cutoff=SUBTASK)
    episode = ramp_joints("j", frames=60)
    episode.annotations = {SUBTASK: [Span("reach", 0, 10)]}
    source = source_of(episode, recipe=recipe)
    assert source.sample(9).action_mask.all(-1).sum() == 1
    assert source.sample(10).action_mask.all()
    assert source_of(ramp_joints("k", frames=60), recipe=recipe).sample(9).action_mask.all()


def test_evaluation_takes_even_strides_of_usable_frames():
    episodes = [ramp_hands("a", frames=30), ramp_hands("b", frames=5)]
    for side in ("left", "right"):
        hide(episodes[0], side, slice(0, 20))
    source = source_of(*episodes, recipe=HANDS)
    assert source.evaluation_indices(per_episode=4).tolist() == [0, 3, 6, 9, 10, 11, 13, 14]
    assert source.evaluation_indices(budget=6).tolist() == [0, 4, 9, 10, 12, 14]
