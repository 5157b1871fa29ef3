"""Statistics of every shipped recipe: which cells are constant, that rotations are kept, and that normalising comes back."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from egodata.catalog.manifest import HeadEpisode
from egodata.sampling import HeadSource, load_recipe
from egodata.schema.features import FeatureSpec
from egodata.stats.compute import feature_stats
from egodata.stats.normalise import FLOOR, affine
from egodata.testing.drafts import small_draft
from egodata.testing.memory import MemoryEpisode, MemoryStore, ramp_eva, ramp_hands, ramp_joints

KEYPOINTS = load_recipe("human_keypoints144")


def source_of(recipe, *episodes):
    store = MemoryStore({episode.meta.episode_id: episode for episode in episodes})
    heads = [HeadEpisode(e.meta.episode_id, e.meta.total_frames, e.digests.content) for e in episodes]
    return HeadSource(heads, store, recipe=replace(recipe, cameras=()))


@pytest.fixture(scope="module")
def hands(tmp_path_factory):
    """Hands whose poses are those of their keypoints, as vendors' are."""
    draft = small_draft(tmp_path_factory.mktemp("hands"), frames=130, size=(16, 16))
    camera = {"images.front_1": FeatureSpec("h264", (16, 16, 3))}
    return MemoryEpisode(replace(draft.meta, features={**draft.meta.features, **camera}), draft.arrays)


def constant(stats):
    """Cells (S, D) whose whole range is no scale."""
    return stats.fields["max"] - stats.fields["min"] < FLOOR


@pytest.mark.parametrize(("kept", "every_step"), [("own_wrist", 10), ("shared", 0)])
def test_constant_cells_of_the_keypoint_layout(hands, kept, every_step):
    recipe = replace(KEYPOINTS, action=replace(KEYPOINTS.action, keypoints_frame=kept))
    source = source_of(recipe, hands)
    flat = constant(feature_stats(source)["action"])
    names = source.layout.action_names
    palm = ["kp0_x", "kp0_y", "kp0_z", "kp9_x", "kp9_y"]
    pose = ["x", "y", "z", *(f"r{c}{axis}" for c in (1, 2) for axis in "xyz")]
    assert [names[at] for at in np.flatnonzero(flat[0])] == [f"{side}.{name}" for side in ("left", "right") for name in (*pose, *palm)]
    assert flat[0].sum() == 28
    assert flat.all(0).sum() == every_step
    if every_step:
        assert [names[at] for at in np.flatnonzero(flat.all(0))] == [f"{side}.{name}" for side in ("left", "right") for name in palm]


MAKERS = {"human_wrist6d": ramp_hands, "human_keypoints144": ramp_hands, "eva_ee20": ramp_eva, "joints": ramp_joints}


@lru_cache(maxsize=1)
def counted(name):
    """A source of one ramp episode, its statistics and all of its windows."""
    source = source_of(load_recipe(name), MAKERS[name]("e", frames=45))
    return source, feature_stats(source), source.windows_of(0)


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name in sorted(MAKERS) for mode in ("quantile", "minmax", "zscore")])
def test_normalising_comes_back_where_there_is_a_scale_and_to_the_centre_elsewhere(name, mode):
    source, found, windows = counted(name)
    for part, values, valid in (
        ("action", windows.actions, np.isfinite(windows.actions)),
        ("proprio", windows.proprio, windows.proprio_valid),
    ):
        stats = found[part]
        normaliser = affine(stats.fields, mode, kept=stats.kept)
        scaled = normaliser.forward(values, valid)
        assert np.isfinite(scaled).all()
        rotations = list(stats.kept)
        assert rotations == list(source.recipe.rotation_channels(part))
        np.testing.assert_array_equal(scaled[..., rotations], values[..., rotations])
        back = normaliser.inverse(scaled)
        low, high = {"quantile": ("q01", "q99"), "minmax": ("min", "max")}.get(mode, ("std", "std"))
        span = stats.fields["std"] if mode == "zscore" else stats.fields[high] - stats.fields[low]
        good = np.broadcast_to(span >= FLOOR, values.shape) & valid
        np.testing.assert_allclose(back[good], values[good], rtol=2e-6, atol=2e-6 * float(np.abs(values[good]).max()))
        others = np.broadcast_to(span < FLOOR, values.shape) & valid
        others[..., rotations] = False
        assert (scaled[others] == 0).all()
