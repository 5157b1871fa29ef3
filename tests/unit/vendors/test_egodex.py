"""EgoDex: joints to MANO's points, confidences to masks, no times to a stated clock; and what goes wrong with its files."""

import shutil
from contextlib import suppress
from fractions import Fraction

import h5py
import numpy as np
import pytest

from egodata.errors import InputError, VideoError
from egodata.formats.zarr import ZarrStore
from egodata.geometry.pose import compose, matrix_from_pose
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import StorePaths
from egodata.testing.drafts import moving_frames, write_source
from egodata.vendors import SetAside, VendorOptions, get_vendor
from egodata.vendors.egodex.joints import JOINTS, joint_names
from egodata.video import decode_video
from egodata.video.write import write_mp4

from .vendor_files import FRAMES, SIZE, codes, forty_frames, hand_points


def refused(files):
    with pytest.raises(SetAside) as caught:
        files.read()
    return caught.value.findings[-1]


def test_joints_are_in_mano_order():
    assert len(JOINTS) == len(set(JOINTS)) == 21
    assert [joint_names("left")[i] for i in (0, 1, 4, 5, 8, 9, 13, 17, 20)] == [
        "leftHand", "leftThumbKnuckle", "leftThumbTip", "leftIndexFingerKnuckle", "leftIndexFingerTip", "leftMiddleFingerKnuckle",
        "leftRingFingerKnuckle", "leftLittleFingerKnuckle", "leftLittleFingerTip",
    ]  # fmt: skip


def test_numbers_and_metadata(egodex):
    draft = egodex.draft()
    meta, arrays = draft.meta, draft.arrays
    np.testing.assert_allclose(matrix_from_pose(arrays["obs_head_pose"].astype(float)), egodex.head, atol=1e-6)
    for side, points in hand_points().items():
        np.testing.assert_allclose(arrays[f"{side}.obs_keypoints"].reshape(-1, 21, 3), points, atol=1e-6)
        assert arrays[f"{side}.obs_wrist_pose_valid"].all()
    assert (meta.episode_id, meta.recording_id, meta.clip.aliased) == ("egodex-kitchen-fold-7", "egodex-kitchen-fold-7", False)
    assert (meta.clock, meta.fps, meta.task_name, meta.task_description) == ("frame0", 30, "fold", "fold the cloth")
    assert (meta.hand_frame_convention, meta.embodiment, meta.operator) == ("anat-v1", "human_bimanual", None)
    assert arrays["obs_rgb_timestamps_ns"].tolist() == [round(Fraction(i * 10**9, 30)) for i in range(FRAMES)]
    assert draft.annotations == {} and meta.provenance["dropped_joints"] == ["leftForearm"]
    camera = draft.calibration.cameras["front_1"]
    assert (camera.model, camera.resolution, camera.k[0][2]) == ("PINHOLE", SIZE, 47.0)
    assert codes(draft) == []


