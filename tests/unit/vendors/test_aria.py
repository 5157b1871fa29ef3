"""Aria: MPS tables with everything that goes wrong in them, landmark order, clocks, and the real recordings."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from egodata.errors import InputError, MissingExtraError, VideoError
from egodata.findings import Severity
from egodata.geometry.pose import compose, invert, matrix_from_pose, pose_from_matrix, transform_points
from egodata.geometry.rotation import matrix_from_zyx
from egodata.testing.world.aria_delivery import LANDMARKS
from egodata.vendors import SetAside, VendorOptions, get_vendor
from egodata.vendors.aria import vrs
from egodata.vendors.aria.camera import NATIVE_R_TURNED, quarter_turns
from egodata.vendors.aria.mps import read_hands, to_mano
from egodata.vendors.aria.whole import require_whole
from egodata.vendors.base import Notes

from .conftest import codes

ROWS, STEP_US, START_US = 30, 33_333, 5_000_000
OPTIONS = VendorOptions("kitchen", "first")
MANO_IN_WORDS = [
    "wrist", None, "thumb_2", "thumb_3", "thumb_tip",
    *(part for finger in ("index", "middle", "ring", "little") for part in (f"{finger}_1", f"{finger}_2", f"{finger}_3", f"{finger}_tip")),
]  # fmt: skip


def device_poses(rows=ROWS):
    t = np.arange(rows)
    return compose(matrix_from_zyx(0.3 + 0.01 * t, 0.2 + 0 * t, 0.02 * t), np.stack([0.01 * t, 0.2 + 0 * t, 1.5 + 0 * t], -1))


def landmarks(rows=ROWS, side="left"):
    """(rows, 21, 3) in the device, Aria order."""
    base = np.array([(0.02 * (i % 5), 0.03 * (i // 5), 0.4 + 0.004 * i) for i in range(21)])
    drift = 0.002 * np.arange(rows)[:, None, None] * np.array([1.0, 0.5, 0.2])
    return (base * ([1, 1, 1] if side == "left" else [-1, 1, 1])) + drift


class MpsFiles:
    """MPS output whose rows a test can change."""

    def __init__(self, root):
        self.root = root
        self.stamps = START_US + STEP_US * np.arange(ROWS)
        self.missing = {"left": [], "right": []}
        self.track_rows = self.hand_rows = lambda lines: lines
        self.hand_name = "hand_tracking_results.csv"
        self.track_offset_us = 0

    def track(self):
        names = [f"{axis}_world_device" for axis in ("tx", "ty", "tz", "qx", "qy", "qz", "qw")]
        lines = [",".join(["graph_uid", "tracking_timestamp_us", "utc_timestamp_ns", *names, "quality_score"])]
        for stamp, (x, y, z, w, qx, qy, qz) in zip(self.stamps + self.track_offset_us, pose_from_matrix(device_poses()), strict=True):
            lines.append(",".join(["uid", str(stamp), "0", *(f"{v:.9f}" for v in (x, y, z, qx, qy, qz, w)), "1.0"]))
        return lines

    def hands(self):
        header, blocks = ["tracking_timestamp_us"], []
        for side in ("left", "right"):
            header += [f"{side}_tracking_confidence"] + [f"t{a}_{side}_landmark_{i}_device" for i in range(21) for a in "xyz"]
            block = np.concatenate([np.full((ROWS, 1), 0.98), landmarks(side=side).reshape(ROWS, -1)], axis=1)
            block[self.missing[side]] = [-1.0] + [0.0] * 63
            blocks.append(block)
        rows = np.concatenate(blocks, axis=1)
        return [",".join(header)] + [",".join([str(s), *(f"{v:.9g}" for v in row)]) for s, row in zip(self.stamps, rows, strict=True)]

    def write(self):
        folder = self.root / "mps_one_vrs"
        for name in ("slam", "hand_tracking"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "slam/closed_loop_trajectory.csv").write_bytes(self.joined(self.track_rows(self.track())))
        (folder / "hand_tracking" / self.hand_name).write_bytes(self.joined(self.hand_rows(self.hands())))
        return folder

    @staticmethod
    def joined(lines):
        return lines if isinstance(lines, bytes) else ("\n".join(lines) + "\n").encode()

    def draft(self):
        self.write()
        (ref,) = get_vendor("aria").discover(self.root, OPTIONS).recordings
        return get_vendor("aria").read(ref, OPTIONS).episodes[0]


@pytest.fixture
def mps(tmp_path):
    return MpsFiles(tmp_path / "raw")


def refused(mps):
    with pytest.raises(SetAside) as caught:
        mps.draft()
    return caught.value.findings[-1]


def test_landmarks_become_mano_points_by_their_meaning():
    found = to_mano(np.arange(21.0)[None, :, None] * np.ones(3))[0, :, 0]
    assert [None if np.isnan(value) else LANDMARKS[int(value)] for value in found] == MANO_IN_WORDS


def test_hands_and_head_land_in_the_world(mps):
    draft = mps.draft()
    arrays, poses = draft.arrays, device_poses()
    np.testing.assert_allclose(matrix_from_pose(arrays["obs_head_pose"].astype(float)), poses, atol=1e-6)
    for side in ("left", "right"):
        world = transform_points(poses, to_mano(landmarks(side=side)))
        np.testing.assert_allclose(arrays[f"{side}.obs_keypoints"].reshape(ROWS, 21, 3), world, atol=1e-6)
        assert not arrays[f"{side}.obs_keypoints_point_valid"][:, 1].any() and arrays[f"{side}.obs_wrist_pose_valid"].all()
        assert not arrays[f"{side}.obs_keypoints_valid"].any()  # the base of the thumb is unknown, so no row is whole
    meta = draft.meta
    assert (meta.clock, meta.fps, meta.hand_frame_convention, meta.reference_camera) == ("device", 30, "anat-v1", "")
    assert meta.episode_id == "aria-kitchen-mps_one_vrs" and arrays["obs_rgb_timestamps_ns"][0] == START_US * 1000
    assert codes(draft) == ["camera-absent"]


def test_a_missing_hand_is_invalid_and_never_the_origin(mps):
    mps.missing = {"left": [3, 4], "right": []}
    draft = mps.draft()
    assert np.flatnonzero(~draft.arrays["left.obs_wrist_pose_valid"]).tolist() == [3, 4]
    assert np.isnan(draft.arrays["left.obs_keypoints"][3:5]).all() and draft.arrays["right.obs_wrist_pose_valid"].all()
    assert [f.severity for f in draft.findings if f.code == "hand-missing"] == [Severity.INFO]


def test_rows_without_a_pose_stay_invalid_and_timestamped(mps):
    """The trajectory starts 10 frames late and has a gap of 266 ms."""
    mps.track_rows = lambda lines: [lines[0], *lines[11:16], *lines[24:]]
    draft = mps.draft()
    lost = [*range(10), *range(15, 23)]
    assert np.flatnonzero(~draft.arrays["obs_head_pose_valid"]).tolist() == lost
    assert np.isnan(draft.arrays["obs_head_pose"][lost]).all() and len(draft.arrays["obs_rgb_timestamps_ns"]) == ROWS
    assert np.flatnonzero(~draft.arrays["left.obs_wrist_pose_valid"]).tolist() == lost
    assert {"head-pose-missing", "hand-without-pose"} <= set(codes(draft))
    (finding,) = [f for f in draft.findings if f.code == "head-pose-missing"]
    assert finding.frames == (0, 23)


def test_a_clock_that_does_not_overlap_is_named_and_nothing_is_matched(mps):
    mps.track_offset_us = 60_000_000
    finding = refused(mps)
    assert finding.code == "recording-absent"
    with pytest.raises(SetAside) as caught:
        mps.draft()
    assert "clock-mismatch" in codes(caught.value)


def test_a_clock_one_second_off_leaves_rows_without_a_pose(mps):
    mps.track_offset_us = 500_000
    draft = mps.draft()
    assert np.flatnonzero(draft.arrays["obs_head_pose_valid"]).tolist() == list(range(15, ROWS))


@pytest.mark.parametrize("which", ["track_rows", "hand_rows"])
def test_time_that_goes_back_is_refused_and_repeats_are_counted(mps, which):
    setattr(mps, which, lambda lines: [*lines, lines[1]])
    assert refused(mps).code == "time-reset"
    setattr(mps, which, lambda lines: [*lines[:6], lines[5], *lines[6:]])
    draft = mps.draft()
    assert "duplicates-dropped" in codes(draft) and len(draft.arrays["obs_rgb_timestamps_ns"]) == ROWS


@pytest.mark.parametrize(
    "write",
    [
        lambda lines: b"\xef\xbb\xbf" + "\r\n".join(lines).encode(),
        lambda lines: ("\n".join([lines[0].replace(",", " , "), *lines[1:]])).encode(),
        lambda lines: "\n".join(line.replace(",", ";").replace(".", ",") for line in lines).encode(),
        lambda lines: "\n".join(lines).encode("utf-16"),
    ],
    ids=["BOM and CRLF", "padded header", "semicolons and decimal commas", "UTF-16"],
)
def test_tables_as_they_are_really_sent(mps, write):
    mps.hand_rows = mps.track_rows = write
    draft = mps.draft()
    assert draft.arrays["left.obs_wrist_pose_valid"].all() and draft.arrays["obs_head_pose_valid"].all()


@pytest.mark.parametrize(
    ("write", "code", "words"),
    [
        (lambda lines: b"", "csv-empty", "0 bytes"),
        (lambda lines: lines[:1], "recording-absent", "hand tracking"),
        (lambda lines: [lines[0].replace("tx_left_landmark_7_device", "x7"), *lines[1:]], "csv-unreadable", "no column tx_left_landmark_7"),
        (lambda lines: [*lines[:3], lines[3].replace("0.98", "good"), *lines[4:]], "csv-unreadable", "good"),
        (lambda lines: [lines[0], *(line.replace(",", ";") for line in lines[1:])], "csv-unreadable", "cells"),
        (lambda lines: [lines[0], "," + lines[1].partition(",")[2], *lines[2:]], "csv-unreadable", "without a time"),
        (lambda lines: b"\xff\xfe\x00\xd8" * 40, "csv-unreadable", "no column"),
    ],
)
def test_tables_that_cannot_be_read_are_named(mps, write, code, words):
    mps.hand_rows = write
    finding = refused(mps)
    assert finding.code == code and words in finding.message


def test_cut_rows_are_counted(mps):
    mps.hand_rows = lambda lines: [*lines[:-1], lines[-1][:200]]
    draft = mps.draft()
    assert "rows-ragged" in codes(draft) and draft.meta.total_frames == ROWS - 1


def test_bad_quaternions_are_invalid_never_an_identity(mps):
    def broken(lines):
        rows = [line.split(",") for line in lines]
        rows[4][6:10] = ["0", "0", "0", "0"]
        rows[5][6:10] = ["nan", "0", "0", "1"]
        rows[6][6:10] = [str(2 * float(value)) for value in rows[6][6:10]]
        return [",".join(row) for row in rows]

    mps.track_rows = broken
    draft = mps.draft()
    assert np.flatnonzero(~draft.arrays["obs_head_pose_valid"]).tolist() == [3, 4, 5] and "pose-unusable" in codes(draft)


def test_links_are_not_followed_out_and_names_must_make_ids(mps, tmp_path):
    folder = mps.write()
    (tmp_path / "outside.csv").write_text("x")
    (folder / "slam/closed_loop_trajectory.csv").unlink()
    (folder / "slam/closed_loop_trajectory.csv").symlink_to(tmp_path / "outside.csv")
    found = get_vendor("aria").discover(mps.root, OPTIONS)
    assert not found.recordings and [item.findings[0].code for item in found.refused] == ["path-escape"]
    with pytest.raises(InputError, match=r"a\.b.*--dataset"):
        get_vendor("aria").discover(mps.root, VendorOptions("a.b", "x"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no recordings"):
        get_vendor("aria").discover(tmp_path / "empty", OPTIONS)


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_the_turn_follows_from_where_down_is(turns):
    """A camera mounted with its image turned back by so many quarters is brought upright by as many."""
    native_T_upright = np.linalg.matrix_power(NATIVE_R_TURNED, turns)
    assert quarter_turns(native_T_upright @ np.array([0.05, 0.98, 0.1])) == turns
    assert quarter_turns(np.array([0.7, 0.7, 0.1])) is None and quarter_turns(np.array([0.0, 0.1, 0.99])) is None
    upright_down = np.array([0.0, 1.0, 0.0])
    picture = np.zeros((5, 5))
    native_down = (native_T_upright @ upright_down)[:2]
    picture[2 + round(2 * native_down[1]), 2 + round(2 * native_down[0])] = 1
    assert np.argwhere(np.rot90(picture, -turns)).tolist() == [[4, 2]]


def test_python_3_13_and_a_missing_library_are_said_plainly(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    with pytest.raises(MissingExtraError, match=r"no build for Python 3\.13.*3\.11 or 3\.12.*egodata\[aria\]"):
        vrs.tools("data_provider")


def test_without_the_library_vrs_files_name_the_extra_and_mps_is_read(mps):
    mps.write()
    (mps.root / "one.vrs").write_bytes(b"x")
    code = f"""
