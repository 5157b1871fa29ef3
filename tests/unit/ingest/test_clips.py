"""One recording, several episodes: by ranges, spans and gaps; ids stay when a clip is added."""

import json
from dataclasses import replace

import numpy as np
import pytest

from egodata.annotations import Span
from egodata.catalog.rows import catalog_from_lance
from egodata.errors import ConfigError, VideoError
from egodata.formats.lance import build_lance
from egodata.formats.zarr import ZarrStore, verify_episode
from egodata.formats.zarr.gc import collect_garbage
from egodata.ingest import IngestOptions, build, ingest
from egodata.ingest.clips import ClipRule, cut_drafts, load_clips
from egodata.schema.layout import StorePaths
from egodata.testing.drafts import moving_frames, small_draft, write_source
from egodata.vendors import Drafts, SetAside
from egodata.video import EncodeSettings

from .conftest import IDS

RECORDING = "5f0c00000000000000000001"
OTHER = EncodeSettings(profile="other", crf=32, preset="ultrafast", tune="", gop=12, bframes=0)


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return small_draft(tmp_path_factory.mktemp("draft"), frames=60)


def cut(draft, **rule):
    return cut_drafts(Drafts((draft,)), ClipRule(**rule), recording=RECORDING)


def test_ranges_slice_every_stream_and_keep_their_ids(draft):
    ranges = {RECORDING: ((5, 25), (40, 60))}
    clips = cut(draft, ranges=ranges).episodes
    assert [clip.meta.episode_id for clip in clips] == [f"{RECORDING}-c5-25", f"{RECORDING}-c40-60"]
    assert [(clip.meta.clip.index, clip.meta.clip.start, clip.meta.clip.end, clip.meta.clip.aliased) for clip in clips] == [
        (0, 5, 25, False),
        (1, 40, 60, False),
    ]
    for clip, (start, end) in zip(clips, ranges[RECORDING], strict=True):
        assert clip.meta.total_frames == end - start and clip.meta.recording_id == RECORDING
        assert all(
            np.array_equal(clip.arrays[key], draft.arrays[key][start:end], equal_nan=True) for key in draft.arrays if "valid" not in key
        )
        assert np.array_equal(clip.videos["front_1"].rows, np.arange(start, end))
    more = cut(draft, ranges={RECORDING: ((5, 25), (28, 38), (40, 60))}).episodes
    assert {clip.meta.episode_id for clip in clips} < {clip.meta.episode_id for clip in more}


def test_spans_are_cut_to_the_clip_and_counted_from_its_start(draft):
    (clip,) = cut(draft, ranges={RECORDING: ((20, 50),)}).episodes
    assert clip.annotations["annotations_subtask"] == [Span("reach for the cube", 0, 10), Span("place the cube", 10, 30)]
    assert clip.annotations["annotations_task"] == [Span("move the cube", 0, 30)]
    (early,) = cut(draft, ranges={RECORDING: ((0, 10),)}).episodes
    assert [span.text for span in early.annotations["annotations_subtask"]] == ["reach for the cube"]


def test_the_whole_recording_as_one_clip_keeps_its_id(draft):
    assert cut(draft, ranges={RECORDING: ((0, 60),)}).episodes == (draft,)
    assert cut(draft, ranges={"another": ((0, 10),)}).episodes == (draft,)


def test_by_spans_of_a_key(draft):
    cutted = cut(draft, spans="annotations_subtask")
    assert [clip.meta.episode_id for clip in cutted.episodes] == [f"{RECORDING}-c0-30", f"{RECORDING}-c30-60"]
    assert cut(draft, spans="annotations_other").episodes == (draft,)
    with pytest.raises(SetAside, match="no piece of at least 31 frames"):
        cut(draft, spans="annotations_subtask", min_frames=31)


