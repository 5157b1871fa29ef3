"""Previews: what is drawn lies where the calibration puts it, and what is unknown is said instead of drawn."""

from dataclasses import dataclass, replace
from fractions import Fraction

import cv2
import numpy as np
import pytest

from egodata.annotations import Span
from egodata.calibration import Calibration, CameraCalibration, pinhole_matrix
from egodata.errors import FeatureNotFoundError, InputError, WindowError
from egodata.geometry.camera import project
from egodata.geometry.hand import hand_poses
from egodata.reports.overlay import contact_sheet, preview_frame, write_preview
from egodata.reports.room import SIZE_PX, load_room
from egodata.reports.tracks import load_tracks
from egodata.schema.features import HEAD_POSE, FeatureSpec, camera_key, keypoints_spec, mask_spec, pose_spec, valid_key
from egodata.testing.memory import MemoryEpisode, episode_meta, ramp_joints
from egodata.testing.world.hands import hand_keypoints, hand_rotation_from_angles
from egodata.video import decode_video, scan_video

SIZE = (320, 180)
DISTORTION = (0.05324, -0.03083, 0.00722, 0.00023)
FRAMES = 12
FPS = Fraction(10)


@dataclass
class DarkEpisode(MemoryEpisode):
    """An episode whose stored frames are all dark, of a real size."""

    def frames(self, camera, indices):
        self.frame_reads.append((camera, list(indices)))
        return np.full((len(indices), SIZE[1], SIZE[0], 3), 40, np.uint8)


def camera(distortion=DISTORTION) -> CameraCalibration:
    return CameraCalibration(pinhole_matrix(125.4, 125.5, 160.0, 91.9), "OPENCV", distortion, SIZE)


def hands_episode(**changes) -> DarkEpisode:
    """Two hands before a still camera that looks along world X; the right one moves to the left."""
    head = np.tile([0.0, 0, 0, 0.5, -0.5, 0.5, -0.5], (FRAMES, 1))
    arrays, features = {HEAD_POSE: head.astype(np.float32)}, {HEAD_POSE: pose_spec()}
    for side, y in (("left", 0.18), ("right", -0.18)):
        points = hand_keypoints(np.full(FRAMES, 0.2), side=side, scale=1.0) @ hand_rotation_from_angles(np.array([0.0, -0.9, 0.0])).T
        points += np.array([0.5, y, -0.05])
        if side == "right":
            points[:, :, 1] += 0.015 * np.arange(FRAMES)[:, None]
        arrays[f"{side}.obs_keypoints"], features[f"{side}.obs_keypoints"] = points.reshape(FRAMES, 63).astype(np.float32), keypoints_spec()
        arrays[f"{side}.obs_wrist_pose"], features[f"{side}.obs_wrist_pose"] = hand_poses(points)[0].astype(np.float32), pose_spec()
    for key in tuple(arrays):
        arrays[valid_key(key)], features[valid_key(key)] = np.ones(FRAMES, bool), mask_spec()
    features[camera_key("front_1")] = FeatureSpec("h264", (SIZE[1], SIZE[0], 3))
    meta = episode_meta("ep1", frames=FRAMES, features=features, fps=FPS, embodiment="human_bimanual")
    spans = {"annotations_subtask": (Span("reach for it", 0, 5),), "annotations_task": (Span("move it", 0, FRAMES),)}
    calibration = Calibration("head", {"front_1": camera()})
    return replace(DarkEpisode(meta, arrays, spans, calibration), **changes)


def expected_px(episode, side: str, frame: int, *, scale: int) -> np.ndarray:
    """Where keypoints lie in a picture enlarged by a whole factor, by OpenCV's own projection."""
    world = episode.arrays[f"{side}.obs_keypoints"][frame].reshape(21, 3).astype(float)
    seen = np.stack([-world[:, 1], -world[:, 2], world[:, 0]], -1)
    k = np.array(episode.calibration.cameras["front_1"].k)[:, :3]
    pixels = cv2.projectPoints(seen, np.zeros(3), np.zeros(3), k, np.array(DISTORTION))[0][:, 0]
    return (pixels + 0.5) * scale - 0.5


def test_joints_are_drawn_where_an_independent_projection_puts_them():
    episode = hands_episode()
    picture = preview_frame(episode, 3).astype(int)
    assert picture.shape == (720, 1280, 3)
    for side in ("left", "right"):
        pixels = expected_px(episode, side, 3, scale=4).round().astype(int)
        inside = [p for p in pixels[1:] if 60 < p[1] < 600]
        assert len(inside) >= 18
        bright = [picture[y, x].min() > 120 or picture[y, x].max() > 180 for x, y in inside]
        assert np.mean(bright) > 0.9
    corner = picture[300:340, 20:60]
    assert np.abs(corner - 40).max() <= 2


