"""egodata reproduces the golden set, which a program that does not import it made (tests/golden/format/make_golden.py)."""

import json
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egodata.annotations import Span, decode_span, encode_span
from egodata.calibration import calibration_from_attributes
from egodata.catalog import freeze, load_dataset
from egodata.catalog.rules import DatasetRule, checked_rule
from egodata.episode import meta_from_attributes, semantic_attributes
from egodata.formats import open_store
from egodata.geometry.hand import hand_poses
from egodata.schema.digests import EpisodeDigests, array_digest, calibration_digest, combined_digest, elements_digest, meta_digest
from egodata.schema.layout import StorePaths, open_root

FOLDER = Path(__file__).parent / "format"
EPISODE = "golden-0001"
FLOATS = ("obs_head_pose", "left.obs_keypoints", "left.obs_wrist_pose", "left.obs_ee_pose")


@pytest.fixture(scope="module")
def made() -> dict:
    """The script's own functions."""
    return runpy.run_path(str(FOLDER / "make_golden.py"), run_name="golden")


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((FOLDER / "digests.json").read_text())


@pytest.fixture(scope="module")
def attributes() -> dict:
    return json.loads((FOLDER / "attributes.json").read_text())


@pytest.fixture(scope="module")
def arrays(made) -> dict[str, np.ndarray]:
    return made["rows"]()[0]


@pytest.fixture
def store(tmp_path) -> StorePaths:
    """A copy of the golden store, so that a test may add to it."""
    shutil.copytree(FOLDER / "store", tmp_path / "store", symlinks=True)
    return open_root(tmp_path / "store")


def _frames(made, camera: str) -> list[bytes]:
    return made["elements"](camera, anew=False)


def test_the_script_still_makes_the_committed_set(tmp_path, made, monkeypatch):
    monkeypatch.setattr("sys.argv", ["make_golden.py", str(tmp_path)])
    runpy.run_path(str(FOLDER / "make_golden.py"), run_name="__main__")
    for name in (
        "digests.json",
        "attributes.json",
        "lance_rows.json",
        "statistics.json",
        "store/datasets/golden/v1/manifest.json",
        "store/store.json",
    ):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_array_digests(golden, arrays):
    assert {key: array_digest(key, array) for key, array in arrays.items()} == {
        key: digest for key, digest in golden["media"].items() if key in arrays
    }


def test_array_digests_do_not_depend_on_how_values_are_encoded(golden, arrays):
    for key in FLOATS:
        values = arrays[key].copy()
        values.view(np.uint32)[np.isnan(values)] = 0xFFC12345  # another NaN
        values[values == 0] = -0.0
        strided = np.asfortranarray(values).astype(">f4")
        assert array_digest(key, strided) == golden["media"][key]


def test_element_and_part_digests(golden, made):
    spans = made["spans"]()
    videos = {f"images.{camera}": _frames(made, camera) for camera in made["CAMERAS"]}
    found = {key: elements_digest(key, items, count=len(items)) for key, items in {**videos, **spans}.items()}
    assert {key: found[key] for key in spans} == golden["annotations"]
    assert {key: found[key] for key in videos} == {key: golden["media"][key] for key in videos}
    assert combined_digest(golden["media"]) == golden["digests"]["media"]
    assert combined_digest(golden["annotations"]) == golden["digests"]["annotations"]


def test_attribute_digests_and_content(golden, attributes):
    assert meta_digest(attributes) == golden["digests"]["meta"]
    assert calibration_digest(attributes) == golden["digests"]["calibration"]
    digests = EpisodeDigests(**{key: value for key, value in golden["digests"].items() if key != "content"})
    assert digests.to_json() == golden["digests"]


def test_identity_is_not_part_of_the_meta_digest(golden, attributes):
    renamed = {**attributes, "episode_id": "x", "recording_id": "y", "delivery": "z", "processing": {}, "provenance": {}}
    assert meta_digest(renamed) == golden["digests"]["meta"]
    assert meta_digest({**attributes, "operator": "someone else"}) != golden["digests"]["meta"]


def test_attributes_survive_the_episode_model(attributes):
    meta, calibration = meta_from_attributes(attributes), calibration_from_attributes(attributes)
    assert semantic_attributes(meta, calibration) == attributes
    assert meta.cameras == ("front_1", "left_wrist")
    assert "images.left_wrist_valid" in meta.numeric_keys
    assert semantic_attributes(replace(meta, operator=None), None)["operator"] is None


