"""Recipes: shipped ones, wrong values, and refusing an episode before its data is read."""

from dataclasses import replace

import pytest

from egodata.config import config_root, typed
from egodata.errors import ConfigError, NotFoundError, RecipeError
from egodata.sampling import Recipe, bind, load_recipe
from egodata.sampling.cache import read_numbers
from egodata.testing.memory import ramp_hands, ramp_joints

HANDS = load_recipe("human_wrist6d")


@pytest.mark.parametrize("path", sorted((config_root() / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_recipe_loads_under_its_own_name_and_survives_json(path):
    recipe = load_recipe(path.stem)
    assert recipe.name == path.stem
    assert typed(Recipe, recipe.to_json(), where="json") == recipe
    assert load_recipe(str(path)) == recipe


def test_the_flagship_is_what_the_reference_models_use():
    assert (HANDS.action_dim, HANDS.action_steps, HANDS.proprio_dim, HANDS.proprio_history) == (18, 100, 20, 3)
    assert HANDS.arms == ("left", "right")
    assert HANDS.rotation_channels("action") == (3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16, 17)
    assert HANDS.rotation_channels("proprio") == (3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 18)


def test_digests_cover_values_not_the_name_and_statistics_ignore_what_they_do_not_read():
    assert replace(HANDS, name="other").digest == HANDS.digest
    assert replace(HANDS, prompt_roles=()).digest != HANDS.digest
    assert replace(HANDS, prompt_roles=()).numbers_digest == HANDS.numbers_digest
    assert replace(HANDS, action=replace(HANDS.action, steps=50)).numbers_digest != HANDS.numbers_digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": {"layout": "joints", "coordinate_frame": "head"}}, "joints go with none"),
        ({"action": {"layout": "human_18", "coordinate_frame": "wrist", "steps": 0}}, "steps >= 1"),
        ({"action": {"layout": "human_19", "coordinate_frame": "wrist"}}, "layout"),
        ({"proprio": {"layout": "human_20", "coordinate_frame": "head", "history": 0}}, "history"),
        ({"image_history": {"count": 0}}, "count >= 1"),
        ({"embodiments": ["human_bimanuel"]}, r"human_bimanuel is unknown; did you mean human_bimanual"),
        ({"proprio": {"layout": "joints", "coordinate_frame": "none"}}, "different bodies"),
        ({"prompt_roles": ["fold_segments"]}, r"prompt role fold_segments is not text: expected annotations\*"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_wrong_values_are_named(change, message):
    with pytest.raises(ConfigError, match=message):
        typed(Recipe, {**HANDS.to_json(), **change}, where="recipe")


def test_an_unknown_recipe_lists_the_nearest():
    with pytest.raises(NotFoundError, match="human_wrist6d"):
        load_recipe("human_wrist6")


def test_bind_resolves_widths_names_and_keys():
    layout = bind(HANDS, ramp_hands("h", frames=5).meta)
    assert (layout.action_dim, layout.proprio_dim) == (18, 20)
    assert layout.action_names[:5] == ("left.x", "left.y", "left.z", "left.r1x", "left.r1y")
    assert layout.proprio_names[9] == "left.grip"
    assert "images.front_1" not in layout.keys
    assert {"obs_head_pose_valid", "left.obs_ee_pose_valid"} < set(layout.keys)
    joints = bind(load_recipe("joints"), ramp_joints("j", frames=5, dim=26).meta)
    assert (joints.action_dim, joints.action_names[25]) == (26, "joint25")


def test_an_episode_that_lacks_something_is_refused_before_its_data_is_read():
    episode = ramp_joints("j", frames=5)
    with pytest.raises(RecipeError, match="recipe human_wrist6d on episode j: expected embodiment human_bimanual, got joint_robot"):
        read_numbers(episode, HANDS)
    human = ramp_hands("h", frames=5)
    features = {key: spec for key, spec in human.meta.features.items() if not key.startswith("left.obs_ee_pose")}
    human.meta = replace(human.meta, features=features)
    with pytest.raises(RecipeError, match=r"missing left.obs_ee_pose, images.wrist \(did you mean .*right.obs_ee_pose.* it has left"):
        read_numbers(human, replace(HANDS, cameras=("front_1", "wrist")))
    assert episode.row_reads == human.row_reads == []


def test_an_aliased_embodiment_fits():
    meta = ramp_hands("h", frames=5).meta
    assert bind(HANDS, replace(meta, embodiment="mecka_bimanual")).action_dim == 18