def test_distortion_moves_what_is_drawn():
    episode = hands_episode()
    straight = replace(episode, calibration=Calibration("head", {"front_1": camera(())}))
    tracks = [load_tracks(one, "front_1") for one in (episode, straight)]
    points = episode.arrays["right.obs_keypoints"][0].reshape(21, 3)
    bent, pinhole = (track.pixels(points, frame=0, size=SIZE) for track in tracks)
    np.testing.assert_allclose(bent, expected_px(episode, "right", 0, scale=1), atol=1e-3)
    assert np.linalg.norm(bent - pinhole, axis=1).max() > 0.3
    np.testing.assert_allclose(pinhole, project(points @ np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]]), np.array(camera().k)), atol=1e-3)


def test_the_way_ahead_is_seen_from_now_and_ends_with_the_episode():
    episode = hands_episode()
    still = {**episode.arrays}
    for name in ("obs_keypoints", "obs_wrist_pose"):
        still[f"right.{name}"] = np.repeat(episode.arrays[f"right.{name}"][:1], FRAMES, axis=0)
    moving, resting = preview_frame(episode, 0).astype(int), preview_frame(replace(episode, arrays=still), 0).astype(int)
    changed = np.abs(moving - resting).max(axis=-1) > 60
    wrist_later = expected_px(episode, "right", 10, scale=4)[0].round().astype(int)
    assert changed[wrist_later[1] - 3 : wrist_later[1] + 4, wrist_later[0] - 3 : wrist_later[0] + 4].any()
    assert changed[:, : wrist_later[0] - 30].sum() == 0
    assert preview_frame(episode, FRAMES - 1).shape == moving.shape


def test_an_invalid_hand_is_not_drawn_and_named():
    episode = hands_episode()
    arrays = {key: value.copy() for key, value in episode.arrays.items()}
    for name in ("obs_keypoints", "obs_wrist_pose"):
        arrays[f"left.{name}"][3] = np.nan
        arrays[valid_key(f"left.{name}")][3] = False
    picture = preview_frame(replace(episode, arrays=arrays), 3).astype(int)
    normal = preview_frame(episode, 3).astype(int)
    middle = np.s_[60:600]
    x = expected_px(episode, "left", 3, scale=4)[:, 0].max().astype(int) + 30
    assert np.abs(picture[middle, :x] - 40).max() <= 2
    assert np.abs(normal[middle, :x] - 40).max() > 100
    np.testing.assert_array_equal(picture[middle, x + 40 :], normal[middle, x + 40 :])
    header = picture[:36].reshape(-1, 3)
    assert ((header[:, 0] > 200) & (header[:, 1] < 130) & (header[:, 2] < 130)).any()


@pytest.mark.parametrize("calibration", [None, Calibration("head", {}), Calibration("base", {"front_1": camera()})])
def test_without_a_known_camera_nothing_is_projected_and_that_is_said(calibration):
    episode = hands_episode(calibration=calibration)
    assert load_tracks(episode, "front_1").why_not
    picture = preview_frame(episode, 3).astype(int)
    assert np.abs(picture[100:600] - 40).max() <= 2
    assert np.abs(picture[36:80] - 40).max() > 100


def test_arms_are_drawn_through_their_bases():
    base = np.eye(4)
    base[:3, 3] = 0.1, 0.05, 0.6
    pose = np.tile([0.02, 0.01, 0.3, 1, 0, 0, 0], (FRAMES, 1)).astype(np.float32)
    arrays = {f"{side}.obs_ee_pose": pose for side in ("left", "right")}
    features = {**dict.fromkeys(arrays, pose_spec()), camera_key("front_1"): FeatureSpec("h264", (SIZE[1], SIZE[0], 3))}
    meta = episode_meta("arm", frames=FRAMES, features=features, fps=FPS, embodiment="eva_bimanual")
    known = Calibration("head", {"front_1": camera()}, {"left": tuple(map(tuple, base.tolist()))})
    tracks = load_tracks(DarkEpisode(meta, arrays, {}, known), "front_1")
    place = pose[:1, :3].astype(np.float64)
    there = tracks.pixels(place, side="left", frame=3, size=SIZE)
    np.testing.assert_allclose(there, project(place + base[:3, 3], np.array(camera().k), DISTORTION), atol=1e-6)
    assert np.isnan(tracks.pixels(place, side="right", frame=3, size=SIZE)).all()  # its base is unknown
    assert not tracks.why_not


