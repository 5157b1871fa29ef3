"""Reading the copy: pinned versions, contents, windows, processes, damage."""

import multiprocessing
import os
import pickle
import shutil

import numpy as np
import pytest

from egodata.annotations import SUBTASK, Span
from egodata.errors import (
    ConflictError,
    CorruptEpisodeError,
    EpisodeNotFoundError,
    FeatureNotFoundError,
    HandleError,
    NotFoundError,
    WindowError,
)
from egodata.formats.lance import LanceStore, build_lance, dataset_tag, table_versions, tag_dataset, tagged_versions
from egodata.formats.lance.tables import open_table

DIGEST = "0123456789abcdef" * 4


@pytest.fixture
def built(paths, source):
    source.put("a", seed=1, frames=120)
    source.put("b", seed=2, frames=60)
    build_lance(paths, source=source)
    return source


def test_windows_and_frames_equal_the_source(paths, built):
    reader, episode = LanceStore(paths).open("b"), built.episodes["b"]
    found = reader.rows(["left.obs_ee_pose", "obs_rgb_timestamps_ns", "right.obs_keypoints"], [(57, 60), (0, 1), (5, 5)])
    np.testing.assert_array_equal(found["left.obs_ee_pose"], episode.arrays["left.obs_ee_pose"][57:])
    np.testing.assert_array_equal(found["obs_rgb_timestamps_ns"], episode.arrays["obs_rgb_timestamps_ns"][:1])
    assert found["right.obs_keypoints"].shape == (0, 63) and found["right.obs_keypoints"].dtype == np.float32
    found["left.obs_ee_pose"][:] = 0
    indices = [59, 0, 49, 50, 50, 3]
    np.testing.assert_array_equal(reader.frames("front_1", indices), episode.frames("front_1", indices))
    assert reader.video_info("front_1").to_json() == episode.info.to_json()


def test_refusals_name_the_episode_and_the_thing(paths, built):
    reader = LanceStore(paths).open("a")
    with pytest.raises(FeatureNotFoundError, match=r"episode a \(lance\): no feature obs_hed_pose; did you mean obs_head_pose"):
        reader.rows(["obs_hed_pose"], [(0, 1)])
    with pytest.raises(FeatureNotFoundError, match="no feature images"):
        reader.rows(["images.front_1"], [(0, 1)])
    with pytest.raises(WindowError, match=r"obs_head_pose: rows \[100, 121\) are outside \[0, 120\]"):
        reader.rows(["obs_head_pose"], [(100, 121)])
    with pytest.raises(FeatureNotFoundError, match="no camera left"):
        reader.frames("left", [0])
    with pytest.raises(WindowError):
        reader.frames("front_1", [120])
    with pytest.raises(WindowError, match=r"element 3 is outside \[0, 3\)"):
        reader.video_chunk("front_1", 3)
    with pytest.raises(EpisodeNotFoundError, match="no episode zz"):
        LanceStore(paths).open("zz")


def test_a_store_without_a_copy_says_how_to_make_one(paths):
    with pytest.raises(NotFoundError, match="egodata lance build"):
        LanceStore(paths)


def test_a_closed_reader_refuses(paths, built):
    reader = LanceStore(paths).open("a")
    reader.frames("front_1", [0])
    reader.close()
    for call in (lambda: reader.rows(["obs_head_pose"], [(0, 1)]), lambda: reader.frames("front_1", [0]), lambda: reader.spans(SUBTASK)):
        with pytest.raises(HandleError, match="closed"):
            call()


def test_pinned_versions_do_not_move(paths, built):
    old = LanceStore(paths)
    reader, content = old.open("a"), built.episodes["a"].digests.content
    before = reader.rows(["obs_head_pose"], [(0, 120)])["obs_head_pose"]
    built.put("a", seed=8, frames=70)
    del built.episodes["b"]
    build_lance(paths, source=built)
    np.testing.assert_array_equal(reader.rows(["obs_head_pose"], [(0, 120)])["obs_head_pose"], before)
    again = LanceStore(paths, versions=old.versions)
    assert again.episode_ids() == ["a", "b"] and again.open("a").meta.total_frames == 120
    newest = LanceStore(paths)
    assert newest.open("a").meta.total_frames == 70
    assert newest.open("a", content=content).meta.total_frames == 120


def test_a_content_is_found_in_any_live_version(paths, built):
    content = built.episodes["a"].digests.content
    built.put("a", seed=8, frames=70)
    versions = build_lance(paths, source=built).versions
    assert LanceStore(paths, versions=versions).open("a", content=content).meta.total_frames == 120
    with pytest.raises(EpisodeNotFoundError, match=r"episode a: expected content f{12}, got content .* no other live"):
        LanceStore(paths, versions=versions).open("a", content="f" * 64)
    with pytest.raises(EpisodeNotFoundError, match="got no such episode"):
        LanceStore(paths).open("zz", content=content)


