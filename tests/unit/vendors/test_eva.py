"""Eva: arms in their bases, images in their colours, rows of nothing at the end; and what goes wrong with its files."""

from contextlib import suppress
from fractions import Fraction

import h5py
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from egodata.errors import ConfigError, VideoError
from egodata.formats.zarr import ZarrStore
from egodata.geometry.pose import matrix_from_pose
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import StorePaths
from egodata.vendors import SetAside, get_vendor

from .vendor_files import FRAMES, codes, eva_images, eva_rows


def refused(files):
    with pytest.raises(SetAside) as caught:
        files.read()
    return caught.value.findings[-1]


def numbers(eva):
    return {name: values for name, values in eva.made().items() if values is not None and np.ndim(values) == 2}


def test_numbers_and_metadata(eva):
    draft = eva.draft()
    meta, arrays = draft.meta, draft.arrays
    rows = eva_rows()
    for index, side in enumerate(("left", "right")):
        arm = rows[:, 7 * index : 7 * index + 7]
        pose = matrix_from_pose(arrays[f"{side}.obs_ee_pose"].astype(float))
        np.testing.assert_allclose(pose[:, :3, 3], arm[:, :3], atol=1e-6)
        np.testing.assert_allclose(pose[:, :3, :3], Rotation.from_euler("ZYX", arm[:, 3:6]).as_matrix(), atol=1e-6)
        np.testing.assert_allclose(arrays[f"{side}.obs_gripper"][:, 0], arm[:, 6], atol=1e-6)
        np.testing.assert_allclose(arrays[f"{side}.obs_joints"], arm[:, :6] + 0.7, atol=1e-6)
        for name in ("ee_pose", "gripper", "joints"):
            np.testing.assert_array_equal(arrays[f"{side}.cmd_{name}"][:-1], arrays[f"{side}.obs_{name}"][1:])
            assert arrays[f"{side}.obs_{name}_valid"].all()
        assert meta.features[f"{side}.obs_ee_pose"].coordinate_frame == "base"
    assert (meta.episode_id, meta.embodiment, meta.clock, meta.fps) == ("eva-kitchen-episode_3", "eva_bimanual", "frame0", 30)
    assert (meta.hand_frame_convention, meta.operator, meta.task_name, draft.annotations) == (None, None, "kitchen", {})
    assert arrays["obs_rgb_timestamps_ns"].tolist() == [round(Fraction(i * 10**9, 30)) for i in range(FRAMES)]
    assert sorted(draft.videos) == ["front_1", "left_wrist", "right_wrist"] and draft.calibration is None
    assert codes(draft) == ["clock-declared", "calibration-unknown"]


@pytest.mark.parametrize(("place", "axis"), [(3, "z"), (4, "y"), (5, "x")])
def test_a_quarter_turn_about_each_axis(eva, place, axis):
    rows = eva_rows()
    rows[:, 3:6], rows[:, 10:13] = 0, 0
    rows[:, place] = rows[:, 7 + place] = np.pi / 2
    eva.datasets = {"observations/eepose": rows}
    pose = matrix_from_pose(eva.draft().arrays["right.obs_ee_pose"].astype(float))
    np.testing.assert_allclose(pose[0, :3, :3], Rotation.from_euler(axis, 90, degrees=True).as_matrix(), atol=1e-6)


def frames(draft, camera="front_1"):
    return np.stack(list(draft.videos[camera].make()))


@pytest.mark.parametrize(("order", "seen"), [("bgr", (250, 10, 20)), ("rgb", (20, 10, 250))])
def test_red_stays_red(eva, order, seen):
    eva.datasets = {"observations/images/front_img_1": np.full((FRAMES, 24, 32, 3), (20, 10, 250), np.uint8)}
    eva.config = {"image_order": order}
    found = frames(eva.draft())
    assert found.shape == (FRAMES, 24, 32, 3) and (found == np.array(seen, np.uint8)).all()


def test_red_is_red_in_the_store(eva, tmp_path):
    eva.datasets = {"observations/images/front_img_1": np.full((FRAMES, 24, 32, 3), (0, 0, 255), np.uint8)}
    eva.write()
    report = ingest(eva.root, options=IngestOptions("eva", tmp_path / "store", "kitchen", workers=1))
    assert report.status == 0
    reader = ZarrStore(StorePaths(tmp_path / "store")).open("eva-kitchen-episode_3")
    red = reader.frames("front_1", [0, 20]).astype(int)
    assert red[..., 0].min() > 245 and red[..., 1:].max() < 12
    reader.close()


