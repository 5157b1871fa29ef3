"""Recipes: shipped ones, wrong values, and refusing an episode before its data is read."""

from dataclasses import replace
from fractions import Fraction

import pytest

from egodata.config import config_root, typed
from egodata.errors import ConfigError, NotFoundError, RecipeError
from egodata.sampling import ProprioSpec, Recipe, SpanSelection, bind, load_recipe
from egodata.sampling.cache import read_numbers
from egodata.schema.features import FeatureSpec, pose_spec
from egodata.testing.memory import ramp_eva, ramp_hands, ramp_joints

HANDS, JOINTS, EVA = load_recipe("human_wrist6d"), load_recipe("joints"), load_recipe("eva_ee20")


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
        ({"action": {"layout": "human_18", "coordinate_frame": "base"}}, "hands have poses in wrist, head or world, they have no base"),
        ({"action": {"layout": "robot_20", "coordinate_frame": "head"}}, "robots have poses in base or wrist, they record no head"),
        ({"action": {"layout": "robot_20", "coordinate_frame": "base"}}, "action robot_20 and proprio human_20 are of different bodies"),
        (
            {"action": {"layout": "human_132", "coordinate_frame": "wrist"}},
            "cannot be undone without its rotation. Set keypoints_frame: shared",
        ),
        ({"proprio": {"layout": "human_20", "coordinate_frame": "head", "stride_frames": 5, "stride_s": 0.2}}, "one of stride_frames and"),
        ({"proprio": {"layout": "human_20", "coordinate_frame": "head", "stride_s": 0.0}}, "a stride above 0"),
        ({"span_selection": {"key": "fold_segments", "rule": "index"}}, "expected indices with rule index and only there"),
        ({"span_selection": {"key": "fold_segments", "indices": [1]}}, "expected indices with rule index and only there"),
        ({"span_selection": {"key": "fold_segments", "min_frames": 0}}, "min_frames of at least 1"),
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


def changed(episode, **specs):
    episode.meta = replace(episode.meta, features={**episode.meta.features, **specs})
    return episode


@pytest.mark.parametrize(
    ("recipe", "episode", "message"),
    [
        (
            HANDS,
            changed(ramp_hands("h", frames=2), **{"left.obs_ee_pose": FeatureSpec("float32", (6,))}),
            r"rows of shape \(7,\), got \(6,\)",
        ),
        (
            JOINTS,
            changed(ramp_joints("j", frames=2), cmd_joints=FeatureSpec("float32", (2, 3))),
            r"cmd_joints: expected rows of shape \(D,\)",
        ),
        (HANDS, changed(ramp_hands("h", frames=2), **{"left.obs_ee_pose": pose_spec("base")}), "expected poses in the world, got the base"),
        (EVA, changed(ramp_eva("e", frames=2), **{"right.obs_ee_pose": pose_spec("world")}), "expected poses in the base, got the world"),
        (
            replace(JOINTS, span_selection=SpanSelection("fold_segments")),
            ramp_joints("j", frames=2),
            r"missing spans fold_segments \(it has none\)",
        ),
    ],
)
def test_what_cannot_be_satisfied_is_refused_before_data_is_read(recipe, episode, message):
    with pytest.raises(RecipeError, match=message):
        read_numbers(episode, recipe)
    assert episode.row_reads == []


def test_a_robot_without_a_gripper_or_a_camera_is_refused_with_what_it_has():
    episode = ramp_eva("e", frames=2)
    lost = ("left.cmd_gripper", "images.left_wrist")
    episode.meta = replace(episode.meta, features={key: spec for key, spec in episode.meta.features.items() if key not in lost})
    expected = r"missing left.cmd_gripper, images.left_wrist \(.*; it has .*right.cmd_gripper.*, cameras front_1, right_wrist"
    with pytest.raises(RecipeError, match=expected):
        read_numbers(episode, EVA)
    assert episode.row_reads == []


def test_strides_in_seconds_follow_the_frame_rate():
    spec = ProprioSpec("human_20", "head", stride_s=0.25)
    assert [spec.stride_in(Fraction(fps)) for fps in (2, 10, 20, 25, 30)] == [1, 2, 5, 6, 8]
    assert ProprioSpec("human_20", "head").stride_in(Fraction(10)) == 5


def test_fields_that_came_later_leave_older_digests_as_they_were():
    """The digests of the first two recipes, worked out before keypoints, grippers, strides in seconds and selections existed."""
    assert (HANDS.digest[:16], HANDS.numbers_digest[:16]) == ("ef387d0f14ebcfa8", "7fd3120696953747")
    assert (JOINTS.digest[:16], JOINTS.numbers_digest[:16]) == ("b64ff755e6977803", "69ae9c14f5c31481")
    others = [
        replace(HANDS, span_selection=SpanSelection("fold_segments")),
        replace(HANDS, action=replace(HANDS.action, keypoints_frame="shared")),
        replace(HANDS, proprio=replace(HANDS.proprio, stride_frames=None, stride_s=0.2)),
    ]
    assert len({recipe.numbers_digest for recipe in (HANDS, *others)}) == 4
    assert replace(HANDS, image_history=replace(HANDS.image_history, before_start="first")).digest != HANDS.digest


def test_an_aliased_embodiment_fits():
    meta = ramp_hands("h", frames=5).meta
    assert bind(HANDS, replace(meta, embodiment="mecka_bimanual")).action_dim == 18
