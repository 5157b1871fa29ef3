"""In every vendor's files the world is repeatable, grows and heals, and says whose delivery it is."""

import shutil
from dataclasses import replace

import h5py
import numpy as np
import pytest
import scale_json_binary

from egodata.errors import InputError
from egodata.testing.world import WRITERS, WorldOptions, read_truth, write_delivery
from egodata.testing.world.simulate import simulate_episode
from egodata.testing.world.writers import ABSENT, CARRIED, DERIVED, PARTS, get_writer

TINY = WorldOptions(operators=1, episodes=2, seed=5, size=(96, 64), fps=10)
OTHERS = sorted(set(WRITERS) - {"mecka"})


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("vendor", OTHERS)
def test_equal_options_give_equal_bytes_and_a_delivery_grows_and_heals(tmp_path, vendor):
    world = replace(TINY, vendor=vendor)
    grown = write_delivery(tmp_path / "grown", replace(world, episodes=1))
    assert len(grown.written) == 1
    grown = write_delivery(tmp_path / "grown", world)
    assert len(grown.written) == 1 and len(grown.episodes) == 2
    whole = write_delivery(tmp_path / "whole", world)
    assert contents(grown.path) == contents(whole.path)
    assert not list(whole.path.rglob("*building*"))
    place = WRITERS[vendor].place(whole.path, simulate_episode(world, 1))
    lost = contents(whole.path)
    if place.is_file():
        place.unlink()
    else:
        shutil.rmtree(place)
    healed = write_delivery(tmp_path / "whole", world)
    assert healed.written == (healed.episodes[1],) and contents(healed.path) == lost


def test_a_folder_keeps_to_one_vendor(tmp_path):
    write_delivery(tmp_path / "out", replace(TINY, vendor="egodex", episodes=1))
    with pytest.raises(InputError, match="vendor egodex"):
        write_delivery(tmp_path / "out", TINY)


def test_unknown_vendors_and_faults_of_others(tmp_path):
    with pytest.raises(InputError, match="did you mean egodex"):
        write_delivery(tmp_path / "out", replace(TINY, vendor="egodx"))
    with pytest.raises(InputError, match="made in mecka"):
        write_delivery(tmp_path / "out", replace(TINY, vendor="scale", fault="missing-video"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("vendor", sorted(WRITERS))
def test_every_writer_says_what_it_carries(vendor):
    carries = get_writer(vendor).carries
    assert tuple(carries) == PARTS and set(carries.values()) <= {CARRIED, DERIVED, ABSENT}


def test_the_files_have_the_vendors_own_ways(tmp_path):
    """Checked with the vendors' libraries alone: orders, units, encodings of what is missing."""
    worlds = {vendor: write_delivery(tmp_path / vendor, replace(TINY, vendor=vendor, seed=13, fps=30, episodes=1)) for vendor in OTHERS}
    truth, _ = read_truth(next((worlds["scale"].path / "ground_truth").glob("*.npz")))
    gone = ~truth["delivered"][:, 0].astype(bool)
    assert gone.any()
    (name,) = worlds["scale"].episodes
    scene = scale_json_binary.read_file(str(worlds["scale"].path / name / f"{name}.sfs"))
    poses = next(sensor for sensor in scene["sensors"] if sensor["id"] == "left_rectified")["poses"]
    np.testing.assert_array_equal(poses["timestamps"] * 1000, truth["stamps_ns"])
    np.testing.assert_allclose(poses["values"], truth["head_pose"][:, [0, 1, 2, 4, 5, 6, 3]], atol=1e-12)
    data = (worlds["scale"].path / name / f"{name}_annotations.json").read_bytes()
    assert data.endswith(b"}\0\0\0") and data.count(b"1000000000.0") == 21 * 3 * gone.sum()
    with h5py.File(worlds["egodex"].path / "cubes" / "0.hdf5") as file:
        assert len([joint for joint in file["transforms"] if joint.startswith("left")]) == 25
        np.testing.assert_array_equal(file["confidences/leftIndexFingerTip"][()] == 0, gone)
        assert (file["transforms/leftHand"][()][gone][:, :3, 3] != 0).all()
    with h5py.File(worlds["eva"].path / "episode_0.hdf5") as file:
        rows = file["observations/eepose"][()]
        assert rows.shape == (len(truth["stamps_ns"]) + 2, 14) and not rows[-2:].any() and rows[:-2].any(1).all()
        np.testing.assert_array_equal(rows[1:-2], file["actions/eepose"][:-3])