def test_a_copy_that_was_made_anew_serves_old_pins_by_content(paths, built):
    versions = {table: version + 10 for table, version in table_versions(paths).items()}
    content = built.episodes["a"].digests.content
    store = LanceStore(paths, versions=versions)
    assert store.open("a", content=content).digests.content == content
    with pytest.raises(NotFoundError, match="no version"):
        store.open("a")


def test_incomplete_or_absent_versions_are_refused(paths, built):
    with pytest.raises(ConflictError, match="lack videos, frames, annotations"):
        LanceStore(paths, versions={"episodes": 2}).episode_ids()
    with pytest.raises(NotFoundError, match="no version 99"):
        LanceStore(paths, versions={**table_versions(paths), "frames": 99}).episode_ids()


def test_pickled_readers_open_again(paths, built):
    reader = LanceStore(paths).open("a")
    wanted = reader.rows(["obs_head_pose"], [(3, 9)])["obs_head_pose"], reader.frames("front_1", [5])
    copy = pickle.loads(pickle.dumps(reader))
    np.testing.assert_array_equal(copy.rows(["obs_head_pose"], [(3, 9)])["obs_head_pose"], wanted[0])
    np.testing.assert_array_equal(copy.frames("front_1", [5]), wanted[1])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(reader.frames, ("front_1", [5])), wanted[1])


@pytest.mark.parametrize("how", ["inherited", "opened"])
@pytest.mark.filterwarnings("ignore")
def test_a_fork_is_refused_and_does_not_hang(paths, built, how):
    reader = LanceStore(paths).open("a")
    reader.rows(["obs_head_pose"], [(0, 1)])
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            target = reader if how == "inherited" else LanceStore(paths).open("a")
            target.rows(["obs_head_pose"], [(0, 1)])
            os.write(into, b"read")
        except HandleError as error:
            os.write(into, str(error).encode())
        finally:
            os._exit(0)
    os.close(into)
    os.waitpid(child, 0)
    assert b"spawn or forkserver" in os.read(out, 4000)
    os.close(out)


@pytest.mark.parametrize("table", ["frames", "videos", "annotations"])
def test_a_table_that_is_gone_says_what_helps(paths, built, source, table):
    shutil.rmtree(paths.lance / f"{table}.lance")
    for call in (lambda: LanceStore(paths).open("a"), lambda: build_lance(paths, source=source)):
        with pytest.raises(CorruptEpisodeError, match=rf"Lance table {table} is gone, others are there. Remove lance_v2 and run"):
            call()


def test_a_table_whose_versions_are_cut_off_says_what_helps(paths, built, source):
    for manifest in (paths.lance / "episodes.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(manifest.read_bytes()[:10])
    for call in (lambda: LanceStore(paths).open("a"), lambda: build_lance(paths, source=source)):
        with pytest.raises(CorruptEpisodeError, match="Lance table episodes cannot be opened .*Remove lance_v2 and run"):
            call()


@pytest.mark.parametrize(("table", "call"), [("frames", "rows"), ("videos", "frames")])
def test_lost_data_is_an_error_never_zeros(paths, built, table, call):
    shutil.rmtree(paths.lance / f"{table}.lance" / "data")
    reader = LanceStore(paths).open("a")
    with pytest.raises(CorruptEpisodeError, match=rf"Lance table .*{table}\.lance version"):
        reader.rows(["obs_head_pose"], [(0, 9)]) if call == "rows" else reader.frames("front_1", [0])


def test_tags_name_all_four_tables_and_stay(paths, built):
    versions = table_versions(paths)
    assert tagged_versions(paths, DIGEST) is None
    assert tag_dataset(paths, DIGEST, versions=versions) == versions
    built.episodes["a"].annotations = {SUBTASK: [Span("x", 0, 2)]}
    later = build_lance(paths, source=built).versions
    assert tag_dataset(paths, DIGEST, versions=later) == versions == tagged_versions(paths, DIGEST)
    for table, version in versions.items():
        assert open_table(paths, table, version=dataset_tag(DIGEST)).version == version
    with pytest.raises(ConflictError, match=f"names .* got .*'annotations': {versions['annotations']}"):
        tag_dataset(paths, "f" * 64, versions={**later, "annotations": versions["annotations"]})


def test_a_tagging_that_was_cut_short_is_completed(paths, built):
    versions = table_versions(paths)
    tag_dataset(paths, DIGEST, versions=versions)
    open_table(paths, "videos").tags.delete(dataset_tag(DIGEST))
    assert tag_dataset(paths, DIGEST, versions=versions) == versions
    assert open_table(paths, "videos", version=dataset_tag(DIGEST)).version == versions["videos"]
