"""A generated delivery against its ground truth, and the frames of reference against a real excerpt."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from egodata.geometry.camera import project, scale_intrinsics
from egodata.geometry.hand import hand_poses
from egodata.geometry.pose import invert, matrix_from_pose, transform_points
from egodata.geometry.rotation import angle_rad
from egodata.schema.features import SIDES
from egodata.testing.world import WorldOptions, read_truth, write_delivery
from egodata.vendors import VendorOptions, get_vendor
from egodata.vendors.mecka.streams import OPENCV_FROM_VENDOR


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    raw = tmp_path_factory.mktemp("world") / "raw"
    write_delivery(raw, WorldOptions(operators=2, episodes=4, seed=5, size=(128, 72)))
    options = VendorOptions("cubes", "first")
    vendor = get_vendor("mecka")
    drafts = {ref.id: vendor.read(ref, options).episodes[0] for ref in vendor.discover(raw, options).recordings}
    return {identity: (draft, *read_truth(raw / "ground_truth" / f"{identity}.npz")) for identity, draft in drafts.items()}


def test_poses_and_points_are_the_true_ones(world):
    assert len(world) == 4
    for draft, truth, _ in world.values():
        head = draft.arrays["obs_head_pose"].astype(np.float64)
        np.testing.assert_allclose(head[:, :3], truth["head_pose"][:, :3], atol=1e-5)
        assert np.rad2deg(angle_rad(matrix_from_pose(head)[:, :3, :3], matrix_from_pose(truth["head_pose"])[:, :3, :3]).max()) < 0.01
        for index, side in enumerate(SIDES):
            there = truth["delivered"][:, index].astype(bool)
            np.testing.assert_array_equal(draft.arrays[f"{side}.obs_wrist_pose_valid"], there)
            np.testing.assert_array_equal(draft.arrays[f"{side}.obs_keypoints_point_valid"], np.repeat(there[:, None], 21, 1))
            points = draft.arrays[f"{side}.obs_keypoints"].reshape(-1, 21, 3)
            np.testing.assert_allclose(points[there], truth["keypoints"][there, index], atol=1e-5)
            wrist, effector, _ = hand_poses(truth["keypoints"][:, index])
            for name, true in (("obs_wrist_pose", wrist), ("obs_ee_pose", effector)):
                mine = draft.arrays[f"{side}.{name}"][there].astype(np.float64)
                np.testing.assert_allclose(mine[:, :3], true[there, :3], atol=1e-5)
                assert np.rad2deg(angle_rad(matrix_from_pose(mine)[:, :3, :3], matrix_from_pose(true[there])[:, :3, :3]).max()) < 0.01


def test_stamps_spans_operator_and_intrinsics_are_the_true_ones(world):
    for draft, truth, text in world.values():
        np.testing.assert_allclose(draft.arrays["obs_rgb_timestamps_ns"], truth["stamps_ns"], atol=1000)
        assert draft.meta.operator == text["operator"] and text["environment_id"] in draft.meta.session
        found = [
            (key.removeprefix("annotations_"), span.text, span.start, span.end)
            for key, spans in draft.annotations.items()
            for span in spans
        ]
        true = sorted(tuple(span) for span in text["spans"]) if text["annotated"] else []
        assert bool(draft.annotations) == text["annotated"] and sorted(found) == true
        camera = draft.calibration.cameras["front_1"]
        np.testing.assert_allclose(np.array(camera.k)[:, :3], scale_intrinsics(truth["k"], 1, 1), atol=1e-4)
        np.testing.assert_allclose(camera.distortion, truth["distortion"], atol=1e-9)
        assert {finding.code for finding in draft.findings} <= {"hand-missing"}


@pytest.mark.realdata
def test_the_excerpt_projects_onto_its_pixels(shared_data: Path):
    """Real camera poses and wrists, printed with two decimals, through our axes and the vendor's constant K."""
    folder = shared_data / "mecka_excerpt"
    with (folder / "mecka_wrist_pose_camframe_50f_rounded2dp.csv").open() as file:
        wrists = np.array([[float(row[name]) for name in ("lx", "ly", "lz", "rx", "ry", "rz")] for row in csv.DictReader(file)])
    with (folder / "mecka_projected_uv_640x360.csv").open() as file:
        pixels = np.array([[float(row["frame"]), float(row["u"]), float(row["v"])] for row in csv.DictReader(file)])
    world_T_head = np.array(json.loads((folder / "mecka_T_world_cam_50f_rounded2dp.json").read_text()))
    k = scale_intrinsics(np.array([[752.4707, 0, 961.8249], [0, 753.0016, 553.2459], [0, 0, 1]]), 1 / 3, 1 / 3)
    frames = pixels[:, 0].astype(int)
    distances = []
    for side in (wrists[frames, :3], wrists[frames, 3:]):
        uv = project(side, k, (0.05324, -0.03083, 0.00722, 0.00023))
        distances.append(np.median(np.linalg.norm(uv - pixels[:, 1:], axis=1)))
    assert min(distances) <= 4.0
    # The poses are world_T_head in OpenCV axes: undoing A gives back a vendor camera whose X, forward, is the head's z.
    vendor = world_T_head[0, :3, :3] @ OPENCV_FROM_VENDOR
    np.testing.assert_allclose(vendor[:, 0], world_T_head[0, :3, 2])
    back = transform_points(invert(world_T_head), transform_points(world_T_head, wrists[:50, None, 3:]))
    np.testing.assert_allclose(back[:, 0], wrists[:50, 3:], atol=0.02)
