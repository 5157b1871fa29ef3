import numpy as np
import pytest

from egodata.catalog.manifest import HeadEpisode
from egodata.errors import GateError
from egodata.sampling import HeadSource, evaluation_head, load_recipe
from egodata.testing.memory import MemoryStore, ramp_hands


@pytest.fixture
def source():
    episodes = {name: ramp_hands(name, frames=frames) for name, frames in (("a", 10), ("b", 498), ("c", 7))}
    for side in ("left", "right"):
        episodes["a"].arrays[f"{side}.obs_ee_pose_valid"][3:5] = False
    store = MemoryStore(episodes)
    heads = [HeadEpisode(name, one.meta.total_frames, one.digests.content) for name, one in episodes.items()]
    return HeadSource(heads, store, recipe=load_recipe("human_wrist6d"))


def test_frames_are_evenly_spaced_in_every_episode_and_unshuffled(source):
    plan = evaluation_head(source, per_episode=3)
    frames = source.index.frames[plan.indices].tolist()
    assert frames == [0, 6, 9, 0, 248, 497, 0, 3, 6]  # of 8 usable frames of a: 0, 4 (half to even), 7
    assert np.all(np.diff(plan.indices) > 0)
    assert evaluation_head(source, budget=9).per_episode == 3
    assert evaluation_head(source, budget=2).per_episode == 1
    assert len(evaluation_head(source).indices) == len(source)  # the default budget holds all of them


def test_pins_are_whole_clips_in_the_order_given(source):
    clips = evaluation_head(source, pins=("c", "a")).clips
    assert [clip.episode_id for clip in clips] == ["c", "a"]
    assert clips[0].frames.tolist() == list(range(7)) and clips[0].left_out == 0
    assert clips[1].frames.tolist() == [0, 1, 2, 5, 6, 7, 8, 9] and clips[1].left_out == 2
    for clip in clips:
        assert np.all(np.diff(clip.indices) == 1)
        samples = source.samples(clip.indices.tolist(), with_images=False)
        assert [(sample.episode_id, sample.frame) for sample in samples] == [(clip.episode_id, frame) for frame in clip.frames.tolist()]
    with pytest.raises(GateError, match="pin d: not in this head of 3 episodes"):
        evaluation_head(source, pins=("d",))