import sys
sys.modules["projectaria_tools"] = None
from pathlib import Path
from egodata.vendors import get_vendor, VendorOptions
root, options = Path({str(mps.root)!r}), VendorOptions("kitchen", "first")
try:
    get_vendor("aria").discover(root, options)
except ImportError as error:
    print(error)
(root / "one.vrs").unlink()
(ref,) = get_vendor("aria").discover(root, options).recordings
print(get_vendor("aria").read(ref, options).episodes[0].meta.total_frames)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120)
    assert "pip install 'egodata[aria]'" in done.stdout and done.stdout.splitlines()[-1] == str(ROWS), done.stderr


@pytest.mark.parametrize("data", [b"", b"not a recording" * 500])
def test_a_broken_vrs_file_is_one_line(mps, data):
    pytest.importorskip("projectaria_tools")
    mps.root.mkdir(parents=True)
    (mps.root / "one.vrs").write_bytes(data)
    (ref,) = get_vendor("aria").discover(mps.root, OPTIONS).recordings
    with pytest.raises(VideoError, match=r"recording one\.vrs: (0 bytes|not a readable VRS)") as caught:
        get_vendor("aria").read(ref, OPTIONS)
    assert "\n" not in str(caught.value)


@pytest.mark.realdata
@pytest.mark.parametrize("share", [0.9999, 0.9, 0.5, 0.01])
def test_a_cut_recording_is_said_to_be_cut(shared_data: Path, tmp_path, share):
    """The library alone reads it as a shorter recording."""
    data = (shared_data / "aria/gen2/aria_gen2_unit_test_sequence_with_bluetooth.vrs").read_bytes()
    path = tmp_path / "one.vrs"
    path.write_bytes(data)
    assert require_whole(path) == 997
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(VideoError, match=r"recording one\.vrs: cut off"):
        require_whole(path)