def test_large_and_odd_images_are_scaled(eva):
    eva.datasets = {"observations/images/front_img_1": np.full((FRAMES, 481, 641, 3), 90, np.uint8)}
    draft = eva.draft()
    assert draft.videos["front_1"].size == (640, 480) and next(draft.videos["front_1"].make()).shape == (480, 640, 3)


def test_rows_of_zeros_at_the_end_are_cut_from_every_stream(eva):
    for name, values in numbers(eva).items():
        values = values.copy()
        values[-5:] = 0
        eva.datasets[name] = values
    draft = eva.draft()
    assert draft.meta.total_frames == FRAMES - 5 == draft.videos["left_wrist"].frames == len(frames(draft))
    finding = next(finding for finding in draft.findings if finding.code == "zero-tail")
    assert finding.frames == (FRAMES - 5, FRAMES) and draft.meta.provenance["zero_tail_rows"] == 5
    assert all(len(array) == FRAMES - 5 for array in draft.arrays.values())
    eva.config = {"zero_tail": "set_aside"}
    assert refused(eva).code == "zero-tail"


def test_nothing_but_zeros_is_set_aside(eva):
    eva.datasets = {name: np.zeros_like(values) for name, values in numbers(eva).items()}
    assert refused(eva).code == "zero-tail"


def test_zeros_elsewhere_are_invalid_where_they_are_no_place(eva):
    pose, joints = eva_rows(), eva_rows() + 0.7
    pose[8, :7] = joints[8, :7] = 0  # the left arm was not read
    joints[9, :7] = 0  # the left arm is at its zero position
    pose[10, 9] = np.nan
    eva.datasets = {"observations/eepose": pose, "observations/joints": joints}
    draft = eva.draft()
    lost = {key: np.flatnonzero(~draft.arrays[f"{key}_valid"]).tolist() for key in draft.arrays if f"{key}_valid" in draft.arrays}
    assert {key: frames for key, frames in lost.items() if frames} == {
        "left.obs_ee_pose": [8], "left.obs_gripper": [8], "left.obs_joints": [8], "right.obs_ee_pose": [10], "right.obs_gripper": [10],
    }  # fmt: skip
    assert np.isnan(draft.arrays["left.obs_ee_pose"][8]).all() and codes(draft).count("rows-invalid") == 3


def test_joints_under_their_other_names(eva):
    rows = eva_rows() + 0.7
    eva.datasets = {"observations/joints": None, "observations/joint_positions": rows, "actions/joints": None, "action": rows}
    draft = eva.draft()
    np.testing.assert_allclose(draft.arrays["left.cmd_joints"], rows[:, :6], atol=1e-6)
    np.testing.assert_allclose(draft.arrays["left.obs_joints"], rows[:, :6], atol=1e-6)


def test_two_names_that_disagree_are_not_chosen_between(eva):
    rows = eva_rows() + 0.7
    rows[17] += 0.01
    eva.datasets = {"observations/joint_positions": rows}
    finding = refused(eva)
    assert (finding.code, finding.frames) == ("streams-disagree", (17, 18))


def test_streams_that_are_not_there(eva):
    eva.datasets = {"actions/eepose": None, "actions/joints": None, "observations/images/left_wrist_img": None}
    draft = eva.draft()
    assert not any("cmd" in key for key in draft.arrays) and sorted(draft.videos) == ["front_1", "right_wrist"]
    assert {"stream-absent", "camera-absent"} <= set(codes(draft))
    eva.datasets = {"observations/eepose": None}
    assert refused(eva).code == "stream-missing"
    eva.datasets = {"observations/images/front_img_1": None}
    assert refused(eva).code == "camera-missing"


def test_other_cameras_are_named_and_dropped(eva):
    eva.datasets = {"observations/images/depth": np.zeros((FRAMES, 4, 4), np.uint16)}
    assert eva.draft().meta.provenance["dropped_cameras"] == ["depth"]


@pytest.mark.parametrize(("rows", "total"), [(FRAMES - 2, FRAMES - 2), (FRAMES + 3, FRAMES), (FRAMES - 4, None), (0, None)])
def test_counts_of_rows_and_images(eva, rows, total):
    eva.datasets = {"observations/images/front_img_1": eva_images(max(2, rows))}
    if total is None:
        assert refused(eva).code == "frame-count"
    else:
        draft = eva.draft()
        assert draft.meta.total_frames == total == len(frames(draft)) and "tail-trimmed" in codes(draft)


