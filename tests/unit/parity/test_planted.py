"""One planted difference each: found at its level, with its episode and frame named, and nothing else is accused."""

from dataclasses import replace

import lance
import numpy as np
import pyarrow as pa
import pytest

from egodata.annotations import SUBTASK, Span
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.formats import open_store
from egodata.formats.lance import build_lance, table_versions, tables
from egodata.formats.lance.commit import replace_episodes
from egodata.formats.zarr import attach_annotations, publish_draft
from egodata.parity import ParityConfig, check_parity
from egodata.sampling import load_recipe
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings, encode_frames

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=25)
RECIPE = load_recipe("human_wrist6d")


def found(report, level):
    """Return (code, episode, stream, first frame) of a level's findings."""
    return {
        (item.code, item.episode, item.stream, item.frames[0] if item.frames else None) for item in report.level(level).outcome.findings
    }


def rows_of(store, table, episode_id):
    return tables.open_table(store.paths, table).to_table(filter=f"episode_id = '{episode_id}'")


def replaced(rows, columns):
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.names.index(name), rows.schema.field(name), values)
    return rows


def manifest_of(store, **heads):
    zarr = open_store(store.paths, "zarr")
    episodes = {head: tuple(HeadEpisode(name, 40, zarr.open(name).digests.content) for name in names) for head, names in heads.items()}
    return Manifest("small", "1", "d" * 64, episodes, {}, {})


def test_nothing_is_accused_in_an_untouched_store(store):
    dataset = manifest_of(store, train=("a", "b"), seen=("c",))
    report = check_parity(store.paths, dataset=dataset, recipe=RECIPE, samples=None)
    assert report.passed and all(not level.outcome.findings for level in report.levels)


def test_rows_shifted_by_one(store):
    def change(rows):
        column = rows["right__obs_ee_pose"].combine_chunks()
        return replaced(rows, {"right__obs_ee_pose": column.take(pa.array([*range(9), *range(10, 40), 39]))})

    store.rewrite("frames", "b", change)
    report = check_parity(store.paths)
    (finding,) = report.level("content").outcome.findings
    assert (finding.episode, finding.stream) == ("b", "right.obs_ee_pose") and "differ from frame 9," in finding.message


def test_one_value_off_by_a_millionth(store):
    store.set_number("c", "obs_head_pose", 21, 3, lambda value: value + np.float32(1e-6))
    report = check_parity(store.paths)
    assert found(report, "content") == {("parity-numeric", "c", "obs_head_pose", 21)} and report.level("catalog").passed
    assert report.level("content").outcome.histograms["numeric"] in ({"1e-7": 1}, {"1e-6": 1})


def test_two_episodes_swapped(store):
    one, other = (rows_of(store, "frames", name) for name in "ab")
    numbers = [name for name in one.schema.names if name not in tables.SCHEMAS["frames"].names]
    store.rewrite("frames", "a", lambda rows: replaced(rows, {name: other[name] for name in numbers}))
    store.rewrite("frames", "b", lambda rows: replaced(rows, {name: one[name] for name in numbers}))
    report = check_parity(store.paths)
    assert report.level("content").failed == ("a", "b")
    assert {stream for _, _, stream, _ in found(report, "content")} >= {"left.obs_ee_pose", "right.obs_ee_pose"}


def test_one_episode_missing_and_one_extra(store, tmp_path):
    publish_draft(store.paths, small_draft(tmp_path, frames=12, episode_id="d"), settings=SETTINGS)
    store.paths.episode_link("b").unlink()
    assert found(check_parity(store.paths), "catalog") == {("parity-missing", "d", "", None), ("parity-extra", "b", "", None)}


def test_an_annotation_end_off_by_one(store):
    store.set_cell("annotations", "a", "end", 1, lambda end: end - 1)
    report = check_parity(store.paths)
    assert {item[:3] for item in found(report, "content")} == {("parity-spans", "a", SUBTASK)}
    assert "end=" in report.level("content").outcome.findings[0].message


