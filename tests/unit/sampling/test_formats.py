"""Real episodes in both formats: the same samples, whichever is read."""

import multiprocessing

import numpy as np
import pytest

from egodata.annotations import SUBTASK
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.errors import EpisodeNotFoundError, SampleError
from egodata.formats.lance import build_lance, table_versions
from egodata.formats.zarr import ZarrStore, attach_annotations, publish_draft
from egodata.sampling import HeadSource, load_recipe, sample_digest, stream_digests
from egodata.schema.layout import StorePaths
from egodata.testing.drafts import small_draft
from egodata.video import SWIFT

RECIPE = load_recipe("human_wrist6d")


def freeze_all(paths):
    store = ZarrStore(paths)
    heads = []
    for episode_id in store.episode_ids():
        reader = store.open(episode_id)
        heads.append(HeadEpisode(episode_id, reader.meta.total_frames, reader.digests.content))
    return Manifest("small", "1", "0" * 64, {"train": tuple(heads)}, {}, {"lance_versions": table_versions(paths)})


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    paths = StorePaths(folder / "store")
    for seed, frames in enumerate((45, 1, 130)):
        annotations = None if seed < 2 else {SUBTASK: []}
        publish_draft(paths, small_draft(folder, frames=frames, seed=seed, episode_id=f"ep{seed}", annotations=annotations), settings=SWIFT)
    build_lance(paths)
    return paths, freeze_all(paths)


def open_source(store, format):
    paths, manifest = store
    return HeadSource.open(paths, manifest, head="train", recipe=RECIPE, format=format, seed=7)


def test_both_formats_give_the_same_samples(store):
    sources = {format: open_source(store, format) for format in ("zarr", "lance")}
    assert len(sources["zarr"]) == len(sources["lance"]) == 176
    picked = sources["zarr"].evaluation_indices(per_episode=12)
    assert len(picked) == 25
    streams = [list(stream_digests(source.samples(picked, epoch=3))) for source in sources.values()]
    assert streams[0] == streams[1]
    for source in sources.values():
        source.close()


def test_one_by_one_gives_what_a_batch_gives(store):
    source = open_source(store, "zarr")
    picked = [175, 0, 45, 20, 44, 46, 20]
    assert [sample_digest(source.sample(i, epoch=1)) for i in picked] == [sample_digest(s) for s in source.samples(picked, epoch=1)]


def test_images_are_the_frames_of_the_sample(store):
    source = open_source(store, "zarr")
    reader = ZarrStore(store[0]).open("ep2")
    frames = [0, 19, 129]
    for sample, expected in zip(source.samples([46 + f for f in frames]), reader.frames("front_1", frames), strict=True):
        np.testing.assert_array_equal(sample.images["front_1"][0], expected)


def test_the_left_hand_missing_in_frames_10_to_19_stays_out(store):
    source = open_source(store, "lance")
    sample = source.sample(46 + 15)
    assert not sample.action_mask[:, :9].any()
    assert sample.action_mask[:, 9:].all()
    assert sample.arm_valid.tolist() == [[True, True], [False, True], [False, True]]


def test_a_dataset_keeps_reading_what_it_recorded(store, tmp_path):
    paths = StorePaths(tmp_path / "store")
    publish_draft(paths, small_draft(tmp_path, frames=20, episode_id="ep0"), settings=SWIFT)
    build_lance(paths)
    manifest = freeze_all(paths)
    reader = ZarrStore(paths).open("ep0")
    attach_annotations(paths, "ep0", {}, expected=reader.digests.content)
    assert ZarrStore(paths).open("ep0").annotation_keys == ()
    source = HeadSource.open(paths, manifest, head="train", recipe=RECIPE, format="zarr")
    assert source.sample(0).prompt == "reach for the cube"
    lost = Manifest("x", "1", "0" * 64, {"train": (HeadEpisode("ep0", 20, "f" * 64),)}, {})
    with pytest.raises(EpisodeNotFoundError, match="episode ep0"):
        HeadSource.open(paths, lost, head="train", recipe=RECIPE, format="zarr")


def read_in_child(source, answers):
    try:
        source.sample(0)
        answers.put("read")
    except SampleError as error:
        answers.put(str(error))


def test_handles_inherited_by_fork_are_refused(store):
    source = open_source(store, "zarr")
    source.sample(0)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=read_in_child, args=(source, answers))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert "episode ep0 frame 0: " in (answer := answers.get())
    assert "spawn" in answer