def test_one_arm_is_declared(eva):
    eva.datasets = {name: values[:, :7] for name, values in numbers(eva).items()}
    assert refused(eva).code == "hdf5-unusable"
    eva.config = {"arms": ["right"]}
    draft = eva.draft()
    assert draft.meta.embodiment == "eva_right_arm" and not any(key.startswith("left.") for key in draft.arrays)
    eva.config = {"arms": ["right", "right"]}
    with pytest.raises(ConfigError, match="both once"):
        eva.read()


def test_calibration_is_what_the_config_declares(eva):
    base = [[1.0, 0, 0, 0.1], [0, 1, 0, 0.2], [0, 0, 1, 0.3]]
    front = {"w": 640, "h": 480, "fx": 500.0, "fy": 510.0, "cx": 319.5, "cy": 239.5}
    eva.config = {"declared_cameras": {"front_1": front}, "declared_arm_bases": {"left": base}}
    draft = eva.draft()
    camera = draft.calibration.cameras["front_1"]
    assert camera.resolution == (32, 24) and camera.k[0][:3] == (25.0, 0.0, 15.5) and camera.model == "PINHOLE"
    assert draft.calibration.arm_bases["left"][1][3] == 0.2 and "calibration-declared" in codes(draft)


@pytest.mark.parametrize(
    ("datasets", "code"),
    [
        ({"observations/eepose": np.zeros((FRAMES, 13))}, "hdf5-unusable"),
        ({"observations/eepose": np.zeros(FRAMES)}, "hdf5-unusable"),
        ({"observations/images/front_img_1": np.zeros((FRAMES, 24, 32, 3), np.float32)}, "images-unusable"),
        ({"observations/images/front_img_1": np.zeros((FRAMES, 24, 32), np.uint8)}, "images-unusable"),
        ({"observations/images/left_wrist_img": np.zeros((FRAMES, 999), np.uint8)}, "images-unusable"),
        ({"observations/eepose": np.array([b"a"] * FRAMES)}, "hdf5-unusable"),
    ],
)
def test_datasets_that_cannot_be_used(eva, datasets, code):
    eva.datasets = datasets
    assert refused(eva).code == code


@pytest.mark.parametrize("cut", [0, 7, 0.2, 0.95])
def test_a_file_that_is_cut_off(eva, cut):
    eva.write()
    data = eva.path.read_bytes()
    eva.path.write_bytes(data[: int(cut * len(data)) if isinstance(cut, float) else cut])
    (ref,) = eva.discover().recordings
    with pytest.raises(SetAside) as caught:
        get_vendor("eva").read(ref, eva.options)
    assert caught.value.findings[-1].code == "hdf5-unreadable"


def test_images_that_break_while_they_are_read(eva, tmp_path):
    """A damaged chunk is found only when the video is encoded: the recording is set aside and nothing of it is published."""
    eva.write()
    with h5py.File(eva.path, "a") as file:
        del file["observations/images/front_img_1"]
        file.create_dataset("observations/images/front_img_1", data=eva_images(), chunks=(1, 24, 32, 3), compression="lzf", fletcher32=True)
        where = file["observations/images/front_img_1"].id.get_chunk_info(30).byte_offset
    data = bytearray(eva.path.read_bytes())
    data[where + 5] ^= 0xFF
    eva.path.write_bytes(bytes(data))
    (ref,) = eva.discover().recordings
    (draft,) = get_vendor("eva").read(ref, eva.options).episodes
    with pytest.raises(VideoError, match="cannot be read to their end"):
        list(draft.videos["front_1"].make())
    report = ingest(eva.root, options=IngestOptions("eva", tmp_path / "store", "kitchen", workers=1))
    assert (len(report.built), len(report.set_aside), report.status) == (0, 1, 1)
    assert ZarrStore(StorePaths(tmp_path / "store")).episode_ids() == []


@pytest.mark.parametrize("seed", range(10))
def test_random_damage_ends_as_built_or_set_aside(eva, seed):
    eva.write()
    rng = np.random.default_rng(seed)
    data = bytearray(eva.path.read_bytes())
    for at in rng.integers(0, min(len(data), 8000), 6):
        data[at] ^= 1 << rng.integers(8)
    eva.path.write_bytes(bytes(data))
    (ref,) = eva.discover().recordings
    drafts = ()
    with suppress(SetAside):
        drafts = get_vendor("eva").read(ref, eva.options).episodes
    assert all(len(draft.arrays["obs_rgb_timestamps_ns"]) == draft.meta.total_frames for draft in drafts)