@pytest.mark.parametrize(
    "turn", [[[1.0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]], [[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]], ids="xyz"
)
def test_a_quarter_turn_about_each_axis(egodex, turn):
    egodex.head = compose(np.tile(turn, (FRAMES, 1, 1)), np.tile((1.0, 2, 3), (FRAMES, 1)))
    assert np.allclose(matrix_from_pose(egodex.draft().arrays["obs_head_pose"].astype(float)), egodex.head, atol=1e-6)


@pytest.mark.parametrize("how", ["confidence 0", "confidence -1", "confidence nan", "zero matrix", "identity at the origin", "nan", "1e9"])
def test_missing_hands_are_invalid_however_they_are_written(egodex, how):
    for index, name in enumerate(joint_names("left")):
        matrices = compose(np.tile(np.eye(3), (FRAMES, 1, 1)), hand_points()["left"][:, index])
        confidence = np.ones(FRAMES)
        if how.startswith("confidence"):
            confidence[10:20] = float(how.split()[1])
        else:
            matrices[10:20] = {"zero matrix": np.zeros((4, 4)), "identity at the origin": np.eye(4), "nan": np.nan, "1e9": 1e9}[how]
        egodex.datasets |= {f"transforms/{name}": matrices, f"confidences/{name}": confidence}
    draft = egodex.draft()
    for name in ("obs_keypoints", "obs_wrist_pose", "obs_ee_pose"):
        assert np.flatnonzero(~draft.arrays[f"left.{name}_valid"]).tolist() == list(range(10, 20))
        assert np.isnan(draft.arrays[f"left.{name}"][10:20]).all()
    assert draft.arrays["right.obs_wrist_pose_valid"].all() and "hand-missing" in codes(draft)


def test_single_joints_may_be_missing(egodex):
    egodex.datasets["confidences/rightLittleFingerTip"] = np.where(np.arange(FRAMES) == 4, 0.0, 0.3)
    egodex.datasets["transforms/leftThumbTip"] = None
    draft = egodex.draft()
    right, left = (draft.arrays[f"{side}.obs_keypoints_point_valid"] for side in ("right", "left"))
    assert np.argwhere(~right).tolist() == [[4, 20]] and not left[:, 4].any() and left[:, 3].all()
    assert draft.arrays["left.obs_wrist_pose_valid"].all() and not draft.arrays["left.obs_keypoints_valid"].any()
    assert {"joints-absent", "confidence-low"} <= set(codes(draft))


def test_files_without_confidences_are_taken_as_tracked(egodex):
    egodex.confidence = None
    draft = egodex.draft()
    assert "confidence-absent" in codes(draft) and draft.arrays["left.obs_wrist_pose_valid"].all()


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"llm_description": "put in", "llm_description2": "take out", "which_llm_description": "2", "llm_type": "reversible"}, "take out"),
        ({"llm_description": "put in", "llm_description2": "take out", "which_llm_description": 1}, "put in"),
        ({"llm_description": b"put in"}, "put in"),
        ({}, ""),
    ],
)
def test_the_text_is_that_of_the_direction_done(egodex, attributes, text):
    egodex.attributes = attributes
    assert egodex.draft().meta.task_description == text


def test_bad_camera_transforms_are_invalid_never_the_identity(egodex):
    egodex.head[3], egodex.head[4, :3, :3] = 0, egodex.head[4, :3, :3] * 2
    egodex.head[5, 0, 3], egodex.head[6, :3, :3] = np.nan, np.diag([1.0, 1, -1])
    draft = egodex.draft()
    assert np.flatnonzero(~draft.arrays["obs_head_pose_valid"]).tolist() == [3, 4, 5, 6]
    assert np.isnan(draft.arrays["obs_head_pose"][3:7]).all() and {"head-pose-invalid", "head-pose-missing"} <= set(codes(draft))


@pytest.mark.parametrize(("frames", "total"), [(FRAMES - 2, FRAMES - 2), (FRAMES + 3, FRAMES), (FRAMES - 4, None)])
def test_counts_of_rows_and_frames(egodex, tmp_path, frames, total):
    egodex.video = forty_frames(tmp_path, frames)
    if total is None:
        finding = refused(egodex)
        assert (finding.code, finding.expected, finding.got) == ("frame-count", str(FRAMES), str(frames))
    else:
        draft = egodex.draft()
        assert draft.meta.total_frames == total == len(draft.videos["front_1"].rows) and "tail-trimmed" in codes(draft)


def test_another_rate_is_said_and_the_pts_count(egodex, tmp_path):
    egodex.video = write_source(tmp_path / "slow.mp4", moving_frames(FRAMES, SIZE, 3), fps=Fraction(30000, 1001)).read_bytes()
    draft = egodex.draft()
    assert draft.meta.fps == Fraction(30000, 1001) and "fps-differs" in codes(draft)
    assert draft.arrays["obs_rgb_timestamps_ns"][-1] == round(Fraction(39 * 1001, 30000) * 10**9)