def test_by_gaps_in_time_and_hands(draft):
    stamps = draft.arrays["obs_rgb_timestamps_ns"].copy()
    stamps[30:] += 2_000_000_000
    arrays = {**draft.arrays, "obs_rgb_timestamps_ns": stamps}
    for side in ("left", "right"):
        mask = draft.arrays[f"{side}.obs_ee_pose_valid"].copy()
        mask[45:52] = False
        arrays[f"{side}.obs_ee_pose_valid"] = mask
    clips = cut(replace(draft, arrays=arrays), gap_s=0.2, min_frames=8)
    assert [(clip.meta.clip.start, clip.meta.clip.end) for clip in clips.episodes] == [(0, 30), (30, 45), (52, 60)]
    assert clips.findings[-1].code == "clips-cut" and "7 of 60 frames are in none" in clips.findings[-1].message
    short = cut(replace(draft, arrays=arrays), gap_s=0.2, min_frames=10, max_frames=12)
    assert [(clip.meta.clip.start, clip.meta.clip.end) for clip in short.episodes] == [(0, 12), (12, 24), (30, 42)]
    assert "3 pieces were too short" in short.findings[-1].message


def test_frame0_stamps_begin_at_zero_again(draft):
    relative = replace(draft, meta=replace(draft.meta, clock="frame0"))
    (clip,) = cut(relative, ranges={RECORDING: ((10, 20),)}).episodes
    assert clip.arrays["obs_rgb_timestamps_ns"][0] == 0
    assert np.array_equal(np.diff(clip.arrays["obs_rgb_timestamps_ns"]), np.diff(draft.arrays["obs_rgb_timestamps_ns"][10:20]))


@pytest.mark.parametrize("rule", [{}, {"ranges": {}, "gap_s": 1.0}, {"ranges": {"a": ((3, 3),)}}, {"ranges": {"a": ((0, 9), (8, 12))}}])
def test_a_rule_that_makes_no_sense_is_refused(rule, tmp_path):
    (tmp_path / "clips.yaml").write_text(json.dumps(rule))
    with pytest.raises(ConfigError):
        load_clips(tmp_path / "clips.yaml")


def test_a_range_outside_sets_the_recording_aside(draft):
    with pytest.raises(SetAside, match=r"range \[40, 61\) ends after its 60 frames"):
        cut(draft, ranges={RECORDING: ((40, 61),)})


def test_ingest_with_clips_and_one_more_clip(raw, bench, tmp_path):
    rule = tmp_path / "clips.yaml"
    rule.write_text(json.dumps({"ranges": {IDS[0]: [[0, 5], [6, 12]]}}))
    report = bench(clips=rule)
    one, other = f"{IDS[0]}-c0-5", f"{IDS[0]}-c6-12"
    assert set(report.outcomes[0].episodes) == {one, other} and report.inputs == 3 == len(report.built)
    store = ZarrStore(bench.paths)
    assert store.episode_ids() == [one, other, IDS[1], IDS[2]] and verify_episode(bench.paths, other) == []
    reader = store.open(other)
    assert reader.meta.total_frames == 6 and reader.frames("front_1", [5]).shape == (1, 54, 96, 3)
    assert bench(clips=rule).skipped == IDS
    kept = store.open(one).digests.media
    rule.write_text(json.dumps({"ranges": {IDS[0]: [[0, 5], [5, 6], [6, 12]]}}))
    report = bench(clips=rule)
    assert report.built == (IDS[0],) and report.skipped == IDS[1:]  # other recordings' ranges are not touched
    assert set(report.outcomes[0].episodes) == {one, f"{IDS[0]}-c5-6", other} and store.open(one).digests.media == kept
    contents = {name: store.open(name).digests.content for name in (one, other)}
    rule.write_text(json.dumps({"ranges": {IDS[0]: [[0, 5]]}}))
    report = bench(clips=rule)
    withdrawn = [finding.stream for finding in report.findings if finding.code == "clip-withdrawn"]
    assert withdrawn == [f"{IDS[0]}-c5-6", other] and report.status == 0
    assert store.episode_ids() == [one, IDS[1], IDS[2]]  # what is not made any more cannot be trained on by mistake
    assert store.open(other, content=contents[other]).meta.total_frames == 6  # a dataset that named it still opens it
    freed = collect_garbage(bench.paths, lambda: [(other, contents[other])]).freed
    assert f"{IDS[0]}-c5-6" in {item.episode_id for item in freed} and store.open(other, content=contents[other])
    assert bench(clips=rule).skipped == IDS


