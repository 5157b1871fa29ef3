"""LeRobot v3.0: episodes that share files, ranges that do not tile, what belongs to nobody, and what the meta folder says wrongly."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from egodata.errors import InputError
from egodata.testing.drafts import moving_frames, write_source
from egodata.vendors import SetAside, VendorOptions, get_vendor
from egodata.vendors.lerobot.templates import fill
from egodata.video import COMPACT, decode_video, encode_video

from .conftest import SIZE, codes

LENGTHS = (12, 9, 15)
TOTAL = sum(LENGTHS)
CAMERAS = ("observation.images.cam_high", "observation.images.cam_left_wrist")
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
OPTIONS = VendorOptions("arms", "first")


@pytest.fixture(scope="module")
def shared_video(tmp_path_factory):
    path = write_source(tmp_path_factory.mktemp("v3") / "video.mp4", moving_frames(TOTAL, SIZE, 8))
    return path.read_bytes()


class V3Files:
    """A dataset of three episodes in one parquet and one video file per camera; a test changes rows, lists and bytes."""

    def __init__(self, root, video):
        self.root, self.video = root, video
        starts = np.cumsum([0, *LENGTHS])
        self.episodes = [self.listed(i, int(starts[i]), size) for i, size in enumerate(LENGTHS)]
        self.info = {}
        index = np.concatenate([np.full(size, i) for i, size in enumerate(LENGTHS)])
        self.rows = {
            "observation.state": list(np.arange(3.0 * TOTAL).reshape(-1, 3).astype(np.float32)),
            "action": list(np.arange(2.0 * TOTAL).reshape(-1, 2).astype(np.float32)),
            "timestamp": np.concatenate([np.arange(size) / 30 for size in LENGTHS]).astype(np.float32),
            "frame_index": np.concatenate([np.arange(size) for size in LENGTHS]),
            "episode_index": index,
            "index": np.arange(TOTAL),
            "task_index": index % 2,
        }

    @staticmethod
    def listed(index, start, size):
        row = {
            "episode_index": index,
            "tasks": [f"task {index}"],
            "length": size,
            "dataset_from_index": start,
            "dataset_to_index": start + size,
        }
        row |= {"data/chunk_index": 0, "data/file_index": 0}
        for camera in CAMERAS:
            row |= {f"videos/{camera}/chunk_index": 0, f"videos/{camera}/file_index": 0}
            row |= {f"videos/{camera}/from_timestamp": start / 30, f"videos/{camera}/to_timestamp": (start + size) / 30}
        return row

    def write(self):
        told = {"video.codec": "h264", "video.pix_fmt": "yuv420p", "has_audio": False}
        video = {"dtype": "video", "shape": [54, 96, 3], "names": ["height", "width", "channels"], "info": told}
        features = {
            "observation.state": {"dtype": "float32", "shape": [3], "names": ["a", "b", "c"]},
            "action": {"dtype": "float32", "shape": [2]},
        }
        info = {"codebase_version": "v3.0", "robot_type": "two_arms", "fps": 30, "chunks_size": 1000, "data_path": DATA,
                "video_path": VIDEO, "features": {**features, **dict.fromkeys(CAMERAS, video)}, **self.info}  # fmt: skip
        meta = self.root / "meta"
        (meta / "episodes/chunk-000").mkdir(parents=True, exist_ok=True)
        (meta / "info.json").write_text(json.dumps(info))
        pq.write_table(pa.Table.from_pylist(self.episodes), meta / "episodes/chunk-000/file-000.parquet")
        pq.write_table(pa.table({"task_index": [0, 1], "task": ["even", "odd"]}), meta / "tasks.parquet")
        data = self.root / "data/chunk-000/file-000.parquet"
        data.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(self.rows), data)
        for camera in CAMERAS:
            path = self.root / f"videos/{camera}/chunk-000/file-000.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.video)
        return self

    def discover(self):
        return get_vendor("lerobot").discover(self.write().root, OPTIONS)

    def draft(self, index):
        ref = next(ref for ref in self.discover().recordings if ref.id == f"lerobot-arms-{index:06d}")
        return get_vendor("lerobot").read(ref, OPTIONS).episodes[0]


@pytest.fixture
def v3(tmp_path, shared_video):
    return V3Files(tmp_path / "arms", shared_video)


def refused(v3, index):
    with pytest.raises(SetAside) as caught:
        v3.draft(index)
    return caught.value.findings[-1]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_episode_is_its_own_rows_and_its_own_frames(v3, index):
    draft = v3.draft(index)
    start, size = sum(LENGTHS[:index]), LENGTHS[index]
    np.testing.assert_array_equal(draft.arrays["obs_joints"][:, 0], 3.0 * np.arange(start, start + size))
    assert draft.meta.total_frames == size and draft.meta.task_name == f"task {index}" and draft.findings == ()
    assert draft.arrays["obs_rgb_timestamps_ns"].tolist() == [round(Fraction(i * 10**9, 30)) for i in range(size)]
    assert set(draft.videos) == {"front_1", "left_wrist"}
    for source in draft.videos.values():
        np.testing.assert_array_equal(source.rows, np.arange(start, start + size))
    np.testing.assert_array_equal(draft.arrays["images.left_wrist_source_row"], np.arange(start, start + size))


def test_the_middle_of_a_shared_file_is_encoded_as_if_it_were_alone(v3, tmp_path):
    source = v3.draft(1).videos["front_1"]
    (element,) = encode_video(source, fps=Fraction(30), settings=COMPACT)
    (tmp_path / "out.mp4").write_bytes(element)
    stored, whole = list(decode_video(tmp_path / "out.mp4")), list(decode_video(source.path))
    assert len(stored) == LENGTHS[1]
    for own, true, other in zip(stored, whole[12:21], whole[13:22], strict=True):
        near, far = (np.abs(own.astype(int) - picture).mean() for picture in (true, other))
        assert near < 4 and near < far / 1.5


@pytest.mark.parametrize(
    ("change", "expected", "got"),
    [
        ({"dataset_from_index": 14}, "12", "14"),
        ({"dataset_from_index": 10, "length": 11}, "12", "10"),
        ({"length": 7}, "9", "7"),
    ],
    ids=["gap", "overlap", "length"],
)
def test_ranges_that_do_not_tile_are_findings_and_the_rows_count(v3, change, expected, got):
    v3.episodes[1] |= change
    if "dataset_from_index" in change and "length" not in change:
        v3.episodes[1]["length"] = v3.episodes[1]["dataset_to_index"] - change["dataset_from_index"]
    draft = v3.draft(1)
    (finding,) = [finding for finding in draft.findings if finding.code == "ranges-untiled"]
    assert (finding.expected, finding.got) == (expected, got) and draft.meta.total_frames == LENGTHS[1]
    assert ("ranges-differ" in codes(draft)) == ("dataset_from_index" in change)


@pytest.mark.parametrize("made", [["x"] * TOTAL, [None] * TOTAL, [[1.0] * (row % 3) for row in range(TOTAL)], [b"\xff"] * TOTAL])
@pytest.mark.parametrize(("column", "code"), [("index", "ranges-unchecked"), ("task_index", "task-unreadable")])
def test_a_side_column_of_another_type_is_a_finding(v3, column, code, made):
    v3.rows[column], v3.episodes[1]["tasks"] = made, []
    draft = v3.draft(1)
    assert [finding.code for finding in draft.findings] == [code] and draft.meta.total_frames == LENGTHS[1]


def test_rows_of_an_episode_that_nothing_lists_are_set_aside_by_name(v3):
    del v3.episodes[1]
    found = v3.discover()
    assert [ref.id for ref in found.recordings] == ["lerobot-arms-000000", "lerobot-arms-000002"]
    (item,) = found.refused
    assert (item.ref.id, item.findings[0].code) == ("lerobot-arms-000001", "rows-orphan") and "9 rows of episode 1" in item.findings[
        0
    ].message


def test_files_that_nothing_names_are_set_aside_by_name(v3):
    v3.write()
    (v3.root / "videos/observation.images.cam_high/chunk-000/file-007.mp4").write_bytes(b"x")
    (v3.root / "data/chunk-000/file-009.parquet").write_bytes(b"x")
    found = v3.discover()
    assert len(found.recordings) == 3
    assert [item.findings[0].message.partition(":")[0] for item in found.refused] == [
        "data/chunk-000/file-009.parquet",
        "videos/observation.images.cam_high/chunk-000/file-007.mp4",
    ]
    assert {item.findings[0].code for item in found.refused} == {"file-orphan"}


def test_a_wrong_path_template_does_not_make_a_delivery_absent_unseen(v3):
    v3.info = {"data_path": "rows/{chunk_index}/{file_index}.parquet", "video_path": "films/{video_key}/{file_index}.mp4"}
    found = v3.discover()
    assert len(found.absent) == 3 and len(found.refused) == 3 and {item.findings[0].code for item in found.refused} == {"file-orphan"}


def test_a_video_shorter_than_the_metadata_implies(v3, tmp_path):
    cut = write_source(tmp_path / "cut.mp4", moving_frames(TOTAL - 2, SIZE, 8))
    v3.video = cut.read_bytes()
    draft = v3.draft(2)
    assert {"video-short", "tail-trimmed"} <= set(codes(draft)) and draft.meta.total_frames == LENGTHS[2] - 2
    v3.video = write_source(tmp_path / "half.mp4", moving_frames(26, SIZE, 8)).read_bytes()
    assert refused(v3, 2).code == "frame-count" and v3.draft(1).findings == ()
    v3.video = write_source(tmp_path / "none.mp4", moving_frames(15, SIZE, 8)).read_bytes()
    finding = refused(v3, 2)
    assert (finding.code, finding.expected, finding.got) == ("range-empty", "15", "0")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"info": {"video.codec": "av1"}}, "codec av1 where the file has h264"),
        ({"info": {"video.pix_fmt": "yuv444p"}}, "pixel format yuv444p"),
        ({"info": {"has_audio": True}}, "audio True"),
        ({"shape": [480, 640, 3]}, "size 640x480 where the file has 96x54"),
        ({"shape": [3, 480, 640], "names": ["channels", "height", "width"]}, "size 640x480"),
    ],
)
def test_wrong_declarations_are_findings_and_the_file_counts(v3, told, words):
    video = {"dtype": "video", "shape": [54, 96, 3], "names": ["height", "width", "channels"], "info": {}, **told}
    v3.info = {"features": {"observation.state": {"dtype": "float32", "shape": [3]}, CAMERAS[0]: video}}
    draft = v3.draft(0)
    (finding,) = [finding for finding in draft.findings if finding.code == "video-declared"]
    assert words in finding.message and draft.videos["front_1"].size == SIZE


@pytest.mark.parametrize("codec", ["h264", "avc1", "libx264"])
def test_other_names_of_the_same_codec_are_no_finding(v3, codec):
    video = {"dtype": "video", "shape": [54, 96, 3], "info": {"video.codec": codec}}
    v3.info = {"features": {"observation.state": {"dtype": "float32", "shape": [3]}, CAMERAS[0]: video}}
    assert "video-declared" not in codes(v3.draft(0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"episode_index": None}, "row 1 does not place an episode"),
        ({"data/chunk_index": -1}, "data/chunk_index: got '-1'"),
        ({f"videos/{CAMERAS[0]}/from_timestamp": float("nan")}, "from_timestamp: got 'nan'"),
        ({"episode_index": 1}, "episode 1 is listed twice"),
    ],
)
def test_a_list_that_places_nothing_is_named(v3, change, words):
    v3.episodes[0] |= change
    with pytest.raises(InputError, match=words):
        v3.discover()


def test_no_list_or_a_broken_one(v3):
    v3.write()
    path = v3.root / "meta/episodes/chunk-000/file-000.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"file-000\.parquet"):
        get_vendor("lerobot").discover(v3.root, OPTIONS)
    path.unlink()
    with pytest.raises(InputError, match="no meta/episodes"):
        get_vendor("lerobot").discover(v3.root, OPTIONS)


@pytest.mark.parametrize(
    "template",
    ["{episode_index.__class__}", "{episode_index[0]}", "{episode_index!r}", "{episode_index:999999999d}", "{episode_index:{width}}",
     "{other}", "{}", "{episode_index", "{video_key:03d}", "{video_key:>99}", "a" * 256, "a/" * 600, "data/\0"],
)  # fmt: skip
def test_templates_are_filled_without_trusting_them(template):
    with pytest.raises(InputError, match=r"meta/info\.json: data_path .* cannot be filled"):
        fill(template, {"episode_index": 3, "video_key": "cam"}, where="data_path")


def test_a_human_data_set_by_named_columns(v3, tmp_path):
    head = np.tile(np.array([0.1, 0.2, 1.5, 1, 0, 0, 0], np.float32), (TOTAL, 1))
    hand = np.array([(0.02 * (i % 4), 0.03 * (i // 4), 0.4 + 0.005 * (i % 3)) for i in range(21)], np.float32).ravel()
    left = np.tile(hand, (TOTAL, 1))
    left[2:4] = np.nan
    head[5, 3:] = 0
    v3.rows |= {"head": list(head), "left": list(left), "right": list(np.tile(hand, (TOTAL, 1)))}
    own = tmp_path / "own.yaml"
    own.write_text("human: {head: head, left: left, right: right}\n")
    options = VendorOptions("arms", "first", str(own))
    ref = v3.discover().recordings[0]
    (draft,) = get_vendor("lerobot").read(ref, options).episodes
    assert (draft.meta.embodiment, draft.meta.hand_frame_convention) == ("human_bimanual", "anat-v1")
    assert np.flatnonzero(~draft.arrays["left.obs_wrist_pose_valid"]).tolist() == [2, 3]
    assert np.flatnonzero(~draft.arrays["obs_head_pose_valid"]).tolist() == [5] and "obs_joints" not in draft.arrays
    own.write_text("human: {head: head, left: left, right: head}\n")
    with pytest.raises(SetAside, match="head: 7 numbers in a row, expected 63"):
        get_vendor("lerobot").read(ref, options)


def test_our_own_export_comes_back(tmp_path: Path):
    """A dataset that the exporter wrote is read with its ranges."""
    from egodata.catalog.manifest import Manifest, head_episode
    from egodata.catalog.rows import catalog_from_store
    from egodata.formats import open_store
    from egodata.formats.zarr import publish_draft
    from egodata.interop import ExportOptions, export_lerobot
    from egodata.schema.layout import open_root
    from egodata.testing.drafts import small_draft
    from egodata.video import EncodeSettings

    paths = open_root(tmp_path / "store", create=True)
    for seed, (name, frames) in enumerate({"ep-a": 20, "ep-b": 11}.items()):
        publish_draft(paths, small_draft(tmp_path, frames=frames, seed=seed, episode_id=name), settings=EncodeSettings(frames_per_chunk=40))
    store = open_store(paths, "zarr")
    rows = {row.episode_id: row for row in catalog_from_store(store)}
    manifest = Manifest("small", "v1", "0" * 64, {"train": tuple(head_episode(rows[name]) for name in ("ep-a", "ep-b"))}, pins={})
    export_lerobot(manifest, store, out=tmp_path / "arms", options=ExportOptions(task="task_name"))
    vendor = get_vendor("lerobot")
    found = vendor.discover(tmp_path / "arms", OPTIONS)
    drafts = [vendor.read(ref, OPTIONS).episodes[0] for ref in found.recordings]
    assert [draft.meta.total_frames for draft in drafts] == [20, 11] and not found.refused
    assert [int(draft.videos["front_1"].rows[0]) for draft in drafts] == [0, 20]
    assert all({"video-declared", "ranges-untiled", "ranges-differ"}.isdisjoint(codes(draft)) for draft in drafts)