def test_an_episode_without_a_camera_is_seen_from_the_side():
    episode = hands_episode()
    features = {key: spec for key, spec in episode.meta.features.items() if key != camera_key("front_1")}
    blind = replace(episode, meta=replace(episode.meta, features=features, reference_camera=""), calibration=None)
    room = load_room(blind)
    assert "seen from the side" in room.tracks.why_not and 0.5 < room.wide_m < 3
    for side, track in room.tracks.hands.items():
        seen = np.concatenate([room.tracks.pixels(points, side=side, frame=0, size=SIZE_PX) for points in track.keypoints_m])
        assert ((seen > 0) & (seen < SIZE_PX)).all()  # everything is in the picture
    head = room.tracks.pixels(room.head[:1, :3, 3], side="", frame=0, size=SIZE_PX)
    below = room.tracks.pixels(room.head[:1, :3, 3] - [[0, 0, 0.1]], side="", frame=0, size=SIZE_PX)
    assert below[0, 1] > head[0, 1] + 10 and abs(below[0, 0] - head[0, 0]) < 1  # down is down
    first, last = (preview_frame(blind, frame, width_px=640) for frame in (0, FRAMES - 1))
    assert first.shape == (360, 640, 3) and np.abs(first.astype(int) - last).max() > 100
    assert contact_sheet(blind)[:4] == b"\x89PNG"
    with pytest.raises(FeatureNotFoundError, match="no camera 'front_1'"):
        preview_frame(blind, 0, camera="front_1")


def test_without_camera_and_poses_there_is_nothing_to_draw():
    features = {"obs_gripper": FeatureSpec("float32", (1,))}
    meta = episode_meta("none", frames=3, features=features, fps=FPS, embodiment="eva_left_arm")
    with pytest.raises(InputError, match="nothing to draw"):
        preview_frame(DarkEpisode(replace(meta, reference_camera=""), {"obs_gripper": np.zeros((3, 1), np.float32)}, {}, None), 0)


def test_a_hand_without_a_valid_row_is_said_to_be_invalid():
    episode = hands_episode()
    arrays = {
        key: np.full_like(value, np.nan) if "left.obs" in key and value.dtype.kind == "f" else value
        for key, value in episode.arrays.items()
    }
    tracks = load_tracks(replace(episode, arrays=arrays), "front_1")
    assert not tracks.hands["left"].valid.any() and tracks.hands["right"].valid.all()


def test_spans_and_absent_annotations_change_the_captions_only():
    episode = hands_episode()
    first, later, none = (preview_frame(e, 6).astype(int) for e in (episode, episode, replace(episode, annotations={})))
    np.testing.assert_array_equal(first, later)
    changed = np.flatnonzero(np.abs(first - none).max(axis=(1, 2)) > 10)
    assert len(changed)
    assert changed.min() > 600
    both = preview_frame(episode, 3)
    assert both[620:].astype(int).sum() != first[620:].sum()


def test_a_joint_robot_gets_traces_and_a_cursor():
    robot = ramp_joints("rob", frames=FRAMES)
    robot = DarkEpisode(robot.meta, robot.arrays)
    early, late = preview_frame(robot, 1).astype(int), preview_frame(robot, 10).astype(int)
    columns = np.flatnonzero(np.abs(early - late)[560:].max(axis=(0, 2)) > 100)
    assert columns.min() < 300
    assert columns.max() > 1000
    assert np.abs(early[100:460] - 40).max() <= 2


def test_video_has_the_range_the_rate_and_even_sides(tmp_path):
    episode = hands_episode()
    seen = []
    out = tmp_path / "deep" / "preview.mp4"
    count = write_preview(episode, out, start=2, end=11, width_px=321, progress=lambda label, done, total: seen.append((done, total)))
    scan = scan_video(out)
    assert (count, scan.frames, scan.fps) == (9, 9, FPS)
    assert (scan.width, scan.height) == (320, 180)
    assert seen[0] == (0, 9)
    assert seen[-1] == (9, 9)
    shown = next(iter(decode_video(out))).astype(int)
    assert np.abs(shown - preview_frame(episode, 2, width_px=320)).mean() < 4


def test_contact_sheet_is_a_png_of_evenly_spaced_frames():
    episode = hands_episode()
    sheet = contact_sheet(episode, tiles=4, columns=2, tile_width_px=160)
    picture = cv2.imdecode(np.frombuffer(sheet, np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape == (2 * 90 + 3 * 4, 2 * 160 + 3 * 4, 3)
    assert episode.frame_reads[-1][1] == [0, 4, 7, 11]
    assert contact_sheet(replace(episode, meta=replace(episode.meta, total_frames=2)), tiles=6)[:4] == b"\x89PNG"


def test_wrong_requests_name_what_there_is(tmp_path):
    episode = hands_episode()
    with pytest.raises(FeatureNotFoundError, match="did you mean front_1"):
        preview_frame(episode, 0, camera="front")
    with pytest.raises(WindowError, match=r"frames \[5, 13\) are empty or outside \[0, 12\)"):
        write_preview(episode, tmp_path / "p.mp4", start=5, end=13)
    with pytest.raises(InputError, match="at least 1 tile"):
        contact_sheet(episode, tiles=0)
