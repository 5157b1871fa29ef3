"""Every way in which the two formats can differ is found and named; equal ones pass."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from egodata.annotations import SUBTASK, TASK, Span
from egodata.config import find_config, load_config
from egodata.errors import NotFoundError
from egodata.formats import open_store
from egodata.formats.lance import build_lance
from egodata.formats.zarr import attach_annotations, publish_draft
from egodata.parity import ParityConfig, check_parity, latest, proves, read_rows, unproven
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings, encode_frames

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=25)


def findings(report, level):
    return {(item.code, item.episode, item.stream) for item in report.level(level).outcome.findings}


def test_equal_formats_pass_with_counts(store):
    report = check_parity(store.paths)
    assert report.passed and report.verdict == "passed"
    assert [level.level for level in report.levels] == ["catalog", "content"]
    content = report.level("content")
    assert content.outcome.numeric is None and content.outcome.pixel is None
    assert content.outcome.counts["episodes"] == 3 and content.outcome.counts["video_elements"] == 6
    assert content.outcome.counts["frames_decoded"] == 3 * 21 and content.outcome.counts["spans"] == 3
    assert report.level("catalog").outcome.counts == {"episodes": 3, "episodes_lance": 3, "frames": 120}
    assert [name for name, _ in content.passed_episodes] == ["a", "b", "c"]


def test_all_decodes_every_frame(store):
    assert check_parity(store.paths, samples=None).level("content").outcome.counts["frames_decoded"] == 120


def test_a_missing_and_an_extra_episode(store, tmp_path):
    publish_draft(
        store.paths, small_draft(tmp_path, frames=12, episode_id="d"), settings=EncodeSettings(profile="test", preset="ultrafast")
    )
    store.paths.episode_link("a").unlink()
    report = check_parity(store.paths)
    assert findings(report, "catalog") == {("parity-missing", "d", ""), ("parity-extra", "a", "")}
    assert findings(report, "content") == {("parity-missing", "d", "lance"), ("parity-missing", "a", "zarr")}
    assert "Run `egodata lance build`" in report.level("catalog").outcome.findings[0].message
    build_lance(store.paths)
    assert check_parity(store.paths).passed


def test_one_changed_float(store):
    store.set_number("b", "right__obs_ee_pose", 17, 2, lambda value: np.nextafter(value, np.float32(9)))
    report = check_parity(store.paths)
    assert report.level("catalog").passed and not report.passed
    assert findings(report, "content") == {("parity-numeric", "b", "right.obs_ee_pose")}
    found = report.level("content").outcome.numeric
    assert (found.episode, found.stream, found.frame) == ("b", "right.obs_ee_pose", 17) and 0 < found.value < 1e-6
    assert report.level("content").failed == ("b",)
    assert "1 values differ from frame 17" in report.level("content").outcome.findings[0].message


def test_a_number_where_nan_was_and_the_sign_of_zero(store):
    store.set_number("a", "left__obs_ee_pose", 12, 0, np.float32(0))
    report = check_parity(store.paths)
    assert report.level("content").outcome.numeric.value == float("inf")
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["levels"]["content"]["largest_numeric"]["value"] == "inf"
    store.set_number("b", "obs_head_pose", 0, 0, lambda value: -value if value == 0 else pytest.fail("expected 0 at frame 0"))
    zero = check_parity(store.paths, episode_ids=["b"])
    assert not zero.passed and zero.level("content").outcome.numeric.value == 0


def test_within_a_tolerance_passes_and_still_says_how_far(store):
    store.set_number("b", "right__obs_ee_pose", 17, 2, lambda value: value + np.float32(1e-4))
    assert check_parity(store.paths, config=ParityConfig(numeric=1e-3)).level("content").outcome.numeric.value == pytest.approx(
        1e-4, rel=0.01
    )
    assert check_parity(store.paths, config=ParityConfig(numeric=1e-3)).passed
    assert not check_parity(store.paths, config=ParityConfig(numeric=1e-5)).passed


@pytest.mark.parametrize(("column", "row", "value"), [("left__obs_ee_pose_valid", 3, False), ("obs_rgb_timestamps_ns", 5, 7)])
def test_masks_and_stamps_have_no_tolerance(store, column, row, value):
    store.set_cell("frames", "a", column, row, value)
    report = check_parity(store.paths, config=ParityConfig(numeric=1e30))
    assert findings(report, "content") == {("parity-numeric", "a", column.replace("__", "."))}


def test_one_changed_span_text(store):
    store.set_cell("annotations", "a", "text", 0, "Reach for the cube")
    report = check_parity(store.paths)
    (found,) = report.level("content").outcome.findings
    assert found.code == "parity-spans" and "Reach for the cube" in found.got and "reach for the cube" in found.expected


def test_a_shifted_and_a_lost_span(store):
    store.set_cell("annotations", "a", "start", 1, lambda start: start + 1)
    assert [item.stream for item in check_parity(store.paths).level("content").outcome.findings] == [SUBTASK]
    store.rewrite("annotations", "a", lambda rows: rows.slice(0, 2))
    assert {item.stream for item in check_parity(store.paths).level("content").outcome.findings} == {SUBTASK, TASK}


@pytest.mark.parametrize(("episode_id", "keys"), [("b", [TASK]), ("c", [])])
def test_empty_is_not_absent(store, episode_id, keys):
    store.set_cell("episodes", episode_id, "annotation_keys", 0, keys)
    report = check_parity(store.paths)
    assert findings(report, "catalog") == {("parity-catalog", episode_id, "annotation_keys")}
    (found,) = report.level("content").outcome.findings
    assert found.code == "parity-spans" and "absent" in found.expected + found.got


def test_annotations_attached_after_the_build(store):
    reader = open_store(store.paths, "zarr").open("a")
    attach_annotations(store.paths, "a", {SUBTASK: [Span("new", 0, 3)]}, expected=reader.digests.content)
    report = check_parity(store.paths)
    assert ("parity-catalog", "a", "content") in findings(report, "catalog")
    assert findings(report, "content") == {("parity-spans", "a", SUBTASK), ("parity-spans", "a", TASK)}
    build_lance(store.paths)
    assert check_parity(store.paths).passed


def test_one_changed_pixel(store):
    def change(rows):
        reader = open_store(store.paths, "zarr").open("a")
        frames = reader.frames("front_1", range(25, 40)).copy()
        frames[6, 20:24, 20:24] ^= 128
        (element,) = encode_frames(iter(frames), fps=reader.meta.fps, settings=SETTINGS)
        videos = rows["video"].to_pylist()
        videos[1] = element
        return rows.set_column(rows.schema.names.index("video"), "video", [videos])

    store.rewrite("videos", "a", change)
    report = check_parity(store.paths, samples=1)
    assert findings(report, "content") == {("parity-video-bytes", "a", "images.front_1"), ("parity-pixels", "a", "images.front_1")}
    (pixels,) = (item for item in report.level("content").outcome.findings if item.code == "parity-pixels")
    assert "PSNR" in pixels.message and "SSIM 0." in pixels.message
    found = report.level("content").outcome.pixel
    assert (found.episode, found.stream, found.frame) == ("a", "images.front_1", 31) and found.value > 30
    loose = check_parity(store.paths, samples=1, config=ParityConfig(pixel=255, video_bytes="any"))
    assert loose.passed and loose.level("content").outcome.pixel == found


def test_one_changed_video_byte(store):
    def change(rows):
        videos = rows["video"].to_pylist()
        videos[0] = videos[0][:-1] + bytes([videos[0][-1] ^ 1])
        return rows.set_column(rows.schema.names.index("video"), "video", [videos])

    store.rewrite("videos", "b", change)
    report = check_parity(store.paths, samples=1)
    assert ("parity-video-bytes", "b", "images.front_1") in findings(report, "content")


def test_a_changed_catalog_column_and_attribute(store):
    store.set_cell("episodes", "a", "n_frames", 0, 41)
    store.set_cell("episodes", "b", "attributes", 0, lambda text: text.replace('"move_cube"', '"fold"'))
    store.set_cell("episodes", "c", "attributes", 0, lambda text: text.replace("0.0002", "0.0003"))
    report = check_parity(store.paths)
    assert findings(report, "catalog") == {("parity-catalog", "a", "n_frames")}
    assert findings(report, "content") == {("parity-meta", "b", "task_name"), ("parity-calibration", "c", "calibration")}


def test_rows_that_cannot_be_read_are_findings(store):
    store.rewrite("frames", "a", lambda rows: rows.slice(0, 39))
    report = check_parity(store.paths)
    assert findings(report, "content") == {("parity-unreadable", "a", "")}
    assert "39 frame rows, expected 40" in report.level("content").outcome.findings[0].message


def test_only_the_episodes_asked_for(store):
    store.set_number("b", "obs_head_pose", 3, 0, np.float32(5))
    assert check_parity(store.paths, episode_ids=["a", "c"]).passed
    assert not check_parity(store.paths, episode_ids=["b"]).passed
    with pytest.raises(NotFoundError, match="neither format: no episode zz"):
        check_parity(store.paths, episode_ids=["zz"])


def test_reports_are_kept(store):
    assert latest(store.paths) == [] and read_rows(store.paths) == []
    contents = [(reader.meta.episode_id, reader.digests.content) for reader in map(open_store(store.paths, "zarr").open, "abc")]
    for name, content in contents:
        assert unproven(store.paths, [(name, content)]) == [name]
    assert check_parity(store.paths).passed
    assert unproven(store.paths, contents) == []
    store.set_number("b", "obs_head_pose", 3, 0, np.float32(5))
    report = check_parity(store.paths)
    assert unproven(store.paths, contents) == ["b"]
    assert [(row["level"], row["passed"]) for row in latest(store.paths)] == [("catalog", True), ("content", False)]
    (row,) = latest(store.paths, "content")
    assert row["largest_numeric_at"] == "b obs_head_pose frame 3" and json.loads(row["worst"])[0]["code"] == "parity-numeric"
    assert len(read_rows(store.paths)) == 2 * (2 + 3)
    files = sorted((store.paths.reports / "parity").glob("*.json"))
    assert len(files) == 2 and json.loads(files[1].read_text()) == report.to_json()


def test_a_damaged_zarr_episode_is_a_finding_and_the_others_are_compared(store):
    group = store.paths.episode_link("b").resolve()
    (group / "zarr.json").write_text("{")
    report = check_parity(store.paths)
    for level in report.levels:
        assert level.failed == ("b",) and {item.code for item in level.outcome.findings} == {"parity-unreadable"}
    assert [name for name, _ in report.level("content").passed_episodes] == ["a", "c"]


def test_a_lost_zarr_chunk_is_a_finding(store):
    group = store.paths.episode_link("a").resolve()
    next(path for path in (group / "obs_head_pose").rglob("*") if path.is_file() and path.name != "zarr.json").unlink()
    report = check_parity(store.paths)
    assert report.level("catalog").passed
    assert findings(report, "content") == {("parity-unreadable", "a", "")}
    assert "obs_head_pose" in report.level("content").outcome.findings[0].message


def test_what_was_proven_does_not_outlive_its_copy(store):
    reader = open_store(store.paths, "zarr").open("b")
    proven = [("b", reader.digests.content)]
    assert check_parity(store.paths).passed and unproven(store.paths, proven) == []
    store.rewrite("episodes", "b", lambda rows: rows.slice(0, 0))
    assert not check_parity(store.paths).passed and unproven(store.paths, proven) == ["b"]
    build_lance(store.paths)
    assert check_parity(store.paths).passed and unproven(store.paths, proven) == []
    (store.paths.episode_link("b").resolve() / "zarr.json").write_text("{")
    store.rewrite("episodes", "b", lambda rows: rows.slice(0, 0))
    assert not check_parity(store.paths).passed and unproven(store.paths, proven) == ["b"]


@pytest.mark.parametrize(
    "bounds",
    [ParityConfig(numeric=10.0), ParityConfig(pixel=None, pixel_mae=200.0), ParityConfig(video_bytes="any")],
    ids=["numbers", "pixels", "bytes"],
)
def test_a_check_under_loose_bounds_proves_nothing(store, bounds):
    proven = [("b", open_store(store.paths, "zarr").open("b").digests.content)]
    assert check_parity(store.paths, config=bounds).passed
    assert unproven(store.paths, proven) == ["b"]
    assert check_parity(store.paths).passed and unproven(store.paths, proven) == []


def test_the_shipped_av1_bounds_prove_a_copy_that_was_encoded_again_and_no_other():
    shipped = load_config(find_config("parity", "av1"), ParityConfig)
    row = {"passed": True, "config": json.dumps(asdict(shipped))}
    looser = {"passed": True, "config": json.dumps({**asdict(shipped), "psnr_db": 20.0})}
    assert proves(row, video="av1") and not proves(row, video="copy") and not proves(looser, video="av1")
    assert proves({"passed": True, "config": json.dumps(asdict(ParityConfig()))}, video="av1")
    assert not proves({**row, "passed": False}, video="av1")
