"""Scale: what the files say becomes what the episode says, piece by piece."""

import numpy as np
import pytest
from scipy.interpolate import Akima1DInterpolator

from egodata.errors import ConfigError, InputError
from egodata.geometry.hand import convert_left_hand, hand_poses
from egodata.geometry.pose import compose, matrix_from_pose
from egodata.geometry.rotation import angle_rad, quat_from_matrix
from egodata.testing.world.hands import hand_keypoints
from egodata.vendors.scale.config import FillConfig
from egodata.vendors.scale.fill import akima, fill_gaps

from .vendor_files import FRAMES, HAND, STEP_US, T0_US, codes, hand_points, stamps_us, text_clip

TURNS = {
    "x": [[1.0, 0, 0], [0, 0, -1], [0, 1, 0]],
    "y": [[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]],
    "z": [[0.0, -1, 0], [1, 0, 0], [0, 0, 1]],
}


def test_numbers_and_metadata(scale):
    draft = scale.draft()
    meta, arrays = draft.meta, draft.arrays
    head = matrix_from_pose(arrays["obs_head_pose"].astype(np.float64))
    np.testing.assert_allclose(head, scale.head, atol=1e-6)
    np.testing.assert_array_equal(arrays["obs_rgb_timestamps_ns"], stamps_us() * 1000)
    for side, points in hand_points().items():
        np.testing.assert_allclose(arrays[f"{side}.obs_keypoints"].reshape(-1, 21, 3), points, atol=1e-6)
        assert arrays[f"{side}.obs_wrist_pose_valid"].all() and arrays[f"{side}.obs_keypoints_point_valid"].all()
    assert (meta.episode_id, meta.clip.aliased, meta.clock, meta.fps) == (scale.id, True, "unix", 30)
    assert (meta.task_name, meta.task_description, meta.operator, meta.session) == ("fold the cloth", "fold the cloth", None, None)
    assert (meta.embodiment, meta.hand_frame_convention) == ("human_bimanual", "anat-v1")
    assert draft.annotations == {} and not any(key.endswith("_source") for key in arrays)
    camera = draft.calibration.cameras["front_1"]
    assert camera.model == "PINHOLE" and camera.rectified and camera.resolution == (96, 60) and camera.k[0][0] == 60


@pytest.mark.parametrize("axis", TURNS)
def test_a_quarter_turn_about_each_axis(scale, axis):
    turn = np.array(TURNS[axis])
    scale.head = compose(np.tile(turn, (FRAMES, 1, 1)), np.tile((1.0, 2, 3), (FRAMES, 1)))
    draft = scale.draft()
    np.testing.assert_allclose(matrix_from_pose(draft.arrays["obs_head_pose"].astype(float))[5, :3, :3], turn, atol=1e-6)


def test_the_vendors_own_hand_frame_is_mirror_left(scale):
    """Scale's formula (z to the middle knuckle, x across the knuckles, y = z x x) is mirror-left-v1 up to a hand that is not flat."""
    scale.points = {side: 0.1 + np.tile(hand_keypoints(np.zeros(1), side=side, scale=1.0), (FRAMES, 1, 1)) for side in ("left", "right")}
    draft = scale.draft()
    for side, sign in (("left", 1.0), ("right", -1.0)):
        points = scale.points[side]
        z = points[:, 9] - points[:, 0]
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        x = sign * (points[:, 5] - points[:, 17])
        x -= (x * z).sum(1, keepdims=True) * z
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        theirs = np.stack([x, np.cross(z, x), z], -1)
        ours = draft.arrays[f"{side}.obs_wrist_pose"].astype(float)
        if side == "left":
            ours = convert_left_hand(ours, declared=draft.meta.hand_frame_convention, wanted="mirror-left-v1")
        assert np.rad2deg(angle_rad(matrix_from_pose(ours)[:, :3, :3], theirs).max()) < 3


def test_sub_goals_are_half_open_and_keep_their_last_frame(scale):
    scale.texts = {"Sub-goal": [text_clip(0, 12, "grasp", Hand=["Left"]), text_clip(12, FRAMES - 0.5, "fold | twice \U0001f9e3")]}
    draft = scale.draft()
    spans = [(span.text, span.start, span.end) for span in draft.annotations["annotations_subtask"]]
    assert spans == [("grasp", 0, 12), ("fold | twice \U0001f9e3", 12, FRAMES)]
    assert draft.meta.extra["scale_clips"][0]["attributes"] == {"Hand": ["Left"]}


