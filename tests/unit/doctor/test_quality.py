"""Each quality check: silent on a good episode, and found with its frames on a bad one."""

from dataclasses import replace

import numpy as np
import pytest

from egodata.annotations import Span
from egodata.calibration import Calibration
from egodata.config import find_config, load_config
from egodata.doctor.draft_reader import DraftReader
from egodata.doctor.report import merged
from egodata.episode import VideoSource
from egodata.errors import ConfigError
from egodata.findings import Finding, Severity
from egodata.reports.limits import SHIPPED, Limits, load_limits
from egodata.reports.pictures import Levels, check_pictures, measure, raw_levels
from egodata.reports.quality import check_quality, longest_run
from egodata.reports.validate import validate_episode
from egodata.testing.drafts import moving_frames, small_draft, write_source

FRAMES = 60


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    """Hands before a camera that looks along its own z, so that the keypoints lie in front of it."""
    made = small_draft(tmp_path_factory.mktemp("draft"), frames=FRAMES)
    arrays = {key: np.array(values) for key, values in made.arrays.items()}
    arrays["obs_head_pose"][:, 2] -= 1.5
    return replace(made, arrays=arrays)


def changed(draft, **arrays):
    named = {key.replace("__", "."): values for key, values in arrays.items()}
    return replace(draft, arrays={**draft.arrays, **named})


def quality(draft, **limits):
    return check_quality(DraftReader(draft), limits=replace(SHIPPED, **limits), content="bytes")


def codes(found, least=Severity.WARNING):
    return [finding.code for finding in found.findings if finding.severity >= least]


def test_a_good_episode_has_figures_and_no_finding(draft):
    found = quality(draft)
    assert codes(found) == [] and found.figures["frames"] == FRAMES
    assert found.figures["missing_left"] == round(10 / FRAMES, 4) and found.figures["missing_right"] == 0
    assert found.figures["inside_share"] > 0.9 and found.figures["behind_share"] == 0 and min(found.figures["spread_px"]) > 1
    assert found.figures["coverage"] == {"annotations_subtask": 1.0, "annotations_task": 1.0}


def test_a_head_that_stands_still_and_one_that_jumps(draft):
    still = draft.arrays["obs_head_pose"].copy()
    still[:, :3] = still[0, :3] + np.random.default_rng(0).normal(0, 1e-4, (FRAMES, 3))
    (finding,) = [item for item in quality(changed(draft, obs_head_pose=still)).findings if item.severity is Severity.WARNING]
    assert finding.code == "head-constant" and finding.content == "bytes" and finding.expected == "over 0.001 m"
    jump = draft.arrays["obs_head_pose"].copy()
    jump[30:, 0] += 0.31
    reader = DraftReader(changed(draft, obs_head_pose=jump))
    (found,) = [item for item in validate_episode(reader, content="") if item.code == "head-jump"]
    assert found.frames == (29, 31)
    assert not [item for item in validate_episode(reader, content="", limits=Limits(head_step_m=0.4)) if item.code == "head-jump"]


def test_a_hand_that_is_mostly_missing(draft):
    mask = np.zeros(FRAMES, bool)
    mask[:20] = True
    found = quality(changed(draft, right__obs_wrist_pose_valid=mask))
    (finding,) = [item for item in found.findings if item.code == "hand-missing"]
    assert finding.stream == "right.obs_wrist_pose" and finding.got == "66.7%" and found.figures["missing_right"] == 0.6667


def test_held_samples(draft):
    rows = draft.arrays["right.obs_wrist_pose"].copy()
    rows[20:40] = rows[20]
    (finding,) = [item for item in quality(changed(draft, right__obs_wrist_pose=rows)).findings if item.code == "samples-held"]
    assert finding.frames == (20, 40) and "at most 19 in a row from frame 21" in finding.message
    doubled = np.repeat(draft.arrays["right.obs_wrist_pose"][::2], 2, axis=0)
    (finding,) = [item for item in quality(changed(draft, right__obs_wrist_pose=doubled)).findings if item.code == "samples-held"]
    assert finding.got == "50.8%"  # 30 of 59


def test_keypoints_behind_the_camera_and_out_of_the_picture(draft):
    head = draft.arrays["obs_head_pose"].copy()
    head[:, 2] += 3
    found = quality(changed(draft, obs_head_pose=head))
    assert "keypoints-behind" in codes(found) and found.figures["behind_share"] > 0.99
    aside = draft.arrays["obs_head_pose"].copy()
    aside[:, 0] += 2.0
    found = quality(changed(draft, obs_head_pose=aside))
    assert codes(found) == ["projection-outside"] and found.figures["inside_share"] < 0.1
    assert codes(quality(draft, spread_share=0.9)) == ["projection-narrow"]


