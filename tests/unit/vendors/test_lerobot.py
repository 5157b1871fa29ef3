"""LeRobot v2.1: joints as they are, frames by pts, listed but absent episodes."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from egodata.errors import InputError
from egodata.testing.drafts import moving_frames, write_source
from egodata.vendors import SetAside, VendorOptions, get_vendor

from .conftest import FRAMES, SIZE, codes


def refused(lerobot):
    with pytest.raises(SetAside) as caught:
        lerobot.draft()
    return caught.value.findings[-1]


def test_a_listed_episode_without_files_is_absent(lerobot):
    found = lerobot.write().discover()
    assert [ref.id for ref in found.recordings] == ["lerobot-arms-000003"]
    assert found.absent == tuple(f"lerobot-arms-{i:06d}" for i in (0, 1, 2, 4))


def test_joints_and_metadata(lerobot):
    draft = lerobot.draft()
    meta, arrays = draft.meta, draft.arrays
    assert arrays["obs_joints"].shape == (FRAMES, 3) and arrays["cmd_joints"].dtype == np.float32
    assert meta.features["obs_joints"].names == ("a", "b", "c") and meta.features["cmd_joints"].names == ("d", "e")
    assert arrays["obs_joints_valid"].all() and meta.clock == "frame0" and meta.fps == 30
    assert (meta.embodiment, meta.operator, meta.session, meta.extra) == ("joint_robot", None, None, {"robot_type": "two_arms"})
    assert (meta.task_name, meta.clip.aliased, meta.hand_frame_convention) == ("Pick it up.", False, None)
    assert draft.annotations == {} and draft.calibration is None and draft.findings == ()


def test_times_are_rational_never_float32(lerobot):
    stamps = lerobot.draft().arrays["obs_rgb_timestamps_ns"]
    assert stamps.tolist() == [round(Fraction(i * 10**9, 30)) for i in range(FRAMES)]


def test_nan_joints_are_masked(lerobot):
    values = np.ones((FRAMES, 3), np.float32)
    values[4, 1] = np.nan
    lerobot.columns = {"observation.state": list(values)}
    draft = lerobot.draft()
    assert np.flatnonzero(~draft.arrays["obs_joints_valid"]).tolist() == [4]
    assert np.isnan(draft.arrays["obs_joints"][4]).all() and "rows-invalid" in codes(draft)


def test_a_reset_or_shuffle_of_rows_is_refused(lerobot):
    lerobot.columns = {"frame_index": np.array([*range(6), *range(6)])}
    assert refused(lerobot).code == "rows-out-of-order"


@pytest.mark.parametrize(("rows", "code"), [(FRAMES + 2, "tail-trimmed"), (FRAMES - 1, "tail-trimmed")])
def test_a_short_tail_is_cut(lerobot, rows, code):
    lerobot.columns = {"rows": rows}
    draft = lerobot.draft()
    assert draft.meta.total_frames == min(rows, FRAMES) and code in codes(draft)


def test_a_long_tail_is_set_aside_with_both_counts(lerobot):
    lerobot.columns = {"rows": FRAMES + 5}
    finding = refused(lerobot)
    assert (finding.code, finding.expected, finding.got) == ("frame-count", str(FRAMES + 5), str(FRAMES))


def test_the_rate_is_measured(lerobot):
    lerobot.info = {"fps": 29}
    lerobot.columns = {"timestamp": (np.arange(FRAMES) / 29).astype(np.float32)}
    draft = lerobot.draft()
    assert draft.meta.fps == 30 and "fps-declared" in codes(draft)


def test_other_cameras_are_aligned_with_source_rows(lerobot, tmp_path):
    lerobot.cameras = ("observation.images.cam_high", "observation.images.cam_right_wrist")
    lerobot.write()
    slow = write_source(tmp_path / "slow.mp4", moving_frames(FRAMES // 2, SIZE, 5), fps=Fraction(15))
    (lerobot.root / "videos/chunk-000/observation.images.cam_right_wrist/episode_000003.mp4").write_bytes(slow.read_bytes())
    (ref,) = lerobot.discover().recordings
    (draft,) = get_vendor("lerobot").read(ref, VendorOptions("arms", "first")).episodes
    assert set(draft.videos) == {"front_1", "right_wrist"} and draft.meta.reference_camera == "front_1"
    assert draft.arrays["images.right_wrist_source_row"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert draft.arrays["images.right_wrist_source_row"].dtype == np.int32 and draft.arrays["images.right_wrist_valid"].all()
    assert draft.meta.cameras == ()


def test_a_delivered_parquet_without_its_video_is_set_aside(lerobot):
    lerobot.write()
    next(lerobot.root.rglob("*.mp4")).unlink()
    (ref,) = lerobot.discover().recordings
    with pytest.raises(SetAside, match="not delivered"):
        get_vendor("lerobot").read(ref, VendorOptions("arms", "first"))


def test_a_broken_parquet_is_set_aside(lerobot):
    lerobot.write()
    next(lerobot.root.rglob("*.parquet")).write_bytes(b"PAR1")
    (ref,) = lerobot.discover().recordings
    with pytest.raises(SetAside, match="Ask for the file again"):
        get_vendor("lerobot").read(ref, VendorOptions("arms", "first"))


def test_a_column_name_that_is_no_text_is_set_aside(lerobot):
    lerobot.write()
    path = next(lerobot.root.rglob("*.parquet"))
    path.write_bytes(path.read_bytes().replace(b"action", b"act\xf2on"))
    (ref,) = lerobot.discover().recordings
    with pytest.raises(SetAside, match="no UTF-8") as caught:
        get_vendor("lerobot").read(ref, VendorOptions("arms", "first"))
    assert caught.value.findings[-1].code == "parquet-unreadable"


def test_growing_the_list_does_not_change_what_an_episode_depends_on(lerobot):
    (before,) = lerobot.write().discover().recordings
    lerobot.listed = 50
    (after,) = lerobot.write().discover().recordings
    assert before.details == after.details


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"codebase_version": "v4.0"}, "codebase_version v4.0"),
        ({"fps": None}, "fps missing"),
        ({"data_path": "{nothing}"}, "cannot be filled"),
        ({"fps": "abc"}, "fps 'abc' not as LeRobot"),
        ({"fps": float("nan")}, "fps 'nan' not as"),
        ({"fps": -30}, "fps '-30' not as"),
        ({"chunks_size": 0}, "chunks_size '0' not as"),
        ({"features": {"observation.state": "x"}}, "features .* not as"),
        ({"video_path": 5}, "video_path '5' not as"),
    ],
)
def test_another_layout_is_refused_at_once(lerobot, info, words):
    lerobot.write()
    path = lerobot.root / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **info}))
    with pytest.raises(InputError, match=words):
        lerobot.discover()


def test_not_a_dataset_and_a_name_that_cannot_be_an_id(lerobot, tmp_path):
    with pytest.raises(InputError, match=r"no meta/info\.json"):
        get_vendor("lerobot").discover(tmp_path, VendorOptions("a", "b"))
    with pytest.raises(InputError, match=r"a\.b.*--dataset"):
        get_vendor("lerobot").discover(lerobot.write().root, VendorOptions("a.b", "b"))


@pytest.mark.parametrize("line", ['{"length": 1}', '{"episode_index": "a"}', '{"episode_index": -1}', '{"episode_index": 1e400}',
                                  '{"episode_index": 1, "tasks": 5}', '{"episode_index": 1, "tasks": [5]}', "{", "[]"])  # fmt: skip
def test_a_line_that_is_no_entry_is_named(lerobot, line):
    lerobot.write()
    (lerobot.root / "meta/episodes.jsonl").write_text('{"episode_index": 0}\n' + line + "\n")
    with pytest.raises(InputError, match=r"episodes\.jsonl: line 2 is no entry with episode_index from 0"):
        lerobot.discover()


@pytest.mark.parametrize("rows", [[[1.0, 2.0]] * (FRAMES - 1) + [[1.0]], [[1.0, 2.0]] * (FRAMES - 1) + [None], ["a"] * FRAMES])
def test_joints_that_are_no_table_of_numbers_are_set_aside(lerobot, rows):
    lerobot.columns = {"observation.state": rows}
    assert refused(lerobot).code == "parquet-unusable"


@pytest.mark.parametrize("stamps", [[float("nan")] * FRAMES, ["x"] * FRAMES])
def test_a_timestamp_column_of_no_numbers_is_a_finding(lerobot, stamps):
    lerobot.columns = {"timestamp": stamps}
    assert "timestamp-differs" in codes(lerobot.draft())


@pytest.mark.parametrize("template", ["../secret.parquet", "/etc/passwd"])
def test_a_template_that_leads_out_is_not_followed(lerobot, tmp_path, template):
    lerobot.write()
    (tmp_path / "secret.parquet").write_bytes(b"x")
    path = lerobot.root / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "data_path": template}))
    found = lerobot.discover()
    codes_found = {item.findings[0].code for item in found.refused}
    assert codes_found == {"path-escape", "file-orphan"} and found.recordings == ()  # the parquet that is there is named by nothing


@pytest.mark.realdata
def test_real_g1(shared_data: Path):
    options = VendorOptions("g1", "g1")
    vendor = get_vendor("lerobot")
    found = vendor.discover(shared_data / "lerobot_v21_g1", options)
    assert len(found.recordings) == 4 and len(found.absent) == 96
    drafts = [vendor.read(ref, options).episodes[0] for ref in found.recordings]
    assert [draft.meta.total_frames for draft in drafts] == [393, 343, 290, 221]
    assert all(draft.findings == () and draft.meta.features["cmd_joints"].names[0] == "kLeftShoulderPitch" for draft in drafts)
    assert all(np.array_equal(draft.videos["front_1"].rows, np.arange(draft.meta.total_frames)) for draft in drafts)
