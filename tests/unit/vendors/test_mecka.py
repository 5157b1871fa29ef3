"""Mecka as documented: frames of reference, roles, clocks, calibration, session."""

import json

import numpy as np
import pytest

from egodata.errors import ConfigError, InputError, NotFoundError
from egodata.geometry.camera import project
from egodata.geometry.pose import invert, matrix_from_pose, transform_points
from egodata.geometry.rotation import matrix_from_zyx
from egodata.vendors import VendorOptions, get_vendor

from .conftest import FRAMES, HAND, INTRINSICS, T0, ego_row, frames_csv, hand_rows


def test_head_pose_is_the_camera_in_opencv_axes(mecka):
    pose = matrix_from_pose(mecka.draft().arrays["obs_head_pose"])
    camera = matrix_from_zyx(0.1, 0.2, 0.05)
    np.testing.assert_allclose(pose[3, :3, 2], camera[:, 0], atol=1e-6)  # OpenCV z is the vendor's forward x
    np.testing.assert_allclose(pose[3, :3, 0], -camera[:, 1], atol=1e-6)  # right is minus left
    np.testing.assert_allclose(pose[3, :3, 1], -camera[:, 2], atol=1e-6)  # down is minus up
    np.testing.assert_allclose(pose[3, :3, 3], [0.13, 0.2, 1.5], atol=1e-6)


def test_a_quarter_turn_about_z_tells_the_quaternion_order(mecka):
    half = np.sqrt(0.5)
    mecka.egomotion = "\n".join(ego_row(i, yaw=np.pi / 2, pitch=0, roll=0, quat=(half, 0, 0, half)) for i in range(FRAMES))
    pose = matrix_from_pose(mecka.draft().arrays["obs_head_pose"])
    np.testing.assert_allclose(pose[0, :3, 2], [0, 1, 0], atol=1e-6)  # forward looks along world y


def test_hands_are_camera_frame_metres_and_land_in_the_world(mecka):
    arrays = mecka.draft().arrays
    world = arrays["right.obs_keypoints"][5].reshape(21, 3)
    expected = HAND @ matrix_from_zyx(0.1, 0.2, 0.05).T + [0.15, 0.2, 1.5]
    np.testing.assert_allclose(world, expected, atol=1e-6)
    in_camera = transform_points(invert(matrix_from_pose(arrays["obs_head_pose"][5:6])), world[None])[0]
    np.testing.assert_allclose(in_camera, np.stack([-HAND[:, 1], -HAND[:, 2], HAND[:, 0]], -1), atol=1e-6)
    assert arrays["right.obs_keypoints_point_valid"].all() and arrays["left.obs_wrist_pose_valid"].all()


def test_numbers_have_the_documented_types(mecka):
    draft = mecka.draft()
    types = {key: str(array.dtype) for key, array in draft.arrays.items()}
    assert types["obs_rgb_timestamps_ns"] == "int64"
    assert all(kind == ("bool" if key.endswith("valid") else "float32") for key, kind in types.items() if key != "obs_rgb_timestamps_ns")
    assert set(draft.arrays) == set(draft.meta.features)
    assert all(draft.arrays[key].shape[1:] == spec.shape for key, spec in draft.meta.features.items())
    assert draft.meta.provenance["cast_error"]["obs_head_pose"] < 1e-6


def test_stamps_are_exact_unix_nanoseconds(mecka):
    draft = mecka.draft()
    assert draft.meta.clock == "unix" and draft.meta.fps == 30
    assert draft.arrays["obs_rgb_timestamps_ns"].tolist() == [T0 * 10**9 + i * 33_333_000 for i in range(FRAMES)]


@pytest.mark.parametrize(("power", "unit"), [(3, "ms"), (6, "us"), (9, "ns")])
def test_the_unit_of_stamps_is_judged(mecka, power, unit):
    mecka.frames = "index,unix_timestamp\n" + "".join(f"{i},{T0 * 10**power + i * 10**power // 30}\n" for i in range(FRAMES))
    draft = mecka.draft()
    assert draft.meta.clock == "unix"
    assert draft.arrays["obs_rgb_timestamps_ns"][0] == T0 * 10**9


