"""Each fault breaks what it says and nothing else."""

import json

import numpy as np
import pytest

from egodata.errors import InputError, VideoError
from egodata.testing.world import FAULTS, WorldOptions, read_truth, write_delivery
from egodata.testing.world.faults import parse_faults
from egodata.video import decode_video


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """One recording per fault, and the fault's name by id."""
    names = list(FAULTS)
    options = WorldOptions(
        operators=1, episodes=len(names), seed=3, size=(96, 64), fps=10, fault=",".join(f"{name}:{k}" for k, name in enumerate(names))
    )
    return write_delivery(tmp_path_factory.mktemp("broken") / "delivery", options)


def recording(broken, fault):
    (name,) = [episode for episode, what in broken.faults.items() if what == fault]
    return broken.path / name, name


def test_truncated_video_does_not_decode(broken):
    folder, name = recording(broken, "truncated-video")
    with pytest.raises(VideoError):
        list(decode_video(folder / f"{name}_video.mp4"))


def test_missing_video_is_listed_but_not_there(broken):
    folder, name = recording(broken, "missing-video")
    assert json.loads((folder / f"{name}.json").read_text())["urls"]["video"].endswith(f"{name}_video.mp4")
    assert not (folder / f"{name}_video.mp4").exists()


def test_no_intrinsics(broken):
    folder, name = recording(broken, "no-intrinsics")
    assert not (folder / "intrinsics.json").exists()
    assert "intrinsics" not in json.loads((folder / f"{name}.json").read_text())["urls"]


def test_jumping_head_has_one_large_step(broken):
    folder, _ = recording(broken, "jumping-head")
    steps = np.linalg.norm(np.diff(np.loadtxt(folder / "egomotion.txt")[:, 1:4], axis=0), axis=1)
    assert (steps > 0.3).sum() == 1


def test_bad_annotations_are_wrong_in_every_way(broken):
    folder, name = recording(broken, "bad-annotations")
    stamps = read_truth(broken.path / "ground_truth" / f"{name}.npz")[0]["stamps_ns"] / 1e9
    rows = [line.split(",") for line in (folder / "annotations.csv").read_text().splitlines()[1:]]
    spans = {label: (float(start), float(end)) for label, start, end, _ in rows}
    assert spans["reach_backwards"][0] > spans["reach_backwards"][1]
    assert spans["no_length"][0] == spans["no_length"][1]
    assert spans["another_day"][0] > stamps[-1] + 60
    assert spans["runs_past_the_end"][1] > stamps[-1]


def test_parsing_names_and_places():
    assert parse_faults(None, episodes=3) == {}
    assert parse_faults("no-intrinsics", episodes=3) == {0: "no-intrinsics"}
    assert parse_faults("no-intrinsics:2, jumping-head:1", episodes=3) == {2: "no-intrinsics", 1: "jumping-head"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("truncated-vido", "did you mean truncated-video"),
        ("no-intrinsics:x", "expected NAME or NAME:k"),
        ("no-intrinsics:3", "from 0 to 2, got 3"),
        ("no-intrinsics,jumping-head", "expected another episode"),
    ],
)
def test_wrong_faults_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_faults(text, episodes=3)
