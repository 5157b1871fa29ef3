"""Old stores that another program made: read as they are, and turned into v4 episodes."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from egodata.annotations import Span
from egodata.errors import EpisodeNotFoundError, FeatureNotFoundError, HandleError, WindowError
from egodata.formats.zarr import ZarrStore, verify_episode
from egodata.formats.zarr.legacy import LegacyStore
from egodata.geometry.rotation import matrix_from_quat
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import open_root

HERE = Path(__file__).resolve().parent / "v3"
KNOWN = json.loads((HERE / "known.json").read_text())


@pytest.fixture(scope="module")
def pictures():
    return np.load(HERE / "frames.npz")


@pytest.fixture(params=sorted(KNOWN))
def old(request):
    reader = LegacyStore(HERE / "store").open(request.param)
    yield request.param, reader, KNOWN[request.param]
    reader.close()


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """All old stores, ingested with a declared hand frame."""
    root = tmp_path_factory.mktemp("converted") / "store"
    options = IngestOptions("zarr_v3", root, dataset="old", delivery="old", workers=0, declare="anat-v1")
    report = ingest(HERE / "store", options=options)
    assert report.status == 0, [finding.message for finding in report.findings]
    assert len(report.built) == len(KNOWN)
    return open_root(root), report


def _raw(name):
    return zarr.open_group(str(HERE / "store" / f"{name}.zarr"), mode="r")


def test_ids_and_lengths(old):
    _, reader, known = old
    assert LegacyStore(HERE / "store").episode_ids() == sorted(KNOWN)
    assert reader.meta.total_frames == known["total_frames"]
    assert {
        len(rows) for rows in reader.rows(reader.meta.numeric_keys, [(0, known["total_frames"])] * len(reader.meta.numeric_keys)).values()
    } == {known["total_frames"]}


def test_bytes_win_over_the_declared_type(old):
    _, reader, known = old
    assert reader.camera("front_1").codec == known["codec"]
    assert reader.video_info("front_1").frames_per_chunk == known["per_element"]
    assert reader.meta.features["images.front_1"].dtype == known["codec"]


def _blocks(frame):
    """Means of 2x2 pixels: what programs agree on, however they spread the colour of four pixels over them."""
    return frame.astype(float).reshape(24, 2, 32, 2, 3).mean((1, 3))


def test_frames_are_those_that_the_ffmpeg_program_decodes(old, pictures):
    """Every picked frame, alone and in spans, within rounding of two colour conversions."""
    name, reader, known = old
    seen = {index: _blocks(reader.frames("front_1", [index])[0]) for index in known["seen"]}
    for index in known["seen"]:
        off = {other: np.abs(found - _blocks(pictures[f"{name}/{index}"])).mean() for other, found in seen.items()}
        assert off.pop(index) < 2, f"frame {index}"
        assert min(off.values()) > 3, f"frame {index} is that frame and no other"
    total = known["total_frames"]
    span = reader.frames("front_1", range(total))
    rng = np.random.default_rng(0)
    for index in rng.permutation(total)[:12]:
        assert (reader.frames("front_1", [int(index)])[0] == span[index]).all(), "one-frame and span reads agree"


def test_numbers_are_those_that_zarr_reads(old):
    name, reader, known = old
    total = known["total_frames"]
    for key in reader.meta.numeric_keys:
        expected = _raw(name)[key][:total]
        found = reader.rows([key], [(0, total)])[key]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(reader.rows([key], [(total - 3, total)])[key], expected[-3:])
        found[:] = 0
        np.testing.assert_array_equal(reader.rows([key], [(0, total)])[key], expected)


def test_an_old_reader_refuses_as_a_new_one_does(old):
    name, reader, known = old
    with pytest.raises(WindowError, match=f"episode {name}"):
        reader.rows([reader.meta.numeric_keys[0]], [(0, known["total_frames"] + 1)])
    with pytest.raises(WindowError, match=f"frame {known['total_frames']} is outside"):
        reader.frames("front_1", [known["total_frames"]])
    with pytest.raises(FeatureNotFoundError):
        reader.rows(["obs_head_poses"], [(0, 1)])
    with pytest.raises(FeatureNotFoundError):
        reader.frames("front_2", [0])
    copy = pickle.loads(pickle.dumps(reader))
    assert (copy.frames("front_1", [1]) == reader.frames("front_1", [1])).all()
    assert copy.digests == reader.digests
    copy.close()
    with pytest.raises(HandleError):
        copy.frames("front_1", [1])
    with pytest.raises(EpisodeNotFoundError):
        LegacyStore(HERE / "store").open("nobody")


def test_what_old_stores_lack_is_unknown():
    store = LegacyStore(HERE / "store")
    first, second, stale = (store.open(name) for name in ("v30-jpeg", "v31-h264", "v31-stale"))
    assert (first.meta.clock, first.meta.hand_frame_convention, first.meta.operator) == ("unknown", "unknown", None)
    assert (second.meta.clock, second.meta.fps) == ("unix", 30)
    assert stale.meta.hand_frame_convention == "mirror-left-v1"
    assert stale.calibration is None
    assert first.calibration.cameras["front_1"].resolution == (64, 48)
    assert second.spans("annotations_subtask")[0] == Span("grasp the sleeve", 0, 30)
    assert second.spans("annotations") == ()
    assert first.spans("annotations_subtask") is None
    assert store.open("v31-robot").meta.hand_frame_convention is None


def test_converted_episodes_verify_and_carry_masks(converted):
    paths, _ = converted
    for name, known in KNOWN.items():
        assert verify_episode(paths, name) == []
        reader = ZarrStore(paths).open(name)
        total = known["total_frames"]
        assert (reader.meta.total_frames, reader.meta.schema_version) == (total, "v4.0")
        missing = {"left": [], "right": [], "head": []} | known["invalid"]
        for key in (key for key in reader.meta.numeric_keys if reader.meta.features[key].dtype == "float32"):
            rows = reader.rows([key, f"{key}_valid"], [(0, total)] * 2)
            expected = np.ones(total, bool)
            expected[missing["head" if key == "obs_head_pose" else key.partition(".")[0]]] = False
            np.testing.assert_array_equal(rows[f"{key}_valid"], expected, err_msg=f"{name} {key}")
            assert np.isnan(rows[key][~expected]).all() and np.isfinite(rows[key][expected]).all()
            np.testing.assert_allclose(
                rows[key][expected], _raw(name)[key][:total][expected], atol=1e-6
            ) if "left" not in key or name != "v31-stale" else None


def test_h264_elements_are_copied_and_jpeg_is_encoded(converted):
    paths, report = converted
    reader, old = ZarrStore(paths).open("v31-h264"), LegacyStore(HERE / "store").open("v31-h264")
    assert [reader.video_chunk("front_1", i) for i in range(3)] == [old.video_chunk("front_1", i) for i in range(3)]
    assert (reader.frames("front_1", range(50)) == old.frames("front_1", range(50))).all()
    stale, old = ZarrStore(paths).open("v31-stale"), LegacyStore(HERE / "store").open("v31-stale")
    assert [stale.video_chunk("front_1", i) for i in range(2)] == [old.video_chunk("front_1", i) for i in range(2)]
    assert stale.video_info("front_1").frames == 45
    assert np.abs(stale.frames("front_1", [44])[0].astype(int) - old.frames("front_1", [44])[0]).mean() < 3
    encoded, old = ZarrStore(paths).open("v30-jpeg"), LegacyStore(HERE / "store").open("v30-jpeg")
    assert np.abs(encoded.frames("front_1", range(12)).astype(int) - old.frames("front_1", range(12))).mean() < 6
    codes = {finding.code for finding in report.findings}
    assert {"jpeg-encoded", "codec-declared-wrong", "tail-encoded-again", "rows-masked", "stamps-from-fps", "span-clipped"} <= codes


def test_texts_stay_and_structural_spans_are_no_annotations(converted):
    reader = ZarrStore(converted[0]).open("v31-h264")
    assert reader.annotation_keys == ("annotations", "annotations_subtask")
    assert reader.spans("annotations_subtask") == (Span("grasp the sleeve", 0, 30), Span("fold | it", 30, 50))
    assert (reader.structure_keys, reader.spans("fold_segments")) == (("fold_segments",), (Span("", 0, 25),))
    assert reader.meta.clock == "unix"
    assert ZarrStore(converted[0]).open("v30-jpeg").meta.clock == "frame0"


def test_a_mirrored_left_hand_is_turned_and_nothing_else(converted):
    reader = ZarrStore(converted[0]).open("v31-stale")
    assert reader.meta.hand_frame_convention == "anat-v1"
    for side, name in (("left", "obs_ee_pose"), ("left", "obs_wrist_pose"), ("right", "obs_ee_pose")):
        found = reader.rows([f"{side}.{name}"], [(0, 45)])[f"{side}.{name}"]
        before = _raw("v31-stale")[f"{side}.{name}"][:45]
        np.testing.assert_allclose(found[:, :3], before[:, :3], atol=1e-6)
        turn = np.diag([-1.0, -1.0, 1.0]) if side == "left" else np.eye(3)
        np.testing.assert_allclose(matrix_from_quat(found[:, 3:]), matrix_from_quat(before[:, 3:]) @ turn, atol=1e-5)


def test_an_undeclared_hand_is_set_aside_and_the_others_are_built(tmp_path):
    report = ingest(HERE / "store", options=IngestOptions("zarr_v3", tmp_path / "store", workers=0))
    assert report.status == 1
    assert set(report.set_aside) == {"v30-jpeg", "v31-h264"}
    assert {finding.code for finding in report.findings if finding.severity == 2} == {"hand-frame-undeclared"}
    again = ingest(HERE / "store", options=IngestOptions("zarr_v3", tmp_path / "store", workers=0, declare="mirror-left-v1"))
    assert again.status == 0
    left = ZarrStore(open_root(tmp_path / "store")).open("v31-h264").rows(["left.obs_ee_pose"], [(0, 1)])["left.obs_ee_pose"][0]
    before = _raw("v31-h264")["left.obs_ee_pose"][0]
    np.testing.assert_allclose(matrix_from_quat(left[3:]), matrix_from_quat(before[3:]) @ np.diag([-1.0, -1.0, 1.0]), atol=1e-5)


def test_a_damaged_old_episode_is_set_aside(tmp_path):
    shutil.copytree(HERE / "store" / "v31-robot.zarr", tmp_path / "raw" / "v31-robot.zarr")
    shutil.copytree(HERE / "store" / "v31-stale.zarr", tmp_path / "raw" / "v31-stale.zarr")
    element = tmp_path / "raw" / "v31-robot.zarr" / "images.front_1" / "c" / "0"
    element.write_bytes(element.read_bytes()[:8] + b"text, no image")
    report = ingest(tmp_path / "raw", options=IngestOptions("zarr_v3", tmp_path / "store", workers=0))
    assert (set(report.set_aside), report.status) == ({"v31-robot"}, 1)
    (finding,) = [finding for finding in report.findings if finding.severity == 2]
    assert "episode v31-robot: array images.front_1: element 0" in finding.message
