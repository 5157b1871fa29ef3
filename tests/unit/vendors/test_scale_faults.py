"""Scale: whatever is wrong with the files is said by name; nothing ends in a traceback."""

import json
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
import scale_json_binary

from egodata.errors import VideoError
from egodata.formats.zarr import ZarrStore
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import StorePaths
from egodata.vendors import SetAside, VendorOptions, get_vendor

from .vendor_files import FRAMES, NAMES, codes, hand_points, stamps_us, text_clip

INVALID = slice(10, 20)


def refused(files):
    with pytest.raises(SetAside) as caught:
        files.read()
    return caught.value.findings[-1]


@pytest.mark.parametrize("encoding", [0.0, 1e9, np.nan, -np.inf])
def test_missing_hands_are_invalid_however_they_are_written(scale, encoding):
    points = scale.points["left"]
    points[INVALID] = encoding
    scale.annotation = json.dumps(scale.make_annotation()).encode()
    draft = scale.draft()
    for name in ("obs_keypoints", "obs_wrist_pose", "obs_ee_pose"):
        assert np.flatnonzero(~draft.arrays[f"left.{name}_valid"]).tolist() == list(range(10, 20))
        assert np.isnan(draft.arrays[f"left.{name}"][INVALID]).all()
    assert draft.arrays["right.obs_wrist_pose_valid"].all() and "hand-missing" in codes(scale.read())


def test_rows_that_are_not_there_are_invalid_and_nothing_shifts(scale):
    kept = [i for i in range(FRAMES) if i not in (7, 8)]
    for index, name in enumerate(NAMES):
        values = hand_points()["left"][kept, index].tolist()
        scale.paths[f"left_{name}"] = {"timestamps": stamps_us()[kept].tolist(), "values": values}
    draft = scale.draft()
    assert np.flatnonzero(~draft.arrays["left.obs_wrist_pose_valid"]).tolist() == [7, 8]
    np.testing.assert_allclose(draft.arrays["left.obs_keypoints"][9].reshape(21, 3), hand_points()["left"][9], atol=1e-6)


def test_a_hand_seen_in_part(scale):
    """From 10 points on the points stay; a pose needs the wrist and the knuckles; with fewer the hand is missing."""
    scale.points["left"][5, 10:] = 1e9  # the first ten: wrist and two knuckles of four
    scale.points["right"][5, 9:] = 1e9
    scale.points["right"][6, [4, 8, 12]] = 1e9  # three fingertips
    found = scale.read()
    arrays = found.episodes[0].arrays
    assert arrays["left.obs_keypoints_point_valid"][5].sum() == 10 and not arrays["left.obs_wrist_pose_valid"][5]
    assert arrays["right.obs_keypoints_point_valid"][5].sum() == 0
    assert arrays["right.obs_wrist_pose_valid"][6] and not arrays["right.obs_keypoints_valid"][6]
    assert "hand-incomplete" in codes(found)


@pytest.mark.parametrize(
    ("hand", "sides"), [(["Left"], ["left"]), (["Both"], ["left", "right"]), ([], ["left", "right"]), (["right"], ["right"])]
)
def test_tracking_errors_null_the_named_hand(scale, hand, sides):
    scale.texts = {"Hand Tracking Error": [text_clip(10, 20, Hand=hand)]}
    found = scale.read()
    for side in ("left", "right"):
        lost = np.flatnonzero(~found.episodes[0].arrays[f"{side}.obs_wrist_pose_valid"]).tolist()
        assert lost == (list(range(10, 20)) if side in sides else [])
    assert codes(found).count("tracking-error") == len(sides)


