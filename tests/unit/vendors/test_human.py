"""What vendors of human hands share: clean points, usable poses, streams at frames, old names of bodies."""

import numpy as np
import pytest

from egodata.errors import SchemaError
from egodata.geometry.hand import convert_left_hand, hand_poses
from egodata.geometry.pose import compose, matrix_from_pose
from egodata.testing.world.hands import hand_keypoints
from egodata.vendors import SetAside
from egodata.vendors.base import Notes
from egodata.vendors.human import clean_points, human_numbers, poses_from_transforms, poses_from_xyz_quat
from egodata.vendors.matching import at_frames, check_clock, common_length, increasing


def test_points_that_are_no_places_become_nan():
    points = np.array([[0.1, 0, 0], [0, 0, 0], [1e9, 1e9, 1e9], [np.nan, 0, 1], [0, np.inf, 1], [0, 1e8, 0], [-0.0, 0.0, 1e-9]])
    assert np.isfinite(clean_points(points)).all(1).tolist() == [True, False, False, False, False, False, True]
    assert np.isnan(clean_points(points)[1:6]).all()


def test_quaternions_by_their_norm():
    quat = np.array([[1.0, 0, 0, 0], [0, 0, 0, 0], [2, 0, 0, 0], [1.005, 0, 0, 0], [np.nan, 0, 0, 1], [0, 0, 0, -1]])
    poses, usable = poses_from_xyz_quat(np.ones((6, 3)), quat, tolerance=0.01)
    assert usable.tolist() == [True, False, False, True, False, True]
    assert np.isnan(poses[~usable]).all() and np.allclose(np.linalg.norm(poses[usable, 3:], axis=1), 1)


def test_transforms_that_are_no_rotation():
    good = compose(np.eye(3), np.array([1.0, 2, 3]))
    mirrored, scaled, zero, far = (good.copy() for _ in range(4))
    mirrored[0, 0], scaled[:3, :3], zero[:], far[0, 3] = -1, 1.01 * np.eye(3), 0, 1e9
    _, usable = poses_from_transforms(np.stack([good, mirrored, scaled, zero, far]))
    assert usable.tolist() == [True, False, False, False, False]


def test_the_two_left_hand_conventions_are_told_apart():
    """From the same points: palms down, both hands have x to the right in mirror-left-v1, and the left one to the left in anat-v1."""
    notes = Notes("r")
    points = {side: np.tile(hand_keypoints(np.zeros(1), side=side, scale=1.0), (3, 1, 1)) + 0.2 for side in ("left", "right")}
    arrays, _ = human_numbers(np.tile((0.0, 0, 0, 1, 0, 0, 0), (3, 1)), points, stamps_ns=np.arange(3), notes=notes)
    right, left = (matrix_from_pose(arrays[f"{side}.obs_wrist_pose"].astype(float))[0, :3, :3] for side in ("right", "left"))
    turned = convert_left_hand(hand_poses(points["left"])[0], declared="anat-v1", wanted="mirror-left-v1")
    mirror = matrix_from_pose(turned)[0, :3, :3]
    assert right[0, 0] > 0.9 and left[0, 0] < -0.9 and mirror[0, 0] > 0.9  # x
    assert np.allclose(left[:, 2], mirror[:, 2], atol=1e-6) and np.allclose(left[:, :2], -mirror[:, :2], atol=1e-6)
    with pytest.raises(SchemaError, match="--declare"):
        convert_left_hand(turned, declared="unknown", wanted="anat-v1")


def test_streams_at_frames():
    frames, stamps = 10**6 * np.array([0, 100, 200, 300]), 10**6 * np.array([4, 96, 260])
    out = at_frames(frames, (stamps, np.array([[1.0], [2], [3]])), limit_ns=5e7)
    assert np.isnan(out[2, 0]) and out[[0, 1, 3], 0].tolist() == [1, 2, 3]
    assert np.isnan(at_frames(frames, (np.zeros(0, int), np.zeros((0, 1))), limit_ns=50)).all()


def test_repeats_are_dropped_and_resets_refused():
    notes = Notes("r")
    stamps, rows = increasing(np.array([1, 2, 2, 3]), np.array([[1.0], [np.nan], [np.nan], [3]]), stream="s", notes=notes)
    assert stamps.tolist() == [1, 2, 3] and rows[2, 0] == 3 and notes.found[0].code == "duplicates-dropped"
    for times, values in (([1, 3, 2], [[1.0], [2], [3]]), ([1, 2, 2], [[1.0], [2], [3]])):
        with pytest.raises(SetAside, match="not sorted away"):
            increasing(np.array(times), np.array(values), stream="s", notes=Notes("r"))


def test_a_constant_offset_is_told_from_a_short_stream():
    frames = np.arange(100) * 33_333_333
    for shift_s, cut, found in ((1.0, 0, True), (-1.0, 0, True), (0.0, 0, False), (0.0, 40, False), (0.05, 0, False)):
        notes = Notes("r")
        check_clock(frames, (frames + int(shift_s * 1e9))[cut:], stream="s", tolerance_s=0.1, notes=notes)
        assert [finding.code for finding in notes.found] == (["clock-offset"] if found else [])
    with pytest.raises(SetAside, match="another clock"):
        check_clock(frames, frames + 10**12, stream="s", tolerance_s=0.1, notes=Notes("r"))


def test_no_frames_at_all_are_refused():
    with pytest.raises(SetAside, match="0 rows"):
        common_length(0, 0, tail=3, what="x", notes=Notes("r"))


@pytest.mark.parametrize(
    ("name", "known"), [("mecka_bimanual", "human_bimanual"), ("aria_left_arm", "human_left_arm"), ("human_bimanual", None)]
)
def test_old_names_of_bodies_are_resolved_and_said(mecka, tmp_path, name, known):
    own = tmp_path / "own.yaml"
    own.write_text(f"embodiment: {name}\n")
    mecka.config = str(own)
    draft = mecka.draft()
    assert draft.meta.embodiment == (known or name)
    assert [finding.code for finding in draft.findings].count("embodiment-alias") == (known is not None)


def test_an_unknown_body_is_an_error_that_lists_the_nearest(mecka, tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("embodiment: human_bimanul\n")
    mecka.config = str(own)
    with pytest.raises(SchemaError, match="did you mean human_bimanual"):
        mecka.draft()