@pytest.mark.realdata
def test_real_mps_tables(shared_data: Path):
    folder = shared_data / "aria/gen1/mps_sample/hand_tracking"
    found, notes = {}, Notes("sample")
    for name in ("hand_tracking_results_v1.csv", "hand_tracking_results_v2.csv", "wrist_and_palm_poses.csv", "wrist_and_palm_poses_v2.csv"):
        found[name] = read_hands(folder / name, min_confidence=0.0, notes=notes)
    for name in ("hand_tracking_results_v1.csv", "hand_tracking_results_v2.csv"):
        for side in ("left", "right"):
            there = np.isfinite(found[name].points[side][:, 0]).all(1)
            assert there.sum() == 3 and np.isnan(found[name].points[side][~there]).all()
            assert (np.diff(found[name].stamps_ns) > 50e9).sum() == 1  # one jump between steps of 0.2 s
    (shifted,) = [finding for finding in notes.found if finding.code == "columns-shifted"]
    assert shifted.stream == "wrist_and_palm_poses_v2.csv" and shifted.message.startswith("wrist_and_palm_poses_v2.csv: 116 of 122 rows")
    first, second = found["wrist_and_palm_poses.csv"].points, found["wrist_and_palm_poses_v2.csv"].points
    for side in ("left", "right"):
        np.testing.assert_allclose(first[side][:, 0], second[side][:, 0], atol=1e-6)
    assert np.isfinite(first["right"][:, 0]).all(1).sum() == 6 and np.isnan(first["left"]).all()