def test_no_sub_goals_and_none_are_different(scale):
    assert "annotations_subtask" not in scale.draft().annotations
    scale.texts = {"Sub-goal": []}
    assert scale.draft().annotations == {"annotations_subtask": ()}


def test_inactive_time_is_left_out_and_ids_stay(scale):
    scale.texts = {
        "Sub-goal": [text_clip(0, 30, "fold")],
        "Collector Issue": [
            text_clip(14, 16, Collector_Quality_Issue=["Inactive Time"]),
            text_clip(2, 4, Collector_Quality_Issue=["Blur"]),
        ],
    }
    found = scale.read()
    assert [(draft.meta.episode_id, draft.meta.clip.start, draft.meta.clip.end) for draft in found.episodes] == [
        (f"{scale.id}-c0-14", 0, 14),
        (f"{scale.id}-c16-40", 16, 40),
    ]
    assert [draft.annotations["annotations_subtask"][0].end for draft in found.episodes] == [14, 14]
    assert "frames-left-out" in codes(found) and found.episodes[0].meta.provenance["frames_left_out"] == {"inactive": 2}
    second = found.episodes[1]
    np.testing.assert_array_equal(second.arrays["obs_rgb_timestamps_ns"], stamps_us()[16:] * 1000)
    np.testing.assert_array_equal(second.videos["front_1"].rows, np.arange(16, 40))
    scale.texts["Collector Issue"].append(text_clip(30, 30.5, Collector_Quality_Issue=["Inactive Time"]))
    again = [draft.meta.episode_id for draft in scale.read().episodes]
    assert again == [f"{scale.id}-c0-14", f"{scale.id}-c16-30"]  # [31, 40) is too short; the first keeps its id


def test_long_runs_are_cut_and_a_short_rest_is_not_lost(scale):
    scale.config = {"piece_frames": [6, 12]}
    clips = [draft.meta.clip for draft in scale.read().episodes]
    assert [(clip.start, clip.end) for clip in clips] == [(0, 12), (12, 24), (24, 34), (34, 40)]


@pytest.mark.parametrize(("empty", "expected"), [((10, 25), [(0, 40)]), ((10, 26), [(0, 10), (26, 40)])])
def test_a_long_gap_without_hands_ends_an_episode(scale, empty, expected):
    for points in scale.points.values():
        points[slice(*empty)] = 1e9
    assert [(draft.meta.clip.start, draft.meta.clip.end) for draft in scale.read().episodes] == expected


def test_frames_that_jump_in_time_are_not_one_episode(scale):
    late = stamps_us() + np.where(np.arange(FRAMES) >= 20, 500_000, 0)
    scale.stamps = late
    scale.paths = {}
    clips = [draft.meta.clip for draft in scale.read().episodes]
    assert [(clip.start, clip.end) for clip in clips] == [(0, 20), (20, 40)]
    assert "clock-drift" in codes(scale.read())


def test_akima_is_scipys():
    rng = np.random.default_rng(4)
    x = np.cumsum(rng.uniform(0.5, 2, 8))
    for y in (rng.normal(size=(8, 5)), np.repeat(x[:, None] * 2 + 1, 5, 1), np.zeros((8, 5))):
        at = rng.uniform(x[0], x[-1], 40)
        np.testing.assert_allclose(akima(x, y, at=at), Akima1DInterpolator(x, y)(at), atol=1e-9)


def gap(points, *places):
    out = points.copy()
    for start, end in places:
        out[start:end] = np.nan
    return out


