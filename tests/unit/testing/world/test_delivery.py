"""A delivery follows the vendor's layout, is exact, repeatable, and grows and heals in place."""

import csv
import json
import re

import numpy as np
import pytest

from egodata.errors import InputError
from egodata.geometry.pose import matrix_from_pose
from egodata.geometry.rotation import matrix_from_quat, matrix_from_zyx
from egodata.testing.world import WorldOptions, read_truth, write_delivery
from egodata.testing.world.camera import VENDOR_TO_OPENCV
from egodata.video import scan_video

from .conftest import SMALL


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_files_and_description(delivery, folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted([*delivery.episodes, "ground_truth"])
    assert len(delivery.operators) == 2
    for name in delivery.episodes:
        assert re.fullmatch("[0-9a-f]{24}", name)
        value = json.loads((folder / name / f"{name}.json").read_text())
        assert value["id"] == name
        assert value["user_id"] in delivery.operators
        assert {"duration", "environment_id", "scene_id", "scene_desc", "objects"} <= set(value)
        listed = {url.rsplit("/", 1)[-1] for url in value["urls"].values()}
        assert listed | {f"{name}.json"} == {path.name for path in (folder / name).iterdir()}
        assert value["urls"]["video"].endswith(f"{name}_video.mp4")
        assert ("annotations" in value["urls"]) == read_truth(folder / "ground_truth" / f"{name}.npz")[1]["annotated"]
    found = [path for path in (folder / "ground_truth").glob("*.json") if {"id", "urls"} <= set(json.loads(path.read_text()))]
    assert found == []


def test_hands_and_head_come_back_exactly(delivery, folder):
    for name in delivery.episodes:
        truth, _ = read_truth(folder / "ground_truth" / f"{name}.npz")
        numbers = np.loadtxt(folder / name / "egomotion.txt")
        assert numbers.shape == (len(truth["stamps_ns"]), 11)
        rotation = matrix_from_quat(np.roll(numbers[:, 7:], 1, axis=1))
        np.testing.assert_allclose(rotation, matrix_from_zyx(*numbers[:, 4:7].T), atol=1e-8)
        head = matrix_from_pose(truth["head_pose"])
        np.testing.assert_allclose(rotation @ VENDOR_TO_OPENCV.T, head[:, :3, :3], atol=1e-8)
        with (folder / name / "hands.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 21 * truth["delivered"].sum()
        for row in rows[::37]:
            frame, hand, joint = (int(row[key]) for key in ("frame", "hand_index", "landmark_index"))
            seen = np.array([float(row[f"world_{axis}"]) for axis in "xyz"])
            world = rotation[frame] @ seen + numbers[frame, 1:4]
            np.testing.assert_allclose(world, truth["keypoints"][frame, hand, joint], atol=1e-5)
            assert truth["delivered"][frame, hand]


def test_times_video_and_calibration(delivery, folder):
    for name in delivery.episodes:
        truth, _ = read_truth(folder / "ground_truth" / f"{name}.npz")
        lines = (folder / name / "frames.csv").read_text().splitlines()
        assert lines[0] == "index,unix_timestamp"
        stamps = [int(text.split(",")[1].replace(".", "")) * 1000 for text in lines[1:]]
        np.testing.assert_array_equal(stamps, truth["stamps_ns"])
        scan = scan_video(folder / name / f"{name}_video.mp4")
        assert (scan.frames, scan.width, scan.height, scan.fps) == (len(stamps), *SMALL.size, SMALL.fps)
        value = json.loads((folder / name / "intrinsics.json").read_text())
        assert (value["w"], value["h"]) == SMALL.size
        assert value["fl_x"] == pytest.approx(752.4707 / 6, abs=1e-6)
        assert value["cx"] == pytest.approx((961.8249 + 0.5) / 6 - 0.5, abs=1e-6)


def test_annotations_have_both_roles_between_frames(delivery, folder):
    annotated = 0
    for name in delivery.episodes:
        truth, text = read_truth(folder / "ground_truth" / f"{name}.npz")
        path = folder / name / "annotations.csv"
        assert path.is_file() == text["annotated"]
        if not text["annotated"]:
            continue
        annotated += 1
        with path.open() as file:
            rows = list(csv.DictReader(file))
        assert [row["role"] for row in rows].count("task") == 1
        spans = []
        for row in rows:
            edges = [int(row[key].replace(".", "")) * 1000 for key in ("start_time", "end_time")]
            start, end = np.searchsorted(truth["stamps_ns"], edges)
            spans.append([row["role"], row["label"].replace("_", " "), int(start), int(end)])
        assert spans == text["spans"]
    assert annotated == delivery.annotated > 0


def test_equal_options_give_equal_bytes_and_a_second_call_writes_nothing(delivery, folder, tmp_path):
    again = write_delivery(tmp_path / "again", SMALL)
    assert contents(again.path) == contents(folder)
    before = {path: path.stat().st_mtime_ns for path in again.path.rglob("*")}
    second = write_delivery(again.path, SMALL)
    assert second.written == ()
    assert second.episodes == delivery.episodes
    assert {path: path.stat().st_mtime_ns for path in again.path.rglob("*")} == before


def options(**changes):
    return WorldOptions(**{"operators": 2, "episodes": 2, "seed": 9, "size": (160, 90), "fps": 10, **changes})


def test_a_delivery_grows_and_a_broken_recording_is_repaired_in_place(tmp_path):
    sound = write_delivery(tmp_path / "sound", options(episodes=3))
    broken = write_delivery(tmp_path / "out", options(fault="truncated-video:1"))
    assert dict(broken.faults) == {sound.episodes[1]: "truncated-video"}
    grown = write_delivery(tmp_path / "out", options(episodes=3, fault="truncated-video:1"))
    assert grown.written == sound.episodes[2:]
    repaired = write_delivery(tmp_path / "out", options(episodes=3))
    assert repaired.written == (sound.episodes[1],)
    assert repaired.faults == {}
    assert contents(tmp_path / "out") == contents(tmp_path / "sound")


def test_an_interrupted_call_goes_on_where_it_was(tmp_path):
    whole = write_delivery(tmp_path / "whole", options())

    def stop(label, done, total):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_delivery(tmp_path / "out", options(), progress=stop)
    rest = write_delivery(tmp_path / "out", options())
    assert rest.written == whole.episodes[1:]
    assert contents(rest.path) == contents(whole.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"seed": 10}, "seed 9"), ({"size": (160, 96)}, "another world"), ({"episodes": 1}, "Deliveries grow only")],
)
def test_a_delivery_of_another_world_is_left_alone(tmp_path, changes, message):
    write_delivery(tmp_path / "out", options())
    with pytest.raises(InputError, match=message):
        write_delivery(tmp_path / "out", options(**changes))


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="expected no folder or an empty one"):
        write_delivery(tmp_path, options())


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"size": (641, 360)}, "even numbers"), ({"operators": 0}, "operators: expected 1 to 64, got 0"), ({"fps": 500}, "fps")],
)
def test_options_are_checked(changes, message):
    with pytest.raises(InputError, match=message):
        WorldOptions(**changes)
