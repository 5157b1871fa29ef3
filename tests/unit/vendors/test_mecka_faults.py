"""What real deliveries get wrong: read by a written rule, or set aside with its reason; nothing is shifted or invented."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from egodata.errors import VideoError
from egodata.findings import Severity
from egodata.testing.drafts import moving_frames, write_source
from egodata.vendors import SetAside, get_vendor

from .conftest import FRAMES, HANDS_HEADER, SIZE, T0, codes, ego_row, frames_csv, hand_rows


def refused(mecka, code):
    with pytest.raises(SetAside) as caught:
        mecka.draft()
    found = [finding for finding in caught.value.findings if finding.severity is Severity.ERROR]
    assert [finding.code for finding in found] == [code]
    return found[0].message


def hands(rows):
    return "\n".join([HANDS_HEADER, *rows]) + "\n"


def missing_left(value):
    rows = []
    for row in hand_rows():
        frame, hand, point, *_ = row.split(",")
        if int(frame) in (4, 5) and hand == "0":
            if value is not None:
                rows.append(f"{frame},{hand},{point},{value},{value},{value}")
        else:
            rows.append(row)
    return hands(rows)


@pytest.mark.parametrize("value", ["0", "1e9", "nan", "", None])
def test_every_encoding_of_a_missing_hand_is_invalid_and_nan(mecka, value):
    mecka.hands = missing_left(value)
    draft = mecka.draft()
    for key in ("left.obs_keypoints", "left.obs_wrist_pose", "left.obs_ee_pose"):
        assert np.flatnonzero(~draft.arrays[f"{key}_valid"]).tolist() == [4, 5]
        assert np.isnan(draft.arrays[key][4:6]).all() and np.isfinite(draft.arrays[key][6]).all()
    assert not draft.arrays["left.obs_keypoints_point_valid"][4:6].any()
    assert draft.arrays["right.obs_wrist_pose_valid"].all()
    assert [f.severity for f in draft.findings if f.code == "hand-missing"] == [Severity.INFO]


def test_a_hand_with_20_rows_is_missing(mecka):
    mecka.hands = hands(row for row in hand_rows() if not row.startswith("7,1,20,"))
    draft = mecka.draft()
    assert np.flatnonzero(~draft.arrays["right.obs_keypoints_valid"]).tolist() == [7]
    assert "hand-incomplete" in codes(draft)


def test_one_missing_fingertip_keeps_the_hand(mecka):
    mecka.hands = hands(row if not row.startswith("7,1,20,") else "7,1,20,1e9,1e9,1e9" for row in hand_rows())
    arrays = mecka.draft().arrays
    assert np.argwhere(~arrays["right.obs_keypoints_point_valid"]).tolist() == [[7, 20]]
    assert arrays["right.obs_wrist_pose_valid"].all()
    assert np.flatnonzero(~arrays["right.obs_keypoints_valid"]).tolist() == [7]  # docs/format.md: a valid row is whole
    assert np.isnan(arrays["right.obs_keypoints"][7, 60:]).all() and np.isfinite(arrays["right.obs_keypoints"][7, :60]).all()


def test_no_hands_at_all_is_an_episode_with_a_warning(mecka):
    mecka.hands = HANDS_HEADER + "\n"
    draft = mecka.draft()
    assert not draft.arrays["left.obs_wrist_pose_valid"].any()
    assert [f.severity for f in draft.findings if f.code == "hand-missing"] == [Severity.WARNING] * 2


def test_a_missing_pose_row_stays_invalid_and_shifts_nothing(mecka):
    whole = mecka.draft().arrays
    mecka.egomotion = "\n".join(ego_row(i) for i in range(FRAMES) if i != 6)
    arrays = mecka.draft().arrays
    assert np.flatnonzero(~arrays["obs_head_pose_valid"]).tolist() == [6]
    assert np.flatnonzero(~arrays["left.obs_keypoints_valid"]).tolist() == [6]
    np.testing.assert_array_equal(arrays["obs_head_pose"][7:], whole["obs_head_pose"][7:])


@pytest.mark.parametrize("quat", [(0, 0, 0, 0), (2, 0, 0, 0), (float("nan"), 0, 0, 1)])
def test_a_bad_quaternion_is_invalid_never_the_identity(mecka, quat):
    rows = [ego_row(i) for i in range(FRAMES)]
    rows[3] = ego_row(3, quat=quat)
    mecka.egomotion = "\n".join(rows)
    draft = mecka.draft()
    assert np.flatnonzero(~draft.arrays["obs_head_pose_valid"]).tolist() == [3]
    assert np.isnan(draft.arrays["obs_head_pose"][3]).all() and "head-pose-invalid" in codes(draft)


def test_a_small_norm_error_is_normalised(mecka):
    rows = [ego_row(i) for i in range(FRAMES)]
    words = rows[3].split()
    rows[3] = " ".join(words[:7] + [f"{float(w) * 1.004:.9f}" for w in words[7:]])
    mecka.egomotion = "\n".join(rows)
    draft = mecka.draft()
    assert draft.arrays["obs_head_pose_valid"].all()
    np.testing.assert_allclose(np.linalg.norm(draft.arrays["obs_head_pose"][:, 3:], axis=1), 1, atol=1e-6)


def test_w_first_quaternions_are_refused(mecka):
    rows = []
    for i in range(FRAMES):
        words = ego_row(i).split()
        rows.append(" ".join([*words[:7], words[10], *words[7:10]]))
    mecka.egomotion = "\n".join(rows)
    assert "qw qx qy qz" in refused(mecka, "quaternion-order")


def test_egomotion_may_have_commas_comments_crlf_and_a_byte_order_mark(mecka):
    straight = mecka.draft().arrays["obs_head_pose"]
    lines = ["# frame x y z ...", *(ego_row(i).replace(" ", ", ") for i in range(FRAMES))]
    mecka.egomotion = b"\xef\xbb\xbf" + "\r\n".join(lines).encode()
    np.testing.assert_array_equal(mecka.draft().arrays["obs_head_pose"], straight)


@pytest.mark.parametrize("dressing", ["bom", "crlf", "padded", "semicolon", "decimal-comma", "utf-16"])
def test_csv_dressings_read_the_same(mecka, dressing):
    straight = mecka.draft().arrays["left.obs_keypoints"]
    text = hands(hand_rows())
    mecka.hands = {
        "bom": b"\xef\xbb\xbf" + text.encode(),
        "crlf": text.replace("\n", "\r\n").encode(),
        "padded": text.replace(",", " , ", 5).encode(),
        "semicolon": text.replace(",", ";").encode(),
        "decimal-comma": text.replace(",", ";").replace(".", ",").encode(),
        "utf-16": text.encode("utf-16"),
    }[dressing]
    np.testing.assert_array_equal(mecka.draft().arrays["left.obs_keypoints"], straight)


def test_an_unusable_table_is_a_named_finding(mecka):
    mecka.hands = b""
    assert "0 bytes" in refused(mecka, "csv-empty")
    mecka.hands = "frame,hand\n0,1\n"
    assert "no column hand_index" in refused(mecka, "csv-unreadable")
    mecka.hands = hands(["0,0,0,left,0,0"])
    assert "'left'" in refused(mecka, "csv-unreadable")
    mecka.hands = hands(["0,0,0,0,5,0,1,0,2"] * 3)
    assert "decimal commas" in refused(mecka, "csv-unreadable")


def test_exact_duplicates_are_dropped_and_counted(mecka):
    straight = mecka.draft().arrays
    mecka.hands = hands([*hand_rows(), *hand_rows()[:42]])
    mecka.egomotion = "\n".join([*(ego_row(i) for i in range(FRAMES)), ego_row(4)])
    mecka.frames = frames_csv() + frames_csv().splitlines()[5] + "\n"
    draft = mecka.draft()
    np.testing.assert_array_equal(draft.arrays["right.obs_keypoints"], straight["right.obs_keypoints"])
    assert codes(draft).count("duplicates-dropped") == 3 and draft.meta.provenance["hands_duplicates"] == 42


def test_a_second_take_is_refused_never_mixed_in(mecka):
    moved = [row.replace("0.4", "0.6") for row in hand_rows()]
    mecka.hands = hands([*hand_rows(), *moved])
    assert "second take" in refused(mecka, "rows-conflict")


def test_times_that_reset_or_repeat_are_refused(mecka):
    lines = frames_csv().splitlines()
    mecka.frames = "\n".join([*lines[:6], *(f"{i},{T0}.{i:06d}" for i in range(5, FRAMES))])
    assert "frame 5" in refused(mecka, "time-reset")
    mecka.frames = "\n".join([*lines, f"3,{T0 + 9}.0"])
    assert "frame 3 comes twice" in refused(mecka, "frames-reset")


def test_a_gap_in_frames_csv_is_refused(mecka):
    mecka.frames = "\n".join(line for line in frames_csv().splitlines() if not line.startswith("6,"))
    assert "frame 6" in refused(mecka, "frames-gap")


@pytest.mark.parametrize("first", [10**30, 2**63 - 5, 10**16])
def test_times_beyond_64_bit_nanoseconds_are_refused(mecka, first):
    mecka.frames = "index,unix_timestamp\n" + "".join(f"{i},{first + i}\n" for i in range(FRAMES))
    refused(mecka, "frames-gap" if first == 10**30 else "time-unit")


@pytest.mark.parametrize("position", ["1e9", "1e39", "1e300"])
def test_a_head_position_that_is_none_is_masked(mecka, position):
    rows = [ego_row(i).split() for i in range(FRAMES)]
    rows[6][1] = position
    mecka.egomotion = "\n".join(map(" ".join, rows))
    draft = mecka.draft()
    assert np.flatnonzero(~draft.arrays["obs_head_pose_valid"]).tolist() == [6] and "head-pose-invalid" in codes(draft)
    for key in ("obs_head_pose", "left.obs_keypoints", "left.obs_wrist_pose"):
        assert np.isnan(draft.arrays[key][6]).all() and np.isfinite(draft.arrays[key][5]).all()


@pytest.mark.parametrize("user", [12345, ["a"]])
def test_an_operator_that_is_no_text_is_unknown_and_said(mecka, user):
    mecka.info = {"user_id": user}
    draft = mecka.draft()
    assert draft.meta.operator is None and "operator-unusable" in codes(draft)


@pytest.mark.parametrize("rows", [FRAMES - 2, FRAMES + 3])
def test_a_short_common_tail_is_cut_from_every_stream(mecka, rows):
    mecka.frames = frames_csv(rows)
    if rows < FRAMES:
        mecka.hands = hands(hand_rows(rows))
        mecka.egomotion = "\n".join(ego_row(i) for i in range(rows))
    draft = mecka.draft()
    total = min(rows, FRAMES)
    assert draft.meta.total_frames == total and {len(array) for array in draft.arrays.values()} == {total}
    assert len(draft.videos["front_1"].rows) == total
    assert any(f"{rows} rows, the video {FRAMES} frames" in f.message for f in draft.findings if f.code == "tail-trimmed")


def test_more_than_the_tail_is_set_aside_with_both_counts(mecka):
    mecka.frames = frames_csv(FRAMES + 4)
    assert f"{FRAMES + 4} rows, the video {FRAMES} frames" in refused(mecka, "frame-count")


def test_frames_counted_from_1_or_far_past_the_end_are_refused(mecka):
    mecka.egomotion = "\n".join(ego_row(i) for i in range(1, FRAMES + 1))
    assert "frame 12 and no frame 0" in refused(mecka, "frames-outside")
    mecka.egomotion = "\n".join(ego_row(i) for i in range(FRAMES + 4))
    assert "names frame 15, the episode has 0 to 11" in refused(mecka, "frames-outside")
    mecka.egomotion = "\n".join(ego_row(i) for i in range(-1, FRAMES))
    assert "names frame -1" in refused(mecka, "frames-outside")


def test_a_row_or_two_past_the_end_are_left_out_and_counted(mecka):
    straight = mecka.draft().arrays
    mecka.egomotion = "\n".join(ego_row(i) for i in range(FRAMES + 2))
    draft = mecka.draft()
    assert any("2 rows past the last frame" in f.message for f in draft.findings if f.code == "tail-trimmed")
    np.testing.assert_array_equal(draft.arrays["obs_head_pose"], straight["obs_head_pose"])


def test_a_cut_tail_and_no_hand_in_the_first_frame_are_not_a_count_from_1(mecka):
    mecka.frames = frames_csv(FRAMES - 2)
    mecka.hands = hands(row for row in hand_rows() if not row.startswith("0,"))
    draft = mecka.draft()
    assert draft.meta.total_frames == FRAMES - 2 and np.flatnonzero(~draft.arrays["left.obs_keypoints_valid"]).tolist() == [0]


def test_head_pose_findings_do_not_set_aside(mecka):
    mecka.egomotion = "\n".join(ego_row(i, position=(0.1 + 0.5 * (i >= 6), 0, 1.5)) for i in range(FRAMES))
    (jump,) = [f for f in mecka.draft().findings if f.code == "head-pose-jump"]
    assert (jump.severity, jump.frames) == (Severity.WARNING, (5, 7)) and "0.51 m" in jump.message
    mecka.egomotion = "\n".join(" ".join([str(i), *ego_row(0).split()[1:]]) for i in range(FRAMES))
    assert "head-pose-constant" in codes(mecka.draft())


SPANS = {
    "past the end": (8, 40, (8, 12), "1 clipped"),
    "outside": (20, 30, None, "1 refused: outside"),
    "empty": (5, 5, None, "1 refused: ends at or before"),
    "reversed": (7, 5, None, "1 refused: ends at or before"),
    "before the start": (-5, 3, (0, 3), "1 clipped"),
}


@pytest.mark.parametrize("name", SPANS)
def test_spans_are_clipped_or_refused_with_counts(mecka, name):
    start, end, expected, words = SPANS[name]
    stamp = [f"{(T0 * 10**6 + frame * 33_333) / 1:.0f}" for frame in (start, end)]
    mecka.annotations = "label,start_time,end_time\n" + f"x,{stamp[0]},{stamp[1]}\n"
    draft = mecka.draft()
    assert [(s.start, s.end) for s in draft.annotations["annotations_subtask"]] == ([expected] if expected else [])
    assert any(words in f.message for f in draft.findings if f.code == "spans-adjusted")


@pytest.mark.parametrize("text", ["  ", ""])
def test_a_label_without_text_is_refused(mecka, text):
    mecka.annotations = f'label,start_time,end_time\n"{text}",0,0.2\nreal,0,0.2\n'
    draft = mecka.draft()
    assert [s.text for s in draft.annotations["annotations_subtask"]] == ["real"]
    assert any("1 refused: no text" in f.message for f in draft.findings)


@pytest.mark.parametrize("text", ["pick 🧊 up", "שלום", "left | right", "a, b", "é" * 10_000])
def test_odd_text_is_kept_exactly(mecka, text):
    mecka.annotations = f'label,start_time,end_time\n"{text}",0,0.2\n'
    assert [s.text for s in mecka.draft().annotations["annotations_subtask"]] == [text]


def test_annotations_off_the_clock_are_left_out_or_set_aside(mecka, tmp_path):
    mecka.annotations = f"label,start_time,end_time\nx,{T0 + 3600},{T0 + 3601}\n"
    draft = mecka.draft()
    assert draft.annotations == {} and any("3600 s away" in f.message for f in draft.findings if f.code == "annotations-clock")
    own = tmp_path / "own.yaml"
    own.write_text("misaligned_annotations: set_aside\n")
    mecka.config = str(own)
    assert "3600 s" in refused(mecka, "annotations-clock")


def test_annotations_of_mixed_units_are_left_out(mecka):
    mecka.annotations = f"label,start_time,end_time\nx,0.1,0.2\ny,{T0},{T0 + 1}\n"
    draft = mecka.draft()
    assert draft.annotations == {} and "annotations-clock" in codes(draft)


def test_a_broken_annotations_file_leaves_the_episode_without(mecka):
    mecka.annotations = b""
    draft = mecka.draft()
    assert draft.annotations == {} and "csv-empty" in codes(draft)


@pytest.mark.parametrize("name", ["hands.csv", "egomotion.txt"])
def test_a_missing_file_is_named(mecka, name):
    setattr(mecka, name.split(".")[0], None)
    assert name in refused(mecka, "file-missing")


def test_a_truncated_video_is_one_clear_error(mecka):
    mecka.video = mecka.video[: len(mecka.video) // 2]
    with pytest.raises(VideoError, match="Get the file again"):
        mecka.draft()


def test_drift_between_frames_csv_and_the_video_is_a_finding(mecka, tmp_path):
    mecka.video = write_source(tmp_path / "long.mp4", moving_frames(90, SIZE, 1)).read_bytes()
    mecka.frames = frames_csv(90, step_us=33_333 - 70)
    assert "clock-drift" not in codes(mecka.draft())
    mecka.frames = frames_csv(90, step_us=33_333 + 1500)
    draft = mecka.draft()
    assert "fps-differs" in codes(draft) and draft.meta.fps != 30
    mecka.frames = "index,unix_timestamp\n" + "".join(f"{i},{T0 * 10**6 + i * 33_333 + (200_000 if i > 40 else 0)}\n" for i in range(90))
    draft = mecka.draft()
    assert [f.frames for f in draft.findings if f.code == "clock-drift"] and draft.meta.fps == 30


def test_links_out_of_the_delivery_are_not_followed(mecka, tmp_path):
    mecka.write()
    outside = tmp_path / "outside"
    outside.mkdir()
    (mecka.folder / "hands.csv").rename(outside / "hands.csv")
    os.symlink(outside / "hands.csv", mecka.folder / "hands.csv")
    os.symlink(outside, mecka.root / "linked")
    found = mecka.discover()
    assert found.recordings == ()
    assert {item.ref.id: item.findings[0].code for item in found.refused} == {mecka.id: "path-escape", "linked": "path-escape"}


def test_a_loop_of_links_is_one_recording_set_aside(mecka):
    mecka.write()
    (mecka.folder / "hands.csv").unlink()
    os.symlink("hands.csv", mecka.folder / "hands.csv")
    (item,) = mecka.discover().refused
    assert item.findings[0].code == "path-escape"


def test_a_folder_that_cannot_be_read_is_one_recording_set_aside(mecka, monkeypatch):
    def denied(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    mecka.write()
    monkeypatch.setattr("egodata.vendors.mecka.discover.Listing", SimpleNamespace(of=denied))
    (item,) = mecka.discover().refused
    assert (item.findings[0].code, item.ref.id) == ("io-error", mecka.id)
    assert "Permission denied" in item.findings[0].message


def test_urls_cannot_name_files_elsewhere(mecka):
    mecka.info = {"urls": {"video": "..", "hands": "https://h/..", "egomotion": "a\\..\\b", "frames": "", "annotations": 3}}
    (ref,) = mecka.write().discover().recordings
    assert all(path.parent == mecka.folder for paths in ref.files.values() for path in paths)
    assert get_vendor("mecka").read(ref, mecka.options).episodes


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("x", "{", "episode-json"), ("y", '{"id": "a b", "urls": {}}', "id-invalid"), ("z", "[]", "episode-json"),
        ("deep", "[" * 100_000, "episode-json"), ("half", '{"id": "a", "urls": {}, "scene_desc": "\\ud800"}', "episode-json"),
        ("long", '{"id": "a", "urls": {}, "scene_id": ' + "9" * 5000 + "}", "episode-json"),
    ],
)  # fmt: skip
def test_a_broken_episode_json_is_refused_not_overlooked(mecka, name, body, code):
    folder = mecka.root / name
    folder.mkdir(parents=True)
    (folder / f"{name}.json").write_text(body)
    (item,) = mecka.discover().refused
    assert (item.ref.id, item.findings[0].code) == (name, code)


def test_folders_without_recordings_are_ignored(mecka):
    mecka.write()
    (mecka.root / "ground_truth").mkdir()
    (mecka.root / "ground_truth" / "world.json").write_text("{}")
    found = mecka.discover()
    assert len(found.recordings) == 1 and found.refused == ()
