"""Every layout, coordinate frame, history and cut-off against a slow restatement of the rules, value by value, on ramps."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from egodata.sampling import ActionSpec, ProprioSpec, SpanSelection, bind, episode_windows, load_recipe
from egodata.sampling.layouts import LAYOUTS
from egodata.sampling.requests import read_windows
from egodata.testing.memory import ramp_eva, ramp_hands, ramp_joints
from tests.unit.sampling.slow import Slow

BORDERS = (0, 1, 3, 60, 79, 80, 130, 157, 159)
TOTAL = 160
SHIPPED = ("human_wrist6d", "human_keypoints144", "eva_ee20", "joints")
HANDS, KEYPOINTS, EVA, JOINTS = (load_recipe(name) for name in SHIPPED)
EPISODES = {"human": ramp_hands, "robot": ramp_eva, "joints": ramp_joints}
HAND_WIDTHS = (12, 14, 18, 20, 126, 132, 138, 140, 144)


def human(width, frame, *, own=True, base=KEYPOINTS, seen="head"):
    """Vary layout and coordinate frames of the keypoint recipe."""
    kept = "own_wrist" if own and width not in (126, 132) else "shared"
    action = replace(base.action, layout=f"human_{width}", coordinate_frame=frame, keypoints_frame=kept)
    proprio = replace(base.proprio, layout=f"human_{width}", coordinate_frame=seen, keypoints_frame="own_wrist" if own else "shared")
    return replace(base, name=f"h{width}-{frame}-{seen}-{kept}", action=action, proprio=proprio)


def robot(layout, **frames):
    """Vary the Eva recipe; joints where the layout says so."""
    if layout == "robot_joints":
        action = ActionSpec("robot_joints", "none", feature="cmd_joints")
        return replace(EVA, name=layout, action=action, proprio=ProprioSpec("robot_joints", "none", feature="obs_joints"))
    action = replace(EVA.action, layout=layout, coordinate_frame=frames.get("action", "wrist"))
    proprio = replace(EVA.proprio, layout=layout, coordinate_frame=frames.get("proprio", "base"))
    return replace(EVA, name=f"{layout}-{action.coordinate_frame}-{proprio.coordinate_frame}", action=action, proprio=proprio)


MIXED = replace(EVA, name="poses-from-joints", proprio=robot("robot_joints").proprio)
SECONDS = replace(HANDS, name="seconds", proprio=replace(HANDS.proprio, stride_frames=None, stride_s=0.25, history=4))
SHORT = replace(HANDS, name="short", action=replace(HANDS.action, window_s=0.3, steps=7), proprio=replace(HANDS.proprio, stride_frames=1))
VARIANTS = [
    HANDS,
    KEYPOINTS,
    EVA,
    JOINTS,
    *(human(width, "wrist") for width in HAND_WIDTHS),
    *(human(width, "head", own=False, seen="wrist") for width in (18, 126, 140, 144)),
    *(human(width, "world", own=False, seen="world") for width in (12, 132, 144)),
    *(robot(layout) for layout in ("robot_12", "robot_14", "robot_18", "robot_joints")),
    robot("robot_20", action="base", proprio="wrist"),
    MIXED,
    SECONDS,
    SHORT,
]


def named(recipe):
    return recipe.name


def check(recipe, windows, slow, starts):
    for row, start in enumerate(starts):
        action, real = slow.action(start)
        np.testing.assert_allclose(windows.actions[row], action, atol=5e-5, rtol=1e-6, err_msg=f"action at {start}")
        assert windows.action_mask[row].tolist() == [[inside] * action.shape[1] for inside in real.tolist()]
        proprio, inside = slow.proprio(start)
        np.testing.assert_allclose(windows.proprio[row], proprio, atol=5e-5, rtol=1e-6, err_msg=f"proprio at {start}")
        assert windows.proprio_mask[row].tolist() == inside.tolist()
    assert windows.arm_valid.all()
    assert windows.proprio_valid.all()


def compare(recipe, fps, starts):
    episode = EPISODES[recipe.action_layout.body]("e", frames=TOTAL, fps=Fraction(fps))
    windows = episode_windows(episode.arrays, recipe, starts=np.array(starts), fps=Fraction(fps))
    layout = bind(recipe, episode.meta)
    assert windows.actions.shape == (len(starts), recipe.action.steps, layout.action_dim)
    assert windows.proprio.shape == (len(starts), recipe.proprio.history, layout.proprio_dim)
    check(recipe, windows, Slow(recipe, episode.arrays, fps=fps), starts)


@pytest.mark.parametrize("recipe", VARIANTS[:4], ids=named)
@pytest.mark.parametrize("fps", [10, 20, 25, 30])
def test_shipped_recipes_equal_the_slow_restatement_at_every_border(recipe, fps):
    compare(recipe, fps, BORDERS)


@pytest.mark.parametrize("recipe", VARIANTS[4:], ids=named)
def test_every_layout_and_coordinate_frame_equals_the_slow_restatement(recipe):
    compare(recipe, 25, (3, 157))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", VARIANTS[4:], ids=named)
@pytest.mark.parametrize("fps", [10, 20, 25, 30])
def test_every_layout_and_coordinate_frame_equals_the_slow_restatement_at_every_border(recipe, fps):
    compare(recipe, fps, BORDERS)


def test_every_layout_is_in_the_variants():
    assert {recipe.action.layout for recipe in VARIANTS} == set(LAYOUTS)


def test_the_widths_and_places_of_the_documented_layouts():
    dims = {name: load_recipe(name) for name in SHIPPED[:3]}
    assert [(r.action_dim, r.proprio_dim) for r in dims.values()] == [(18, 20), (144, 144), (20, 20)]
    names = bind(KEYPOINTS, ramp_hands("h", frames=2).meta).action_names
    assert [names[i] for i in (0, 2, 3, 8, 9, 71)] == ["left.x", "left.z", "left.r1x", "left.r2z", "left.kp0_x", "left.kp20_z"]
    assert [names[i] for i in (72, 74, 75, 80, 81, 143)] == ["right.x", "right.z", "right.r1x", "right.r2z", "right.kp0_x", "right.kp20_z"]
    assert KEYPOINTS.rotation_channels("action") == (3, 4, 5, 6, 7, 8, 75, 76, 77, 78, 79, 80)
    grips = bind(EVA, ramp_eva("e", frames=2).meta).action_names
    assert (grips[9], grips[19]) == ("left.grip", "right.grip")
    for width in HAND_WIDTHS:
        layout = LAYOUTS[f"human_{width}"]
        assert 2 * layout.width == width
        assert len(layout.rotation_channels()) == {12: 6, 14: 6, 126: 0, 132: 0, 138: 6, 140: 8}.get(width, 12)


@pytest.mark.parametrize("recipe", [HANDS, KEYPOINTS, EVA, JOINTS], ids=named)
def test_span_cutoff_stops_the_window_of_every_recipe(recipe):
    cut = replace(recipe, span_cutoff="fold_segments")
    spans = {"fold_segments": [(50, 70), (60, 90), (100, 120)]}
    starts = (49, 50, 60, 69, 70, 89, 95, 119)
    episode = EPISODES[recipe.action_layout.body]("e", frames=TOTAL)
    slow = Slow(cut, episode.arrays, fps=30, spans=spans)
    ends = np.array([slow.end_of(start) for start in starts])
    assert ends.tolist() == [160, 70, 70, 70, 90, 90, 160, 120]
    check(cut, episode_windows(episode.arrays, cut, starts=np.array(starts), fps=Fraction(30), ends=ends), slow, starts)


@pytest.mark.parametrize("recipe", [HANDS, KEYPOINTS, EVA, robot("robot_joints"), JOINTS], ids=named)
@pytest.mark.parametrize("start", [3, 95, 150])
def test_a_sample_depends_on_the_rows_of_its_windows_and_on_no_others(recipe, start):
    episode = EPISODES[recipe.action_layout.body]("e", frames=TOTAL)
    slow = Slow(recipe, episode.arrays, fps=30)
    slow.action(start)
    slow.proprio(start)
    expected = episode_windows(episode.arrays, recipe, starts=np.array([start]), fps=Fraction(30))
    poisoned = {key: rows.copy() for key, rows in episode.arrays.items()}
    for key, rows in poisoned.items():
        if rows.dtype.kind == "f":
            rows[sorted(set(range(TOTAL)) - slow.touched.get(key, set()))] = np.nan
    found = episode_windows(poisoned, recipe, starts=np.array([start]), fps=Fraction(30))
    for name in ("actions", "action_mask", "proprio", "proprio_mask", "arm_valid", "proprio_valid"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert set(slow.touched) == set(recipe.features)
    for key, frames in slow.touched.items():  # and every touched key matters
        changed = dict(poisoned)
        changed[key] = poisoned[key].copy()
        changed[key][max(frames)] = np.nan
        other = episode_windows(changed, recipe, starts=np.array([start]), fps=Fraction(30))
        assert not (np.array_equal(other.action_mask, found.action_mask) and np.array_equal(other.proprio_valid, found.proprio_valid)), key


def test_the_windows_of_a_sample_are_read_as_their_union():
    episode = ramp_joints("j", frames=TOTAL)
    parts = read_windows(episode, {"cmd_joints": [(60, 90)], "obs_joints": [(0, 1), (150, 151)]})
    assert [len(rows) for rows in parts["obs_joints"]] == [1, 1]
    assert episode.row_reads == [[("cmd_joints", (60, 90)), ("obs_joints", (0, 151))]]
    far = ramp_joints("k", frames=400)
    read_windows(far, {"obs_joints": [(0, 1), (250, 251)]})
    assert far.row_reads == [[("obs_joints", (0, 1))], [("obs_joints", (250, 251))]]


def test_selection_does_not_change_windows_but_enters_the_digest_of_statistics():
    selected = replace(HANDS, span_selection=SpanSelection("fold_segments"))
    assert selected.digest != HANDS.digest
    assert selected.numbers_digest != HANDS.numbers_digest
    assert selected.span_keys == ("fold_segments",)
