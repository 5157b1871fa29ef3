"""Which frames may start a sample: chosen spans, frames with an arm, and why the others are left out."""

from dataclasses import replace

import numpy as np
import pytest

from egodata.annotations import Span
from egodata.catalog.manifest import HeadEpisode
from egodata.errors import RecipeError
from egodata.sampling import HeadSource, SpanSelection, load_recipe
from egodata.sampling.selection import chosen_spans, usable_frames
from egodata.testing.memory import MemoryStore, ramp_joints

JOINTS = load_recipe("joints")
A, B, C, D = Span("", 10, 20), Span("", 0, 5), Span("x", 15, 25), Span("", 30, 32)


def test_an_episode_that_lacks_what_a_recipe_needs_stops_the_head_before_any_row_is_read():
    """Both are looked at before the first number is read, the one that fits too."""
    recipe = replace(JOINTS, span_selection=SpanSelection("fold_segments"))
    episodes = [ramp_joints(name, frames=5) for name in ("a", "b")]
    episodes[0].annotations = {"fold_segments": [Span("", 1, 4)]}
    store = MemoryStore({episode.meta.episode_id: episode for episode in episodes})
    heads = [HeadEpisode(episode.meta.episode_id, 5, episode.digests.content) for episode in episodes]
    with pytest.raises(RecipeError, match=r"recipe joints on episode b: missing spans fold_segments \(it has none\)"):
        HeadSource(heads, store, recipe=recipe)
    assert [episode.row_reads for episode in episodes] == [[], []]
    source = HeadSource(heads, store, recipe=replace(recipe, span_selection=SpanSelection("fold_segments", absent="leave_out")))
    assert source.index.frames.tolist() == [1, 2, 3]
    assert dict(source.excluded) == {"no_span_key": 5, "outside_selected_spans": 2}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, [A, B, C, D]),
        ({"rule": "first"}, [B]),
        ({"rule": "last"}, [D]),
        ({"rule": "longest"}, [A]),
        ({"rule": "index", "indices": (1, -1)}, [B, D]),
        ({"rule": "index", "indices": (4, -5)}, []),
        ({"rule": "last", "min_frames": 3}, [C]),
        ({"rule": "index", "indices": (3,), "min_frames": 3}, []),
        ({"min_frames": 11}, []),
    ],
)
def test_rules_choose_spans_in_stored_order(selection, expected):
    assert chosen_spans(SpanSelection("fold_segments", **selection), [A, B, C, D]) == tuple(expected)


def test_every_frame_that_is_left_out_is_counted_once():
    ready = np.ones((40, 2), bool)
    ready[12:14] = False
    ready[33:35] = False
    ready[16, 0] = False
    recipe = replace(JOINTS, span_selection=SpanSelection("fold_segments"))
    found = usable_frames(recipe, ready, spans={"fold_segments": [A, C]})
    assert np.flatnonzero(found.mask).tolist() == [10, 11, *range(14, 25)]
    assert dict(found.excluded) == {"outside_selected_spans": 25, "no_valid_arm": 2}
    everything = usable_frames(JOINTS, ready, spans={})
    assert (int(everything.mask.sum()), dict(everything.excluded)) == (36, {"no_valid_arm": 4})
