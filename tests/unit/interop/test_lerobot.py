"""A frozen dataset in LeRobot's layout, read back by pyarrow, lance and av; the public packages have their turn in e2e."""

import json
from dataclasses import replace
from fractions import Fraction

import lance
import numpy as np
import pyarrow.parquet as pq
import pytest

from egodata.annotations import SUBTASK, Span
from egodata.catalog.manifest import Manifest, head_episode
from egodata.catalog.rows import catalog_from_store
from egodata.errors import EpisodeNotFoundError, InputError, VideoError
from egodata.formats import open_store
from egodata.formats.zarr import publish_draft
from egodata.interop import ExportOptions, export_lerobot
from egodata.interop.tables import read_column
from egodata.interop.vectors import Vector, fill_vector
from egodata.schema.features import FeatureSpec
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings, decode_video
from egodata.video.join import JoinedVideo, elements_signature
from egodata.video.mp4 import index_chunk

SETTINGS = EncodeSettings(frames_per_chunk=40, gop=9, bframes=3)
LENGTHS = {"ep-a": 130, "ep-b": 41, "ep-c": 60}
CAMERA = "observation.images.front_1"


def manifest_of(paths, heads):
    rows = {row.episode_id: row for row in catalog_from_store(open_store(paths, "zarr"))}
    members = {head: tuple(head_episode(rows[name]) for name in names) for head, names in heads.items()}
    return Manifest("small", "v1", "0" * 64, members, pins={})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    paths = open_root(folder / "store", create=True)
    for seed, (name, frames) in enumerate(LENGTHS.items()):
        texts = {SUBTASK: [Span("grasp", 5, 20), Span("lift", 10, 30)]} if name == "ep-a" else {}
        publish_draft(paths, small_draft(folder, frames=frames, seed=seed, episode_id=name, annotations=texts), settings=SETTINGS)
    return open_store(paths, "zarr"), manifest_of(paths, {"train": ["ep-b", "ep-a"], "seen": ["ep-c"]}), paths, folder


@pytest.fixture(scope="module")
def exported(dataset, tmp_path_factory):
    store, manifest, _, _ = dataset
    out = tmp_path_factory.mktemp("out") / "lr"
    return out, export_lerobot(manifest, store, out=out, options=ExportOptions(task=SUBTASK, raw=True))


def test_heads_follow_each_other_and_splits_name_them(exported, dataset):
    out, done = exported
    info = json.loads((out / "meta/info.json").read_text())
    assert (done.episodes, done.frames, done.video_files) == (3, 231, 1)
    assert info["splits"] == {"train": "0:2", "seen": "2:3"} and info["fps"] == 30 and info["total_frames"] == 231
    episodes = pq.read_table(out / "meta/episodes").to_pylist()
    assert [row["egodata/episode_id"] for row in episodes] == ["ep-b", "ep-a", "ep-c"]
    assert [(row["dataset_from_index"], row["dataset_to_index"]) for row in episodes] == [(0, 41), (41, 171), (171, 231)]
    key = f"videos/{CAMERA}"
    assert [round(row[f"{key}/from_timestamp"] * 30) for row in episodes] == [0, 41, 171]
    assert [row["egodata/content"] for row in episodes] == [e.content for head in dataset[1].heads.values() for e in head]


def test_state_and_action_hold_what_was_measured_and_masks_say_where(exported, dataset):
    out, done = exported
    store = dataset[0]
    state, valid = read_column(out, "observation.state"), read_column(out, "egodata.observation.state_valid")
    assert state.shape == (231, 21) and np.isfinite(state).all()
    reader = store.open("ep-a")
    left = reader.rows(["left.obs_ee_pose"], [(0, 130)])["left.obs_ee_pose"]
    mine = state[41:171, :7]
    assert not valid[51:61, 0].any() and valid[41:51, 0].all()
    assert np.array_equal(mine[valid[41:171, 0]], left[valid[41:171, 0]])
    assert (mine[10:20] == left[9]).all(), "the last measured row is held"
    assert np.isnan(read_column(out, "egodata.left.obs_ee_pose")[51:61]).all(), "the raw array keeps its gaps"
    assert done.held == 2 * 10 * 3 and done.unknown == {}  # state and action, ten frames, three episodes


def test_video_is_copied_packet_by_packet(exported, dataset):
    out, _ = exported
    store = dataset[0]
    path = out / f"videos/{CAMERA}/chunk-000/file-000.mp4"
    got = np.stack(list(decode_video(path)))
    expected = np.concatenate([store.open(name).frames("front_1", range(LENGTHS[name])) for name in ("ep-b", "ep-a", "ep-c")])
    assert np.array_equal(got, expected)
    data, index = path.read_bytes(), index_chunk(path.read_bytes())
    packets = {data[o : o + s] for o, s in zip(index.offsets, index.sizes, strict=True)}
    element = store.open("ep-c").video_chunk("front_1", 1)
    inner = index_chunk(element)
    assert {element[o : o + s] for o, s in zip(inner.offsets, inner.sizes, strict=True)} <= packets