def test_without_frames_csv_times_are_the_videos_own(mecka):
    mecka.frames = None
    draft = mecka.draft()
    assert draft.meta.clock == "frame0" and draft.meta.session is None
    assert draft.arrays["obs_rgb_timestamps_ns"][[0, 3]].tolist() == [0, 100_000_000]


def test_session_is_operator_place_and_utc_date_unless_the_vendor_has_one(mecka):
    assert mecka.draft().meta.session == "aaaa00000000000000000001/kitchen/2025-06-15"
    mecka.info = {"session_id": "s-17"}
    assert mecka.draft().meta.session == "s-17"


def test_operator_may_be_unknown(mecka):
    mecka.info = {"user_id": None}
    meta = mecka.draft().meta
    assert meta.operator is None and meta.session is None


def test_metadata(mecka):
    meta = mecka.draft().meta
    assert (meta.episode_id, meta.recording_id, meta.clip.aliased) == (mecka.id, mecka.id, True)
    assert (meta.vendor, meta.dataset, meta.delivery, meta.embodiment) == ("mecka", "kitchen", "first", "human_bimanual")
    assert (meta.hand_frame_convention, meta.reference_camera, meta.total_frames) == ("anat-v1", "front_1", FRAMES)
    assert meta.extra == {"scene_desc": "a table", "environment_id": "kitchen"}


def test_intrinsics_follow_the_stored_image(mecka):
    camera = mecka.draft().calibration.cameras["front_1"]
    assert camera.resolution == (96, 54) and camera.model == "OPENCV" and camera.distortion[:2] == (0.05324, -0.03083)
    assert camera.k[0][2] == pytest.approx((INTRINSICS["cx"] + 0.5) / 20 - 0.5)
    assert camera.k[1][1] == pytest.approx(INTRINSICS["fl_y"] / 20)


def test_missing_intrinsics_are_unknown_unless_the_config_declares_them(mecka, tmp_path):
    mecka.intrinsics = None
    draft = mecka.draft()
    assert draft.calibration is None
    assert [f.severity.name for f in draft.findings if f.code == "calibration-unknown"] == ["INFO"]
    own = tmp_path / "own.yaml"
    own.write_text("declared_intrinsics: {w: 1920, h: 1080, fl_x: 752.4707, fl_y: 753.0016, cx: 961.8249, cy: 553.2459}\n")
    mecka.config = str(own)
    assert mecka.draft().calibration.cameras["front_1"].k[0][0] == pytest.approx(752.4707 / 20)


def test_listed_files_that_did_not_come_are_named(mecka):
    mecka.intrinsics, mecka.listed = None, ("intrinsics", "annotations")
    draft = mecka.draft()
    found = [finding for finding in draft.findings if finding.code == "listed-not-delivered"]
    assert {(finding.stream, finding.severity.name) for finding in found} == {
        ("intrinsics.json", "WARNING"),
        ("annotations.csv", "WARNING"),
    }
    assert draft.calibration is None and dict(draft.annotations) == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cx": 2000.0}, "outside"),
        ({"fl_x": None}, "fl_x missing"),
        ({"w": 1080, "h": 1920}, "aspect"),
        ({"fl_y": -1.0}, "positive"),
        ({"fl_x": 1e308}, "fl_x"),
        ({"cx": 10**400}, "cx"),
        ({"k1": "abc"}, "k1"),
    ],
)
def test_unusable_intrinsics_are_unknown_and_named(mecka, change, words):
    mecka.intrinsics = json.dumps({**INTRINSICS, **change})
    draft = mecka.draft()
    assert draft.calibration is None
    assert any(words in f.message for f in draft.findings if f.code == "calibration-unusable")


def test_left_of_the_camera_is_left_in_the_image():
    """A point ahead and to the left lies left of the centre."""
    point = np.array([[0.5, 0.1, 0.0]])
    pixel = project(np.stack([-point[:, 1], -point[:, 2], point[:, 0]], -1), np.array([[250.0, 0, 320], [0, 250, 180], [0, 0, 1]]))
    np.testing.assert_allclose(pixel, [[270.0, 180.0]])