def test_without_calibration_nothing_is_projected(draft):
    assert "inside_share" not in quality(replace(draft, calibration=None)).figures


def test_an_invented_k(draft):
    camera = draft.calibration.cameras["front_1"]
    made = replace(camera, k=((64.0, 0.0, 31.5, 0.0), (0.0, 64.0, 23.5, 0.0), (0.0, 0.0, 1.0, 0.0)))
    reader = DraftReader(replace(draft, calibration=Calibration("head", {"front_1": made})))
    assert "k-invented" in [item.code for item in validate_episode(reader, content="")]


@pytest.mark.parametrize(("quaternion", "code"), [((2, 0, 0, 0), "quaternion-norm"), ((1, 0, 0, 0), "quaternion-identity")])
def test_rotations_that_are_none(draft, quaternion, code):
    rows = draft.arrays["right.obs_ee_pose"].copy()
    rows[5:15, 3:] = quaternion
    found = [item for item in validate_episode(DraftReader(changed(draft, right__obs_ee_pose=rows)), content="") if item.code == code]
    assert [item.frames for item in found] == [(5, 15)]


def test_annotation_coverage(draft):
    some = replace(draft, annotations={"annotations_task": [Span("fold", 10, 20)]})
    (finding,) = [item for item in quality(some).findings if item.severity is Severity.WARNING]
    assert finding.code == "annotation-coverage" and finding.got == "16.7%"
    assert codes(quality(replace(draft, annotations={})), Severity.INFO) == ["annotations-none"]


def test_frozen_and_black_stretches_of_a_video(draft, tmp_path):
    frames = moving_frames(FRAMES, (64, 48), 3)
    frames[10:30] = frames[10]
    frames[40:46] = 0
    path = write_source(tmp_path / "odd.mp4", frames)
    source = VideoSource(path, np.arange(FRAMES), (64, 48))
    found = check_pictures(DraftReader(draft), "front_1", levels=raw_levels(source), limits=SHIPPED, content="")
    by_code = {item.code: item for item in found}
    assert set(by_code) == {"video-black", "video-frozen"} and by_code["video-black"].frames == (40, 46)
    assert by_code["video-frozen"].frames == (12, 30) and by_code["video-frozen"].severity is Severity.WARNING
    rest = changed(
        draft, **{key.replace(".", "__"): np.repeat(draft.arrays[key][:1], FRAMES, 0) for key in draft.arrays if key.endswith("pose")}
    )
    (calm,) = [
        item
        for item in check_pictures(DraftReader(rest), "front_1", levels=raw_levels(source), limits=SHIPPED, content="")
        if "frozen" in item.code
    ]
    assert calm.severity is Severity.INFO and "nothing that is tracked moved" in calm.message


def test_a_file_row_shown_twice_does_not_change(tmp_path):
    path = write_source(tmp_path / "short.mp4", moving_frames(8, (64, 48), 3))
    rows = np.array([0, 1, 1, 1, 5, 7])
    levels = raw_levels(VideoSource(path, rows, (64, 48)))
    assert np.isnan(levels.step[0]) and (levels.step[[2, 3]] == 0).all() and (levels.step[[1, 4, 5]] > 0.02).all()


def test_levels_of_made_pictures():
    levels = measure(np.full((3, 8, 8, 3), value, np.uint8)[0] for value in (0, 0, 10))
    assert isinstance(levels, Levels) and levels.mean.tolist() == [0, 0, 10] and levels.step[1:].tolist() == [0, 10]


def test_longest_run():
    assert longest_run(np.array([0, 1, 1, 0, 1], bool)) == (1, 3) and longest_run(np.zeros(3, bool)) == (0, 0)


def test_shipped_thresholds_are_those_of_the_code(tmp_path):
    assert load_limits() == SHIPPED == load_config(find_config("", "doctor"), Limits)
    own = tmp_path / "own.yaml"
    own.write_text("held_s: 2.0\n")
    assert load_limits(str(own)) == replace(SHIPPED, held_s=2.0)
    own.write_text("held: 2.0\n")
    with pytest.raises(ConfigError, match="held"):
        load_limits(str(own))


def test_what_the_reader_said_is_not_said_twice():
    given = (Finding("head-pose-jump", Severity.WARNING, "a", "vendor", stream="egomotion.txt"),)
    own = [Finding("head-jump", Severity.WARNING, "a", "own"), Finding("video-black", Severity.ERROR, "a", "own")]
    assert [item.code for item in merged(own, given)] == ["video-black", "head-pose-jump"]