def test_a_prompt_that_falls_back_to_the_task_name_on_one_side(store):
    store.rewrite("annotations", "a", lambda rows: replaced(rows, {"text": pa.array(["move_cube"] * len(rows))}))
    report = check_parity(store.paths, dataset=manifest_of(store, train=("a", "b")), recipe=RECIPE, samples=None)
    loader = found(report, "loader")
    assert {item[2] for item in loader} == {"prompt", "prompts"} and {item[1] for item in loader} == {"a"}
    assert {item[3] for item in loader} == set(range(40))
    assert {item[2] for item in found(report, "content")} >= {SUBTASK}


@pytest.mark.parametrize("empty", ["zarr", "lance"])
def test_empty_against_absent_annotations(store, empty):
    if empty == "zarr":  # c has an empty key on zarr; the copy lacks it
        store.set_cell("episodes", "c", "annotation_keys", 0, [])
    else:  # b has no key on zarr; the copy has an empty one
        store.set_cell("episodes", "b", "annotation_keys", 0, [SUBTASK])
    name = "c" if empty == "zarr" else "b"
    report = check_parity(store.paths)
    assert found(report, "catalog") == {("parity-catalog", name, "annotation_keys", None)}
    (finding,) = report.level("content").outcome.findings
    assert (finding.code, finding.episode, finding.stream) == ("parity-spans", name, SUBTASK)
    assert {"'absent'", "'0 spans'"} == {finding.expected, finding.got}


def test_unset_empty_and_absent_texts_give_no_prompt_on_both_sides(store):
    reader = open_store(store.paths, "zarr").open("a")
    attach_annotations(store.paths, "a", {SUBTASK: [Span("", 0, 20)]}, expected=reader.digests.content)
    build_lance(store.paths)
    report = check_parity(store.paths, dataset=manifest_of(store, train=("a", "b", "c")), recipe=RECIPE, samples=None)
    assert report.passed and report.level("loader").outcome.counts["samples"] == 240


def test_another_fps(store):
    store.set_cell("episodes", "b", "fps_num", 0, 29)
    report = check_parity(store.paths)
    assert found(report, "catalog") == {("parity-catalog", "b", "fps_num", None)} and report.level("content").passed
    store.set_cell("episodes", "c", "attributes", 0, lambda text: text.replace('"fps_num":30', '"fps_num":29'))
    assert ("parity-meta", "c", "fps_num", None) in found(check_parity(store.paths), "content")


def test_k_scaled_wrongly(store):
    calibration = open_store(store.paths, "zarr").open("a").calibration
    focal = repr(float(calibration.cameras["front_1"].k[0][0]))
    store.set_cell("episodes", "a", "attributes", 0, lambda text: text.replace(focal, repr(float(focal) / 2)))
    assert found(check_parity(store.paths), "content") == {("parity-calibration", "a", "calibration", None)}


def another_video(store, change):
    """Return what replaces the second element (frames 25 to 39) of an episode by the same frames, changed and encoded as `change` says."""

    def rewrite(rows):
        reader = open_store(store.paths, "zarr").open("a")
        videos = rows["video"].to_pylist()
        (videos[1],) = change(reader.frames("front_1", range(25, 40)).copy(), reader.meta.fps)
        return rows.set_column(rows.schema.names.index("video"), "video", [videos])

    store.rewrite("videos", "a", rewrite)


def test_one_frame_duplicated(store):
    def twice(frames, fps):
        frames[7:] = frames[6:-1].copy()
        return encode_frames(iter(frames), fps=fps, settings=SETTINGS)

    another_video(store, twice)
    report = check_parity(store.paths, samples=1)
    kinds = {item[:3] for item in found(report, "content")}
    assert kinds == {("parity-video-bytes", "a", "images.front_1"), ("parity-pixels", "a", "images.front_1")}
    assert 32 <= report.level("content").outcome.pixel.frame < 40
    bounded = check_parity(store.paths, samples=1, config=ParityConfig(pixel=None, psnr_db=30.0, video_bytes="any"))
    (finding,) = bounded.level("content").outcome.findings
    assert finding.code == "parity-pixels" and "PSNR" in finding.message and "first frame 32" in finding.message