def test_roles(mecka):
    rows = [("pick_up", 0, 3, ""), ("sort_cubes", 0, 12, "task"), ("place", 3, 9, "subtask"), ("odd", 1, 2, "weather")]
    body = "".join(f"{text},{T0}.{a * 33333:06d},{T0}.{b * 33333:06d},{role}\n" for text, a, b, role in rows)
    mecka.annotations = "label,start_time,end_time,role\n" + body
    draft = mecka.draft()
    found = {key: [(s.text, s.start, s.end) for s in spans] for key, spans in draft.annotations.items()}
    assert found == {"annotations_task": [("sort cubes", 0, 12)], "annotations_subtask": [("pick up", 0, 3), ("place", 3, 9)]}
    assert any("1 refused: unknown role" in f.message for f in draft.findings)


def test_absent_is_not_empty(mecka):
    assert mecka.draft().annotations == {}
    mecka.annotations = "Labels,start_time,end_time\n"
    assert mecka.draft().annotations == {"annotations_subtask": ()}


def test_seconds_from_the_first_frame(mecka):
    mecka.annotations = "Labels,start_time,end_time\nreach,0.0,0.15\n"
    (span,) = mecka.draft().annotations["annotations_subtask"]
    assert (span.start, span.end) == (0, 5)


def test_stored_size_shrinks_to_the_box_and_never_grows(mecka, tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("stored_size_px: [48, 48]\n")
    assert mecka.draft().videos["front_1"].size == (96, 54)
    mecka.config = str(own)
    assert mecka.draft().videos["front_1"].size == (48, 28)


def test_json_may_be_a_list_and_files_are_named_by_urls(mecka):
    mecka.write()
    value = json.loads((mecka.folder / f"{mecka.id}.json").read_text())
    value["urls"]["hands"] = "https://host.invalid/deep/path/my_hands.csv"
    (mecka.folder / f"{mecka.id}.json").unlink()
    (mecka.folder / "notes.json").write_text("{}")
    (mecka.folder / "episode.json").write_text(json.dumps([value]))
    (mecka.folder / "hands.csv").rename(mecka.folder / "my_hands.csv")
    (ref,) = mecka.discover().recordings
    assert {path.name for path in ref.files["media"]} >= {"episode.json", "my_hands.csv"}
    assert get_vendor("mecka").read(ref, mecka.options).episodes[0].meta.total_frames == FRAMES


def test_unknown_vendor_config_and_folder(mecka, tmp_path):
    with pytest.raises(NotFoundError, match="vendor 'meka': not known, did you mean mecka"):
        get_vendor("meka")
    with pytest.raises(NotFoundError, match="config vendors/mecca"):
        get_vendor("mecka").settings(VendorOptions("a", "b", "mecca"))
    own = tmp_path / "own.yaml"
    own.write_text("head_jump: 1\n")
    with pytest.raises(ConfigError, match="head_jump"):
        get_vendor("mecka").settings(VendorOptions("a", "b", str(own)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no recordings"):
        get_vendor("mecka").discover(tmp_path / "empty", VendorOptions("a", "b"))


def test_shuffled_rows_with_their_numbers_are_the_same_episode(mecka):
    straight = mecka.draft().arrays
    rows = hand_rows()
    mecka.hands = "\n".join(["frame,hand_index,landmark_index,world_x,world_y,world_z", *rows[::-1]])
    mecka.egomotion = "\n".join(ego_row(i) for i in reversed(range(FRAMES)))
    mecka.frames = "\n".join([frames_csv().splitlines()[0], *reversed(frames_csv().splitlines()[1:])])
    draft = mecka.draft()
    assert all(np.array_equal(straight[key], draft.arrays[key], equal_nan=True) for key in straight if straight[key].dtype != bool)
    assert [f.code for f in draft.findings].count("rows-shuffled") == 3