def test_filling_is_off_unless_asked_for(scale):
    scale.points["left"] = np.where(np.isnan(gap(scale.points["left"], (15, 20))), 1e9, scale.points["left"])
    draft = scale.draft()
    assert np.flatnonzero(~draft.arrays["left.obs_wrist_pose_valid"]).tolist() == [15, 16, 17, 18, 19]
    scale.config = {"fill": {}}
    draft = scale.draft()
    assert draft.arrays["left.obs_wrist_pose_valid"].all()
    for name in ("obs_keypoints", "obs_wrist_pose", "obs_ee_pose"):
        assert np.flatnonzero(draft.arrays[f"left.{name}_source"] == 1).tolist() == [15, 16, 17, 18, 19]
        assert not draft.arrays[f"right.{name}_source"].any()
    made, true = draft.arrays["left.obs_keypoints"][15:20].reshape(-1, 21, 3), hand_points()["left"][15:20]
    assert np.abs(made - true).max() < 2e-3


@pytest.mark.parametrize(
    ("places", "why"),
    [(((10, 26),), "too long"), (((15, 20), (22, 31)), "two anchors"), (((0, 5),), "nothing before"), (((38, 40),), "nothing after")],
)
def test_what_is_not_filled(places, why):
    points = gap(hand_points()["left"], *places)
    out, filled, _ = fill_gaps(points, np.arange(FRAMES) / 30, config=FillConfig())
    start, end = places[0]
    assert not filled[start:end].any() and np.isnan(out[start:end]).all()


def test_a_fill_that_would_leap_is_rejected():
    points = gap(hand_points()["left"], (15, 17))
    points[17:] += 10
    _, filled, left_open = fill_gaps(points, np.arange(FRAMES) / 30, config=FillConfig())
    assert not filled.any() and left_open == 1


def test_measured_points_inside_a_gap_stay():
    points = hand_points()["left"]
    points[15:18, 3:] = np.nan
    points[16, 0] += 0.004
    out, filled, _ = fill_gaps(points, np.arange(FRAMES) / 30, config=FillConfig())
    assert filled[15:18].all() and np.isfinite(out).all()
    np.testing.assert_array_equal(out[16, 0], points[16, 0])


def test_config_is_checked(scale):
    scale.config = {"piece_frames": [10, 15]}
    with pytest.raises(ConfigError, match="at least twice"):
        scale.read()


def test_old_names_of_the_body_resolve_with_a_finding(scale):
    scale.config = {"embodiment": "scale_bimanual"}
    found = scale.read()
    assert found.episodes[0].meta.embodiment == "human_bimanual" and "embodiment-alias" in codes(found)


def test_a_folder_without_recordings_is_said(tmp_path, scale):
    (tmp_path / "raw" / "notes").mkdir(parents=True)
    with pytest.raises(InputError, match="no recordings"):
        scale.discover()


def test_frame_times_of_their_own_place_a_trajectory_that_starts_late(scale):
    """The scene's poses start ten frames after its video and end five before."""
    scale.sensor = {"video": {"timestamps": stamps_us()}}
    scale.stamps, scale.head = stamps_us()[10:35] + 3000, scale.head[10:35]
    draft = scale.draft()
    assert np.flatnonzero(draft.arrays["obs_head_pose_valid"]).tolist() == list(range(10, 35))
    np.testing.assert_allclose(draft.arrays["obs_head_pose"][10:35, :3], scale.head[:, :3, 3], atol=1e-6)
    np.testing.assert_array_equal(draft.arrays["obs_rgb_timestamps_ns"], stamps_us() * 1000)
    assert "head-pose-missing" in codes(scale.read())


def test_points_keep_times_of_their_own(scale):
    """A slower path, a little late: each frame takes the nearest within half a frame, others have none."""
    times = (T0_US + 2 * STEP_US * np.arange(20) + 5000).tolist()
    values = hand_points()["right"][::2, 5].tolist()
    scale.paths = {"right_hand_index1": {"timestamps": times, "values": values}}
    valid = scale.draft().arrays["right.obs_keypoints_point_valid"][:, 5]
    assert np.flatnonzero(valid).tolist() == list(range(0, FRAMES, 2))


def test_the_hand_pose_is_that_of_its_points(scale):
    draft = scale.draft()
    wrist, effector, _ = hand_poses(hand_points()["right"])
    np.testing.assert_allclose(draft.arrays["right.obs_wrist_pose"], wrist, atol=1e-6)
    np.testing.assert_allclose(draft.arrays["right.obs_ee_pose"], effector, atol=1e-6)
    assert HAND.shape == (21, 3) and quat_from_matrix(np.eye(3))[0] == 1