def _real(shared_data, name):
    pytest.importorskip("projectaria_tools")
    vendor = get_vendor("aria")
    found = vendor.discover(shared_data / "aria" / name, OPTIONS)
    return {ref.id: vendor.read(ref, OPTIONS).episodes[0] for ref in found.recordings}


@pytest.mark.realdata
def test_real_gen2_hands_lie_on_the_hands_that_are_seen(shared_data: Path):
    (draft,) = _real(shared_data, "gen2").values()
    arrays, camera = draft.arrays, draft.calibration.cameras["front_1"]
    assert draft.meta.total_frames == 3 and draft.meta.extra["quarter_turns_clockwise"] == 0 and codes(draft) == []
    assert arrays["obs_head_pose_valid"].all() and arrays["left.obs_wrist_pose_valid"].all() and arrays["right.obs_wrist_pose_valid"].all()
    frames = list(draft.videos["front_1"].make())
    assert [frame.shape for frame in frames] == [(480, 640, 3)] * 3
    inside = transform_points(
        invert(matrix_from_pose(arrays["obs_head_pose"].astype(float))), arrays["left.obs_keypoints"].reshape(3, 21, 3)
    )
    pixels = inside[2] @ np.array(camera.k)[:, :3].T
    u, v = (pixels[:, :2] / pixels[:, 2:])[np.isfinite(pixels[:, 0])].T
    assert u.min() > 300 and u.max() < 430 and v.min() > 300  # low in the picture, where the left hand is
    skin = frames[2][np.rint(v).astype(int).clip(0, 479), np.rint(u).astype(int).clip(0, 639)].astype(int)
    assert np.mean(skin[:, 0] > skin[:, 2] + 15) > 0.8, "red over blue: skin, not the grey floor"