@pytest.mark.parametrize(
    ("k", "code"),
    [
        (None, "calibration-unknown"),
        (np.diag([60.0, 60, 1]) + [[0, 0, 960], [0, 0, 540], [0, 0, 0]], "calibration-unusable"),
        (np.full((3, 3), np.nan), "calibration-unusable"),
        (np.eye(4), "calibration-unusable"),
        (np.array([[60.0, 5, 47], [0, 61, 30], [0, 0, 1]]), "calibration-unusable"),
    ],
)
def test_intrinsics_that_are_not_there_or_wrong(egodex, k, code):
    egodex.k = k
    draft = egodex.draft()
    assert draft.calibration is None and code in codes(draft)


def test_intrinsics_of_another_size_are_declared_and_scaled(egodex):
    egodex.k = np.array([[1200.0, 0, 949.5], [0, 1220, 599.5], [0, 0, 1]])
    egodex.config = {"intrinsic_size_px": [1920, 1200]}
    k = np.array(egodex.draft().calibration.cameras["front_1"].k)
    np.testing.assert_allclose([k[0, 0], k[1, 1], k[0, 2], k[1, 2]], [60, 61, 47.0, 29.5], atol=1e-9)


@pytest.mark.parametrize(
    ("datasets", "code"),
    [
        ({"transforms/camera": None}, "joint-missing"),
        ({"transforms/camera": np.zeros((FRAMES, 7))}, "hdf5-unusable"),
        ({"transforms/leftHand": np.tile(np.eye(4), (3, 1, 1))}, "hdf5-unusable"),
        ({"confidences/leftHand": np.ones(3)}, "hdf5-unusable"),
        ({"transforms/leftHand": np.array([b"a"] * FRAMES)}, "hdf5-unusable"),
    ],
)
def test_datasets_that_cannot_be_used(egodex, datasets, code):
    egodex.datasets = datasets
    assert refused(egodex).code == code


@pytest.mark.parametrize("cut", [0, 1, 100, 0.3, 0.9])
def test_a_file_that_is_cut_off(egodex, cut):
    egodex.write()
    data = egodex.path.read_bytes()
    egodex.path.write_bytes(data[: int(cut * len(data)) if isinstance(cut, float) else cut])
    (ref,) = egodex.discover().recordings
    with pytest.raises(SetAside) as caught:
        get_vendor("egodex").read(ref, egodex.options)
    assert caught.value.findings[-1].code == "hdf5-unreadable"


def test_nothing_is_followed_out_of_the_file(egodex, tmp_path):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["camera"] = egodex.head
    egodex.datasets = {"transforms/camera": h5py.ExternalLink(str(other), "/camera")}
    finding = refused(egodex)
    assert finding.code == "path-escape" and "external link" in finding.message
    layout = h5py.VirtualLayout((FRAMES, 4, 4), np.float64)
    layout[:] = h5py.VirtualSource(str(other), "camera", (FRAMES, 4, 4))
    egodex.datasets = {"transforms/camera": None}
    egodex.write()
    with h5py.File(egodex.path, "a") as file:
        file.create_virtual_dataset("transforms/camera", layout)
    (ref,) = egodex.discover().recordings
    with pytest.raises(SetAside, match="virtual storage"):
        get_vendor("egodex").read(ref, egodex.options)