def test_bad_quaternions_are_invalid_never_the_identity(scale):
    values = np.concatenate([scale.head[:, :3, 3], np.tile((0.0, 0, 0, 1), (FRAMES, 1))], 1)
    values[3, 3:], values[4, 3:], values[5, 5], values[6, 3:] = 0, (0, 0, 0, 2), np.nan, (0, 0, 0, 1.005)
    scale.poses = values
    found = scale.read()
    draft = found.episodes[0]
    assert np.flatnonzero(~draft.arrays["obs_head_pose_valid"]).tolist() == [3, 4, 5]
    assert np.isnan(draft.arrays["obs_head_pose"][3:6]).all() and abs(draft.arrays["obs_head_pose"][6, 3] - 1) < 1e-6
    assert {"head-pose-invalid", "head-pose-missing"} <= set(codes(found))


def test_a_still_and_a_jumping_head_are_findings(scale):
    scale.head[:] = scale.head[0]
    assert "head-pose-constant" in codes(scale.read())
    scale.head[20:, 0, 3] += 0.6
    finding = next(finding for finding in scale.read().findings if finding.code == "head-pose-jump")
    assert finding.frames == (19, 21)


@pytest.mark.parametrize(
    ("times", "code"),
    [
        (stamps_us() * 1000, "time-unit"),  # nanoseconds
        (np.arange(FRAMES) / 30, "time-reset"),  # seconds
        (stamps_us() // 1000, "time-unit"),  # milliseconds
        (np.where(np.arange(FRAMES) < 20, stamps_us(), stamps_us() - 10**6), "time-reset"),
        (np.full(FRAMES, stamps_us()[0]), "time-reset"),
        (["a"] * FRAMES, "stream-unusable"),
        (stamps_us()[:-1], "stream-unusable"),
        (np.full(FRAMES, np.nan), "time-unit"),
    ],
)
def test_times_that_cannot_be_used(scale, times, code):
    scale.stamps = times
    assert refused(scale).code == code


def test_exact_repeats_are_dropped_and_counted(scale):
    again = np.sort(np.concatenate([np.arange(FRAMES), [7]]))
    for index, name in enumerate(NAMES):
        values = hand_points()["left"][again, index].tolist()
        scale.paths[f"left_{name}"] = {"timestamps": stamps_us()[again].tolist(), "values": values}
    found = scale.read()
    assert codes(found).count("duplicates-dropped") == 21 and found.episodes[0].arrays["left.obs_wrist_pose_valid"].all()


def test_two_values_for_one_point_are_never_mixed(scale):
    label = "left_hand_index1"
    values = hand_points()["left"][:, 5].tolist()
    annotation = scale.make_annotation()
    annotation["annotations"].append(
        {"type": "points", "labels": [label], "paths": [{"timestamps": stamps_us().tolist(), "values": (np.array(values) + 0.1).tolist()}]}
    )
    scale.annotation = json.dumps(annotation).encode()
    finding = refused(scale)
    assert (finding.code, finding.stream) == ("rows-conflict", label)


@pytest.mark.parametrize(("poses", "outcome"), [(FRAMES + 2, FRAMES), (FRAMES - 1, FRAMES - 1), (FRAMES + 5, None), (3, None)])
def test_counts_of_poses_and_frames(scale, poses, outcome):
    take = np.minimum(np.arange(poses), FRAMES - 1)
    scale.head, scale.stamps = scale.head[take], stamps_us(poses)
    if outcome is None:
        finding = refused(scale)
        assert (finding.code, finding.expected, finding.got) == ("frame-count", str(poses), str(FRAMES))
    else:
        found = scale.read()
        assert found.episodes[0].meta.total_frames == outcome and "tail-trimmed" in codes(found)


def test_a_clock_that_drifts_and_a_rate_that_differs_are_findings(scale):
    scale.stamps = stamps_us()[0] + 40_000 * np.arange(FRAMES)
    scale.paths = {
        f"{side}_{name}": {"timestamps": scale.stamps.tolist(), "values": points[:, index].tolist()}
        for side, points in hand_points().items()
        for index, name in enumerate(NAMES)
    }
    found = scale.read()
    assert found.episodes[0].meta.fps == 25 and "clock-drift" in codes(found)


def test_clips_that_cannot_be_placed_are_counted(scale):
    texts = [
        text_clip(5, 5, "nothing"),
        text_clip(9, 4, "back"),
        text_clip(3, 6, "  "),
        text_clip(200, 220, "late"),
        text_clip(-9, 4, "early"),
    ]
    scale.texts = {"Sub-goal": [*texts, {"timestamp": "soon", "duration": 3}, "clip", text_clip(30, 300, "runs past")]}
    found = scale.read()
    spans = [(span.text, span.start, span.end) for span in found.episodes[0].annotations["annotations_subtask"]]
    assert spans == [("early", 0, 4), ("runs past", 30, FRAMES)]
    counts = found.episodes[0].meta.provenance
    assert (counts["refused_clips"], counts["refused_spans"]) == (4, 2)


@pytest.mark.parametrize("text", ["a | b", "\u05e9\u05dc\u05d5\u05dd", "x" * 10_000, " padded "])
def test_texts_are_kept_exactly(scale, text):
    scale.texts = {"Sub-goal": [text_clip(0, 9, text)]}
    assert scale.draft().annotations["annotations_subtask"][0].text == text


@pytest.mark.parametrize(
    ("intrinsics", "code"),
    [
        (None, "calibration-unknown"),
        ({"fx": 60, "fy": 60, "cx": 100, "cy": 30, "width": 96, "height": 60}, "calibration-unusable"),
        ({"fx": 60, "fy": 60, "cx": 48, "cy": 30, "width": 96, "height": 96}, "calibration-unusable"),
        ({"fx": "60", "fy": 60, "cx": 48, "cy": 30, "width": 96, "height": 60}, "calibration-unusable"),
        ({"fx": -60, "fy": 60, "cx": 48, "cy": 30, "width": 96, "height": 60}, "calibration-unusable"),
        ({"fx": 96, "fy": 96, "cx": 48, "cy": 30, "width": 96, "height": 60}, "calibration-invented"),
        (
            {"fx": 60, "fy": 60, "cx": 48, "cy": 30, "width": 96, "height": 60, "distortion": {"model": "mystery", "params": [1]}},
            "calibration-unusable",
        ),
    ],
)
def test_intrinsics_that_are_not_there_or_wrong(scale, intrinsics, code):
    scale.intrinsics = intrinsics
    found = scale.read()
    assert code in codes(found)
    assert (found.episodes[0].calibration is None) == (code != "calibration-invented")


def test_intrinsics_scale_with_the_image_and_have_a_default_size(scale):
    scale.intrinsics = {"fx": 1200.0, "fy": 1220.0, "cx": 949.5, "cy": 599.5}  # of 1920x1200; the video is 96x60
    k = np.array(scale.draft().calibration.cameras["front_1"].k)
    np.testing.assert_allclose([k[0, 0], k[1, 1], k[0, 2], k[1, 2]], [60, 61, 47.0, 29.5], atol=1e-9)


def test_a_lens_of_its_own_is_kept(scale):
    scale.intrinsics = {**scale.intrinsics, "distortion": {"model": "brown_conrady", "params": [0.1, -0.05, 0.001, 0.002, 0.0, 0.0]}}
    camera = scale.draft().calibration.cameras["front_1"]
    assert camera.model == "OPENCV" and camera.distortion == (0.1, -0.05, 0.001, 0.002, 0.0)


def test_the_unrectified_video_does_not_get_the_rectified_k(scale):
    scale.video_name = "left_rgb.mp4"
    found = scale.read()
    assert found.episodes[0].calibration is None and {"sensor-differs", "calibration-unknown"} <= set(codes(found))


def test_a_scene_without_the_camera(scale):
    scale.sensor = {"id": "front"}
    finding = refused(scale)
    assert finding.code == "sensor-missing" and "front" in finding.message


@pytest.mark.parametrize("what", ["empty", "text", "half", "nul", "no sensors", "no poses"])
def test_a_scene_that_cannot_be_read(scale, what):
    whole = scale_json_binary.dumps(scale.make_scene())
    bare = {"no sensors": {"sensors": "none"}, "no poses": {"sensors": [{"id": "left_rectified"}]}}
    made = {"empty": b"", "text": b"{}", "half": whole[: len(whole) // 2], "nul": bytes(99)}
    scale.scene = made[what] if what in made else scale_json_binary.dumps(bare[what])
    assert refused(scale).code in ("scene-unreadable", "scene-unusable")


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"{", b"[]", b'{"annotations": 3}', b"\xff\xfe", b'{"annotations": [' + b"[" * 5000])
def test_an_annotation_file_that_cannot_be_read(scale, data):
    scale.annotation = data
    assert refused(scale).code == "annotation-json"


def test_nul_bytes_and_a_byte_order_mark(scale):
    scale.annotation = b"\xef\xbb\xbf" + json.dumps(scale.make_annotation()).encode() + bytes(17)
    found = scale.read()
    assert "json-padded" in codes(found) and found.episodes[0].meta.provenance["nul_bytes"] == 17


def test_two_annotation_files_are_not_chosen_between(scale):
    scale.write()
    (scale.folder / "other.json").write_text(json.dumps(scale.make_annotation()))
    assert refused(scale).code == "annotation-json"


def test_other_labels_sensors_and_kinds_are_dropped_and_named(scale):
    annotation = scale.make_annotation()
    annotation["annotations"] += [
        {"type": "cuboid"},
        {"type": "points", "labels": ["left_elbow"], "paths": [{"timestamps": [], "values": []}]},
    ]
    scale.annotation = json.dumps(annotation).encode()
    found = scale.read()
    counts = found.episodes[0].meta.provenance
    assert (counts["dropped_labels"], counts["dropped_annotation_types"], counts["dropped_sensors"]) == (
        ["left_elbow"],
        ["cuboid"],
        ["imu"],
    )
    assert {"labels-unknown", "annotation-kinds"} <= set(codes(found))


@pytest.mark.parametrize(
    "path", [3, {"timestamps": [1], "values": []}, {"timestamps": [1], "values": [[1, 2]]}, {"timestamps": 1, "values": [[1, 2, 3]]}, {}]
)
def test_a_path_that_cannot_be_used(scale, path):
    scale.paths = {"left_hand_wrist": path}
    assert refused(scale).code == "stream-unusable"


def test_a_whole_recording_without_use_is_set_aside(scale):
    scale.texts = {"Collector Issue": [text_clip(-1, 50, Collector_Quality_Issue=["Inactive Time"])]}
    assert refused(scale).code == "no-piece"


def test_missing_and_broken_videos(scale):
    whole, scale.video = scale.video, None
    assert refused(scale).code == "file-missing"
    for data in (b"", whole[: len(whole) // 2], b"not a video"):
        scale.video = data
        with pytest.raises(VideoError):
            scale.read()
    scale.video = whole
    scale.write()
    (scale.folder / "left_rectified_2.mp4").write_bytes(whole)
    assert refused(scale).code == "file-missing"


def test_links_that_lead_out_are_refused(scale, tmp_path):
    scale.write()
    outside = tmp_path / "elsewhere.mp4"
    (scale.folder / "left_rectified.mp4").rename(outside)
    (scale.folder / "left_rectified.mp4").symlink_to(outside)
    (tmp_path / "raw" / "linked").symlink_to(tmp_path)
    (tmp_path / "raw" / "bad name").mkdir()
    (tmp_path / "raw" / "bad name" / "x.sfs").write_bytes(b"")
    found = scale.discover()
    assert found.recordings == () and sorted(item.findings[0].code for item in found.refused) == [
        "id-invalid",
        "path-escape",
        "path-escape",
    ]


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_ends_as_built_or_set_aside(scale, seed):
    scale.write()
    rng = np.random.default_rng(seed)
    for path in (scale.folder / f"{scale.id}.sfs", scale.folder / "annotations.json"):
        data = bytearray(path.read_bytes())
        for at in rng.integers(0, len(data), 3):
            data[at] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(data[: int(rng.integers(1, len(data)))]) if rng.random() < 0.3 else bytes(data))
    (ref,) = scale.discover().recordings
    drafts = ()
    with suppress(SetAside):
        drafts = get_vendor("scale").read(ref, VendorOptions("kitchen", "first")).episodes
    assert all(draft.meta.total_frames >= 10 and len(draft.arrays["obs_head_pose"]) == draft.meta.total_frames for draft in drafts)


@pytest.mark.parametrize(
    ("vendor", "library", "extra"), [("scale", "scale_json_binary", "scale"), ("egodex", "h5py", "hdf5"), ("eva", "h5py", "hdf5")]
)
def test_without_its_library_a_vendor_says_what_to_install(tmp_path, vendor, library, extra):
    (tmp_path / "raw").mkdir()
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from egodata.cli.main import cli, run\n"
        f"words = ['ingest', {str(tmp_path / 'raw')!r}, '--vendor', {vendor!r}, '--store', {str(tmp_path / 'store')!r}]\n"
        "sys.exit(run(cli, words, program='egodata'))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert f"vendor {vendor}" in line and f"pip install 'egodata[{extra}]'" in line


def shifted_paths(seconds):
    stamps = (stamps_us() + round(seconds * 10**6)).tolist()
    return {
        f"{side}_{name}": {"timestamps": stamps, "values": points[:, index].tolist()}
        for side, points in hand_points().items()
        for index, name in enumerate(NAMES)
    }


@pytest.mark.parametrize("seconds", [1.0, -0.5])
def test_a_clock_that_is_off_by_a_constant_is_a_finding(scale, seconds):
    scale.paths = shifted_paths(seconds)
    found = scale.read()
    finding = next(finding for finding in found.findings if finding.code == "clock-offset")
    assert finding.stream == "points" and finding.got == f"{seconds:.3f} s"


@pytest.mark.parametrize("seconds", [60, -(1_750_000_000)])
def test_a_clock_of_another_epoch_is_refused(scale, seconds):
    scale.paths = shifted_paths(seconds)
    assert refused(scale).code == "clock-offset"


def test_a_short_hand_track_is_no_clock_offset(scale):
    scale.paths = {
        label: {"timestamps": path["timestamps"][20:], "values": path["values"][20:]} for label, path in shifted_paths(0).items()
    }
    assert "clock-offset" not in codes(scale.read())


def test_a_gap_of_the_head_is_named_by_its_frames(scale):
    """266 ms without a pose, and none at the end: the rows stay, masked."""
    scale.sensor = {"video": {"timestamps": stamps_us()}}
    kept = [i for i in range(FRAMES - 4) if not 12 <= i < 20]
    scale.stamps, scale.head = stamps_us()[kept], scale.head[kept]
    found = scale.read()
    assert np.flatnonzero(~found.episodes[0].arrays["obs_head_pose_valid"]).tolist() == [*range(12, 20), *range(36, 40)]
    finding = next(finding for finding in found.findings if finding.code == "head-pose-missing")
    assert finding.frames == (12, 40) and "12 of 40 frames, first 12" in finding.message
    assert found.episodes[0].arrays["left.obs_wrist_pose_valid"].all()  # points are in the world already


def test_pieces_are_skipped_when_nothing_changed(scale, tmp_path):
    scale.texts = {"Collector Issue": [text_clip(14, 16, Collector_Quality_Issue=["Inactive Time"])]}
    scale.write()
    options = IngestOptions("scale", tmp_path / "store", workers=1)
    first, again = (ingest(scale.root, options=options) for _ in range(2))
    assert (first.status, len(first.built), len(again.skipped)) == (0, 1, 1)
    store = ZarrStore(StorePaths(tmp_path / "store"))
    assert store.episode_ids() == [f"{scale.id}-c0-14", f"{scale.id}-c16-40"]
    reader = store.open(f"{scale.id}-c16-40")
    assert reader.meta.recording_id == scale.id and reader.frames("front_1", [23]).shape == (1, 60, 96, 3)
    reader.close()