def test_video_encoded_again_under_copy(store):
    another_video(store, lambda frames, fps: encode_frames(iter(frames), fps=fps, settings=replace(SETTINGS, crf=30)))
    report = check_parity(store.paths, samples=1)
    assert ("parity-video-bytes", "a", "images.front_1", 25) in found(report, "content")
    assert report.level("content").failed == ("a",)


def test_hands_swapped(store):
    def swap(rows):
        names = [name for name in rows.schema.names if name.startswith(("left__", "right__"))]
        other = {name: name.replace("left__", "_").replace("right__", "left__").replace("_obs", "right__obs", 1) for name in names}
        pairs = {name: rows[f"right__{name[6:]}" if name.startswith("left__") else f"left__{name[7:]}"] for name in other}
        return replaced(rows, pairs)

    store.rewrite("frames", "c", swap)
    report = check_parity(store.paths)
    streams = {item[2] for item in found(report, "content")}
    assert {"left.obs_ee_pose", "right.obs_ee_pose", "left.obs_ee_pose_valid"} <= streams and report.level("content").failed == ("c",)


def test_a_mask_bit_flipped(store):
    store.set_cell("frames", "b", "right__obs_ee_pose_valid", 33, False)
    assert found(check_parity(store.paths), "content") == {("parity-numeric", "b", "right.obs_ee_pose_valid", 33)}


def test_another_split_order(store):
    dataset = manifest_of(store, train=("b", "a"), seen=("c",))
    report = check_parity(store.paths, dataset=dataset)
    assert {item[:3] for item in found(report, "catalog")} == {("parity-order", "b", "train")}
    twice = manifest_of(store, train=("a", "b"), seen=("b", "c"))
    assert {item[:3] for item in found(check_parity(store.paths, dataset=twice), "catalog")} == {("parity-split", "b", "seen")}


def test_another_split_key(store):
    store.set_cell(
        "episodes",
        "b",
        "attributes",
        0,
        lambda text: text.replace('"recording_id":"b"', '"recording_id":"r"').replace('"aliased":true', '"aliased":false'),
    )
    dataset = manifest_of(store, train=("a", "b", "c"))
    assert ("parity-split", "b", "split_key", None) in found(check_parity(store.paths, dataset=dataset), "catalog")


def test_a_quaternion_in_the_other_order(store):
    def change(rows):
        column = rows["left__obs_wrist_pose"].combine_chunks()
        values = np.array(column.flatten()).reshape(-1, 7)
        values = np.ascontiguousarray(values[:, [0, 1, 2, 4, 5, 6, 3]])
        return replaced(rows, {"left__obs_wrist_pose": pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 7)})

    store.rewrite("frames", "a", change)
    report = check_parity(store.paths)
    assert {item[:3] for item in found(report, "content")} == {("parity-numeric", "a", "left.obs_wrist_pose")}


def test_a_stale_table_version(store):
    before = table_versions(store.paths)
    store.set_number("a", "obs_head_pose", 5, 0, np.float32(9))  # another version of `frames`; the right rows are in the one before
    wrong = table_versions(store.paths)
    reader = open_store(store.paths, "zarr").open("b")
    attach_annotations(store.paths, "b", {SUBTASK: [Span("new", 0, 3)]}, expected=reader.digests.content)
    properties = {tables.version_property(name): str(wrong[name]) for name in tables.DATA_TABLES}
    replace_episodes(lance.dataset(store.paths.lance / "episodes.lance"), [], fragments=[], properties=properties)
    report = check_parity(store.paths)
    assert ("parity-numeric", "a", "obs_head_pose", 5) in found(report, "content")
    assert ("parity-catalog", "b", "content", None) in found(report, "catalog")
    assert before["frames"] != wrong["frames"]