def test_spans_that_change_cut_anew(raw, bench, tmp_path):
    rule = tmp_path / "clips.yaml"
    rule.write_text(json.dumps({"spans": "annotations_subtask", "min_frames": 2}))
    head = "label,start_time,end_time,role\n"
    replace(raw[IDS[0]], annotations=f"{head}reach,0,0.2,subtask\nplace,0.2,0.4,subtask\n").write()
    first = bench(clips=rule, only=(IDS[0],)).outcomes[0]
    replace(raw[IDS[0]], annotations=f"{head}reach,0,0.1,subtask\n").write()
    (outcome,) = bench(clips=rule, only=(IDS[0],)).outcomes
    assert outcome.status == "built" and len(first.episodes) == 2 and not set(first.episodes) & set(outcome.episodes)
    assert ZarrStore(bench.paths).episode_ids() == sorted(outcome.episodes)


@pytest.mark.parametrize("before", [False, True])
def test_a_clip_that_cannot_be_published_takes_its_siblings_back(raw, bench, tmp_path, monkeypatch, before):
    rule, store = tmp_path / "clips.yaml", ZarrStore(bench.paths)
    rule.write_text(json.dumps({"ranges": {IDS[0]: [[0, 5], [6, 12]]}}))
    one, other = f"{IDS[0]}-c0-5", f"{IDS[0]}-c6-12"
    contents = dict(bench(clips=rule, only=(IDS[0],)).outcomes[0].episodes) if before else {}
    publish = build.publish_draft

    def second_fails(paths, draft, *, settings):
        if draft.meta.episode_id == other:
            raise VideoError("video x.mp4: decoding stopped")
        return publish(paths, draft, settings=settings)

    monkeypatch.setattr(build, "publish_draft", second_fails)
    (outcome,) = bench(clips=rule, only=(IDS[0],), force=before, settings=OTHER, workers=0).outcomes
    assert outcome.status == "set_aside" and outcome.findings[-1].code == "video-unreadable"
    assert {name: store.open(name).digests.content for name in store.episode_ids()} == contents  # as they were: none, or both of before
    monkeypatch.undo()
    again = bench(clips=rule, only=(IDS[0],), settings=OTHER).outcomes[0]
    assert again.status == "built" and set(again.episodes) == {one, other} == set(store.episode_ids())
    assert not set(contents.values()) & set(again.episodes.values())


def test_a_redelivery_that_cuts_otherwise_leaves_no_old_piece_published(tmp_path):
    pytest.importorskip("scale_json_binary")
    from tests.unit.vendors.vendor_files import ScaleFiles, text_clip  # needs the extra

    video = write_source(tmp_path / "video.mp4", moving_frames(40, (96, 60), 3)).read_bytes()
    paths = StorePaths(tmp_path / "store")
    options = IngestOptions("scale", paths.root, workers=0, settings=OTHER)

    def delivered(*inactive):
        issues = [text_clip(start, end, Collector_Quality_Issue=["Inactive Time"]) for start, end in inactive]
        files = ScaleFiles(tmp_path / "raw", texts={"Sub-goal": [text_clip(0, 30, "fold")], "Collector Issue": issues}, video=video)
        files.write()
        (outcome,) = ingest(tmp_path / "raw", options=options).outcomes
        return files.id, outcome

    name, first = delivered()
    assert list(first.episodes) == [name]
    _, again = delivered((14, 16))
    assert again.status == "built" and list(again.episodes) == [f"{name}-c0-14", f"{name}-c16-40"]
    assert [finding.stream for finding in again.findings if finding.code == "clip-withdrawn"] == [name]
    assert ZarrStore(paths).episode_ids() == sorted(again.episodes)
    build_lance(paths)
    assert [row.episode_id for row in catalog_from_lance(paths)] == sorted(again.episodes)
