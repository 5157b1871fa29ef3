"""What lies on disk, read with zarr itself and by hand."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import zarr

from egodata.annotations import TASK, Span
from egodata.episode import VideoSource
from egodata.errors import SchemaError, VideoError
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.schema.features import TIMESTAMPS, mask_spec
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings
from tests.unit.formats.zarr.conftest import ID, SETTINGS


def test_zarr_reads_the_same_numbers(published, draft):
    paths, _ = published
    group = zarr.open_group(str(paths.episode_link(ID)), mode="r")
    for key, array in draft.arrays.items():
        np.testing.assert_array_equal(group[key][:], array, err_msg=key)
        assert group[key].shape == array.shape, "arrays end at total_frames"
        assert group[key].chunks == (100, *array.shape[1:])
        assert group[key].shards == (200, *array.shape[1:])
    assert np.isnan(group["left.obs_ee_pose"].fill_value)
    assert group.attrs["total_frames"] == 130
    assert group.attrs["fps"] == 30.0


def test_zarr_reads_the_same_elements(published, reader):
    paths, _ = published
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.open_group(str(paths.episode_link(ID)), mode="r")
        stored = [bytes(element) for element in group["images.front_1"][:]]
        texts = [json.loads(element) for element in group["annotations_task"][:]]
    assert stored == [reader.video_chunk("front_1", number) for number in range(3)]
    assert texts == [{"text": "move the cube", "start_idx": 0, "end_idx": 130}]
    assert group["images.front_1"].chunks == (1,)


def test_every_chunk_is_written_even_if_all_fill(paths, tmp_path):
    draft = small_draft(tmp_path, frames=250)
    arrays = {key: np.full_like(array, np.nan) if array.dtype.kind == "f" else np.zeros_like(array) for key, array in draft.arrays.items()}
    publish_draft(paths, replace(draft, arrays=arrays), settings=SETTINGS)
    folder = paths.episode_link(ID)
    for key, array in arrays.items():
        row_bytes = array[:1].nbytes
        shard = folder.joinpath(key, "c", *("0",) * array.ndim)
        assert shard.stat().st_size == 3 * (100 * row_bytes + 4) + 3 * 16 + 4, key


def test_publishing_is_quiet(paths, draft):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        publish_draft(paths, draft, settings=SETTINGS)


def test_the_episode_says_how_it_was_encoded(reader):
    info = reader.video_info("front_1")
    assert EncodeSettings(**{**info.settings, "frames_per_chunk": info.frames_per_chunk}) == SETTINGS
    block = reader.meta.features["images.front_1"].video
    assert {name: block[name] for name in ("codec", "gop", "fps", "frames_per_chunk", "total_frames", "n_chunks")} == {
        "codec": "h264",
        "gop": 12,
        "fps": 30.0,
        "frames_per_chunk": 50,
        "total_frames": 130,
        "n_chunks": 3,
    }
    assert "mbtree=1" in reader.meta.processing["encode"]["x264"]


def test_two_cameras_and_masks_under_the_images_prefix(paths, tmp_path):
    draft = small_draft(tmp_path, frames=30)
    source = draft.videos["front_1"]
    rows = np.repeat(np.arange(10), 3)
    key = "images.left_wrist_valid"
    draft = replace(
        draft,
        videos={"front_1": source, "left_wrist": VideoSource(source.path, rows, (32, 24))},
        arrays={**draft.arrays, key: np.ones(30, np.bool_)},
        meta=replace(draft.meta, features={**draft.meta.features, key: mask_spec()}),
    )
    publish_draft(paths, draft, settings=SETTINGS)
    reader = ZarrStore(paths).open(ID)
    assert reader.meta.cameras == ("front_1", "left_wrist")
    assert key in reader.meta.numeric_keys
    assert reader.frames("left_wrist", [0, 29]).shape == (2, 24, 32, 3)
    assert reader.rows([key], [(0, 30)])[key].all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda d: replace(d, arrays={k: v for k, v in d.arrays.items() if k != TIMESTAMPS}),
            f"features and arrays differ in {TIMESTAMPS}",
        ),
        (lambda d: replace(d, arrays={**d.arrays, TIMESTAMPS: d.arrays[TIMESTAMPS][:-1]}), "shape (129,), expected (130,)"),
        (lambda d: replace(d, arrays={**d.arrays, TIMESTAMPS: d.arrays[TIMESTAMPS].astype(np.float64)}), "dtype float64, expected int64"),
        (lambda d: replace(d, annotations={TASK: [Span("x", 0, 131)]}), "span [0, 131) ends after frame 130"),
        (lambda d: replace(d, annotations={"fold_segments": []}), "expected it to start with annotations"),
        (lambda d: replace(d, videos={}), "reference camera front_1 is not among the cameras (none)"),
        (lambda d: replace(d, meta=replace(d.meta, total_frames=0)), "total_frames is 0"),
    ],
)
def test_a_draft_that_breaks_the_format_is_refused_before_writing(paths, draft, change, words):
    with pytest.raises(SchemaError) as caught:
        publish_draft(paths, change(draft), settings=SETTINGS)
    assert words in str(caught.value)
    assert f"episode {ID}: " in str(caught.value)
    assert not paths.zarr.exists()


def test_a_video_that_ends_early_publishes_nothing(paths, draft):
    source = draft.videos["front_1"]
    longer = replace(draft, videos={"front_1": replace(source, rows=source.rows + 1)})
    with pytest.raises(VideoError, match="130 frames decode, the rows need 131"):
        publish_draft(paths, longer, settings=SETTINGS)
    assert ZarrStore(paths).episode_ids() == []
    assert [path.name for path in paths.episode_versions(ID).iterdir()] == [".lock"]