def test_tasks_come_from_one_named_place(exported):
    out, done = exported
    tasks = pq.read_table(out / "meta/tasks.parquet").to_pydict()
    number = dict(zip(tasks["task"], tasks["task_index"], strict=True))
    index = read_column(out, "task_index")
    assert set(number) == {"", "grasp", "lift"}
    assert (index[41 + 5 : 41 + 20] == number["grasp"]).all() and (index[41 + 20 : 41 + 30] == number["lift"]).all()
    assert done.untold == 231 - 25 and (index[:41] == number[""]).all()


def test_statistics_are_those_of_the_rows(exported):
    out, _ = exported
    stats = json.loads((out / "meta/stats.json").read_text())
    action = read_column(out, "action").astype(np.float64)
    assert np.allclose(stats["action"]["mean"], action.mean(0)) and np.allclose(stats["action"]["q99"], np.quantile(action, 0.99, axis=0))
    assert stats["action"]["count"] == [231] and np.shape(stats[CAMERA]["mean"]) == (3, 1, 1)


def test_lance_storage_has_the_same_rows_and_bytes(dataset, exported, tmp_path):
    out, _ = exported
    store, manifest, _, _ = dataset
    export_lerobot(manifest, store, out=tmp_path / "lance", options=ExportOptions(storage="lance", task=SUBTASK))
    frames = lance.dataset(str(tmp_path / "lance/frames.lance")).to_table()
    assert json.loads((tmp_path / "lance/meta/info.json").read_text())["storage_format"] == "lance"
    assert frames.column("index").to_pylist() == list(range(231))
    assert np.array_equal(np.array(frames.column("observation_state").to_pylist(), np.float32), read_column(out, "observation.state"))
    videos = lance.dataset(str(tmp_path / "lance/videos.lance"))
    row = videos.to_table(columns=["video_key", "file_size", "moov_offset", "moov_size", "kf_indices", "kf_positions"]).to_pylist()[0]
    (blob,) = videos.take_blobs("video_bytes", indices=[0])
    data = blob.read()
    assert data == (out / f"videos/{CAMERA}/chunk-000/file-000.mp4").read_bytes() and len(data) == row["file_size"]
    assert data[row["moov_offset"] + 4 : row["moov_offset"] + 8] == b"moov" and row["video_key"] == CAMERA
    assert row["kf_indices"][0] == 0 and {0, 40, 41, 41 + 40, 171} <= set(row["kf_indices"])
    assert not (tmp_path / "lance/data").exists() and not (tmp_path / "lance/videos").exists()


def test_an_interrupted_export_leaves_nothing(dataset, tmp_path):
    store, manifest, _, _ = dataset
    gone = replace(manifest.heads["seen"][0], content="f" * 64)
    with pytest.raises(EpisodeNotFoundError):
        export_lerobot(replace(manifest, heads={**manifest.heads, "seen": (gone,)}), store, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_overwritten(dataset, exported):
    with pytest.raises(InputError, match="is there already"):
        export_lerobot(dataset[1], dataset[0], out=exported[0])


def test_other_frame_rates_are_refused_by_name(dataset, tmp_path):
    folder = tmp_path
    paths = open_root(folder / "store", create=True)
    for name, fps in (("ep-a", Fraction(30)), ("ep-b", Fraction(25))):
        draft = small_draft(folder, frames=30, episode_id=name)
        publish_draft(paths, replace(draft, meta=replace(draft.meta, fps=fps)), settings=SETTINGS)
    with pytest.raises(InputError, match="episode ep-b: fps is 25, the first episode has 30"):
        export_lerobot(manifest_of(paths, {"train": ["ep-a", "ep-b"]}), open_store(paths, "zarr"), out=tmp_path / "out")


def test_a_part_never_measured_is_zero_and_named():
    spec = FeatureSpec("float32", (2,))
    vector = Vector("action", (("left.x", spec), ("right.x", spec)))
    arrays = {"left.x": np.full((4, 2), np.nan), "right.x": np.array([[np.nan] * 2, [1, 2], [np.nan] * 2, [3, 4]])}
    filled = fill_vector(vector, arrays)
    assert filled.unknown == ("left.x",) and filled.held == 2
    assert filled.rows.tolist() == [[0, 0, 1, 2], [0, 0, 1, 2], [0, 0, 1, 2], [0, 0, 3, 4]]


def test_elements_of_two_encoder_settings_are_not_put_in_one_file(dataset, tmp_path):
    reader = dataset[0].open("ep-c")
    first = reader.video_chunk("front_1", 0)
    other_paths = open_root(tmp_path / "other", create=True)
    other = EncodeSettings(frames_per_chunk=40, gop=5, bframes=0, profile="other", crf=30)
    publish_draft(other_paths, small_draft(tmp_path, frames=40, size=(96, 64), episode_id="o"), settings=other)
    second = open_store(other_paths, "zarr").open("o").video_chunk("front_1", 0)
    with pytest.raises(VideoError, match="2 encoder parameter sets"):
        elements_signature([first, second], where="episode x")
    with JoinedVideo(tmp_path / "j.mp4", fps=Fraction(30), signature=elements_signature([first], where="x")) as joined:
        joined.append(first)
        with pytest.raises(VideoError, match="another encoder setting at frame 40"):
            joined.append(second)