def test_span_elements(made):
    for items in made["spans"]().values():
        assert [encode_span(decode_span(item)) for item in items] == items


def test_hand_poses_follow_from_the_keypoints(arrays):
    for side in ("left", "right"):
        points = arrays[f"{side}.obs_keypoints"].reshape(-1, 21, 3)
        wrist, effector, valid = hand_poses(points)
        np.testing.assert_array_equal(valid, arrays[f"{side}.obs_wrist_pose_valid"])
        np.testing.assert_allclose(wrist, arrays[f"{side}.obs_wrist_pose"], atol=1e-6)
        np.testing.assert_allclose(effector, arrays[f"{side}.obs_ee_pose"], atol=1e-6)


def _check_reader(reader, golden, attributes, arrays, made):
    assert reader.digests.to_json() == golden["digests"]
    assert semantic_attributes(reader.meta, reader.calibration) == attributes
    keys = sorted(arrays)
    assert list(reader.meta.numeric_keys) == keys
    for bounds in ((0, 7), (2, 5), (6, 7), (3, 3)):
        found = reader.rows(keys, [bounds] * len(keys))
        for key in keys:
            expected = arrays[key][slice(*bounds)]
            assert found[key].dtype == expected.dtype and found[key].shape == expected.shape, key
            np.testing.assert_array_equal(found[key], expected, err_msg=key)
    assert {key: array_digest(key, found) for key, found in reader.rows(keys, [(0, 7)] * len(keys)).items()} == {
        key: golden["media"][key] for key in keys
    }
    assert reader.annotation_keys == ("annotations", "annotations_subtask", "annotations_task")
    assert reader.structure_keys == ("fold_segments",)
    assert reader.spans("fold_segments") == (Span("", 0, 4), Span("second fold", 4, 7))
    assert reader.spans("annotations") == ()
    assert reader.spans("annotations_other") is None
    assert reader.spans("annotations_subtask")[1] == Span("grasp “it” – مكعب 🧊", 2, 6)
    for camera, size in made["CAMERAS"].items():
        assert [reader.video_chunk(camera, index) for index in range(2)] == _frames(made, camera)
        info = reader.video_info(camera)
        assert (info.width, info.height, info.frames, info.frames_per_chunk, info.chunks) == (*size, 7, 4, 2)
        shown = reader.frames(camera, [6, 0, 3, 4, 3])
        assert shown.shape == (5, size[1], size[0], 3)
        for image, frame in zip(shown, (6, 0, 3, 4, 3), strict=True):
            difference = np.abs(image.astype(int) - made["picture"](camera, frame).astype(int))
            assert difference.mean() < 6, f"{camera} frame {frame}: wrong picture, mean difference {difference.mean():.1f}"
    reader.close()


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_zarr_writer_makes_the_same_files(tmp_path, made, arrays):
    from egodata.formats.zarr.write import create_group, write_elements, write_numeric

    group = create_group(tmp_path / "episode.zarr")
    for key, array in arrays.items():
        write_numeric(group, key, array=array)
    videos = {f"images.{camera}": _frames(made, camera) for camera in made["CAMERAS"]}
    for key, items in {**videos, **made["spans"]()}.items():
        write_elements(group, key, elements=items, count=len(items))
    expected = FOLDER / "store" / "zarr" / f"{EPISODE}.zarr"
    names = _files(expected.resolve())
    assert _files(tmp_path / "episode.zarr") == names
    for name in names:
        mine, theirs = (tmp_path / "episode.zarr" / name).read_bytes(), (expected / name).read_bytes()
        if name == "zarr.json":
            continue  # the group's own, with attributes
        if name.endswith("zarr.json"):
            mine, theirs = json.loads(mine), json.loads(theirs)
        assert mine == theirs, name


def test_zarr_reader(store, golden, attributes, arrays, made):
    episodes = open_store(store, "zarr")
    assert episodes.episode_ids() == [EPISODE]
    _check_reader(episodes.open(EPISODE), golden, attributes, arrays, made)
    episodes.open(EPISODE, content=golden["digests"]["content"]).close()


def test_zarr_verify_finds_nothing_wrong(store):
    from egodata.formats.zarr import verify_episode

    assert verify_episode(store, EPISODE) == []