def test_missing_and_broken_videos(egodex):
    whole, egodex.video = egodex.video, None
    assert refused(egodex).code == "file-missing"
    for data in (b"", whole[: len(whole) // 2], b"not a video"):
        egodex.video = data
        with pytest.raises(VideoError):
            egodex.read()


def test_ids_carry_vendor_dataset_and_folders(egodex, tmp_path):
    egodex.write()
    (egodex.root / "fold" / "a b.hdf5").write_bytes(b"")
    (egodex.root / "fold" / "out.hdf5").symlink_to(tmp_path / "nowhere.hdf5")
    found = egodex.discover()
    assert [ref.id for ref in found.recordings] == ["egodex-kitchen-fold-7"]
    assert sorted(item.findings[0].code for item in found.refused) == ["id-invalid", "path-escape"]
    with pytest.raises(InputError, match="--dataset"):
        get_vendor("egodex").discover(egodex.root, VendorOptions("my set", "first"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no recordings"):
        get_vendor("egodex").discover(tmp_path / "empty", VendorOptions("kitchen", "first"))


@pytest.mark.parametrize("seed", range(10))
def test_random_damage_ends_as_built_or_set_aside(egodex, seed):
    egodex.write()
    rng = np.random.default_rng(seed)
    data = bytearray(egodex.path.read_bytes())
    for at in rng.integers(0, min(len(data), 8000), 6):
        data[at] ^= 1 << rng.integers(8)
    egodex.path.write_bytes(bytes(data))
    (ref,) = egodex.discover().recordings
    drafts = ()
    with suppress(SetAside):
        drafts = get_vendor("egodex").read(ref, egodex.options).episodes
    assert all(len(draft.arrays["obs_head_pose"]) == draft.meta.total_frames for draft in drafts)


def test_one_broken_file_does_not_stop_the_others(egodex, tmp_path):
    egodex.write()
    (egodex.root / "fold" / "8.hdf5").write_bytes(b"\x89HDF\r\n")
    (egodex.root / "fold" / "8.mp4").write_bytes(egodex.video)
    report = ingest(egodex.root, options=IngestOptions("egodex", tmp_path / "store", "kitchen", workers=1))
    assert (len(report.built), len(report.set_aside), report.inputs, report.status) == (1, 1, 2, 1)
    again = ingest(egodex.root, options=IngestOptions("egodex", tmp_path / "store", "kitchen", workers=1))
    assert (len(again.built), len(again.skipped)) == (0, 1)
    assert sum(1 for _ in decode_video(egodex.path.with_suffix(".mp4"))) == FRAMES


def test_frames_that_are_not_evenly_spaced_keep_their_own_times(egodex, tmp_path):
    times = np.round(np.arange(FRAMES) * 1e9 / 30).astype(np.int64) + 20_000_000 * (np.arange(FRAMES) % 2)
    write_mp4(tmp_path / "uneven.mp4", moving_frames(FRAMES, SIZE, 3), fps=30, timestamps=times.tolist())
    egodex.video = (tmp_path / "uneven.mp4").read_bytes()
    draft = egodex.draft()
    assert "frames-uneven" in codes(draft) and draft.meta.clock == "frame0"
    assert np.abs(draft.arrays["obs_rgb_timestamps_ns"] - times).max() < 20_000


def test_a_corrected_recording_is_built_again_once(egodex, tmp_path):
    options = IngestOptions("egodex", tmp_path / "store", "kitchen", workers=1)
    egodex.write()
    first = ingest(egodex.root, options=options)
    egodex.head[:, 0, 3] += 0.01
    egodex.write()
    corrected, again = (ingest(egodex.root, options=options) for _ in range(2))
    contents = [dict(report.outcomes[0].episodes) for report in (first, corrected, again)]
    assert (len(corrected.built), len(again.skipped)) == (1, 1)
    assert contents[0] != contents[1] == contents[2] and list(contents[0]) == ["egodex-kitchen-fold-7"]
    assert ZarrStore(StorePaths(tmp_path / "store")).open("egodex-kitchen-fold-7").meta.task_description == "fold the cloth"


def test_two_ids_that_differ_in_case_only_are_refused(egodex, tmp_path):
    egodex.write()
    shutil.copytree(egodex.root / "fold", egodex.root / "Fold")
    report = ingest(egodex.root, options=IngestOptions("egodex", tmp_path / "store", "kitchen", workers=1))
    assert (len(report.built), len(report.set_aside), report.status) == (0, 2, 1)
    assert {finding.code for outcome in report.outcomes for finding in outcome.findings} == {"id-collision"}