@pytest.mark.realdata
def test_real_gen1_is_turned_by_its_calibration_and_has_no_hands(shared_data: Path):
    found = _real(shared_data, "gen1")
    draft = found["aria-kitchen-aria_everyday_activities_test_data-recording"]
    assert draft.meta.total_frames == 8 and draft.meta.fps == 20 and draft.meta.extra["quarter_turns_clockwise"] == 1
    assert not draft.arrays["left.obs_wrist_pose_valid"].any() and not draft.arrays["obs_head_pose_valid"].any()
    assert codes(draft).count("stream-absent") == 2
    camera = draft.calibration.cameras["front_1"]
    assert camera.k[0][0] == pytest.approx(133.25430222 * 480 / 240) and camera.resolution == (640, 480)
    frame = next(draft.videos["front_1"].make())
    assert frame.shape == (480, 640, 3) and frame[:120].mean() > frame[-120:].mean() * 0.5
    assert found["aria-kitchen-mps_sample"].meta.total_frames == 122


@pytest.mark.realdata
@pytest.mark.parametrize(
    "name", ["gen1/aria_everyday_activities_test_data/recording.vrs", "gen2/aria_gen2_unit_test_sequence_with_bluetooth.vrs"]
)
def test_the_upright_camera_looks_ahead_with_down_below(shared_data: Path, name):
    pytest.importorskip("projectaria_tools")
    from egodata.vendors.aria.camera import upright_camera
    from egodata.vendors.aria.config import AriaConfig

    device = vrs.open_vrs(shared_data / "aria" / name).get_device_calibration()
    camera = upright_camera(device, generation=1 if "gen1" in name else 2, config=AriaConfig())
    cpf_R_camera = np.array(device.get_transform_device_cpf().rotation().to_matrix()).T @ camera.device_T_camera[:3, :3]
    assert cpf_R_camera[1, 1] < -0.9 and cpf_R_camera[2, 2] > 0.9  # the camera's y is down and its z ahead; the glasses' y is up