def test_lance_copy_reads_the_same(store, golden, attributes, arrays, made):
    from egodata.formats.lance import build_lance

    build_lance(store)
    episodes = open_store(store, "lance")
    assert episodes.episode_ids() == [EPISODE]
    _check_reader(episodes.open(EPISODE), golden, attributes, arrays, made)


def test_lance_rows(store):
    import lance

    from egodata.formats.lance import build_lance

    build_lance(store)
    expected = json.loads((FOLDER / "lance_rows.json").read_text())
    tables = {name: lance.dataset(store.lance / f"{name}.lance") for name in expected}
    assert tables["episodes"].to_table().to_pylist() == expected["episodes"]
    columns = [name for name in tables["videos"].schema.names if name != "video"]
    assert tables["videos"].to_table(columns=columns).to_pylist() == expected["videos"]
    assert tables["annotations"].to_table().to_pylist() == expected["annotations"]
    frames = tables["frames"].to_table()
    assert sorted(frames.schema.names) == sorted(expected["frames"])
    for name, wanted in expected["frames"].items():
        found = [_plain(value) for value in frames[name].to_pylist()]
        assert found == ([int(value) for value in wanted] if isinstance(wanted[0], str) and name != "episode_id" else wanted), name


def _plain(value):
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def test_manifest(store, golden):
    manifest = load_dataset(store, "golden@v1")
    assert manifest.digest == golden["dataset"]
    (episode,) = manifest.head("train")
    assert (episode.episode_id, episode.frames, episode.content) == (EPISODE, 7, golden["digests"]["content"])
    assert (episode.operator, episode.session, episode.recording) == ("golden/op-a", None, "golden-recording")
    assert manifest.pins == {"train": (EPISODE,)}


@pytest.mark.parametrize("format", ["zarr", "lance"])
def test_freezing_the_same_rule_gives_the_same_dataset(store, golden, format):
    if format == "lance":
        from egodata.formats.lance import build_lance

        build_lance(store)
    rule = DatasetRule(name="golden", heads=("train",), where={"vendor": "golden"}, valid_ratio=0.0, pins={"train": (EPISODE,)})
    frozen = freeze(store, checked_rule(rule), format=format)
    assert not frozen.created
    assert frozen.manifest.digest == golden["dataset"]


def test_statistics_file(store, golden, made):
    from egodata.config import typed
    from egodata.sampling import Recipe, load_recipe
    from egodata.stats import stats_key
    from egodata.stats.fields import summarise
    from egodata.stats.norm import NormStats

    data = (FOLDER / "statistics.json").read_bytes()
    stats = NormStats.from_json(json.loads(data))
    assert stats.to_bytes() == data
    recipe = load_recipe("human_wrist6d")
    assert typed(Recipe, recipe.to_json(), where="recipe").numbers_digest == stats.recipe_digest
    assert stats_key(load_dataset(store, "golden@v1"), recipe) == stats.key
    for name, rows in made["TABLE"].items():
        values = np.array(rows, np.float32)
        for field, found in summarise(np.ascontiguousarray(values.reshape(len(values), -1).T)).items():
            np.testing.assert_array_equal(found.reshape(values.shape[1:]), stats.features[name].fields[field], err_msg=field)


def test_normalisers_of_the_statistics_file():
    from egodata.stats.norm import NormStats

    stats = NormStats.from_json(json.loads((FOLDER / "statistics.json").read_bytes()))
    action = stats.normalisers("minmax")["action"]
    values = np.array([[0.0, 0.25, 1.0], [3.0, 0.5, -0.5]], np.float32)
    forward = action.forward(values, np.ones_like(values, bool))
    # x: range 4 at step 0 and 5 at step 1; y has no scale; c1x is a rotation and stays
    np.testing.assert_allclose(forward, [[-1.0, 0.0, 1.0], [1.0, 0.0, -0.5]], atol=1e-5)
    back = action.inverse(forward)
    np.testing.assert_allclose(back[:, [0, 2]], values[:, [0, 2]], rtol=1e-6)
    np.testing.assert_allclose(back[:, 1], [0.25, 0.25001526], atol=1e-7)
    assert [str(channel) for channel in stats.flat_channels("minmax")] == ["action y steps 0-1", "proprio y"]
