"""A small reader that knows only docs/format.md: plain zarr and PyAV, whole elements decoded. It agrees with ours."""

import io
import json
import warnings

import av
import numpy as np
import pytest
import zarr

from egodata.annotations import SUBTASK, TASK, Span
from egodata.episode import read_all_numeric
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import COMPACT, SWIFT, EncodeSettings

VARIANTS = {
    "compact": COMPACT,
    "swift": SWIFT,
    "no B-frames": EncodeSettings(bframes=0, tune="", gop=30),
    "short": EncodeSettings(frames_per_chunk=50, gop=12, bframes=3),
}
TEXTS = {TASK: [Span("räum die 🧊 auf", 0, 130)], SUBTASK: []}


class PlainReader:
    """zarr's array API and av's container API, nothing of egodata."""

    def __init__(self, folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.group = zarr.open_group(str(folder), mode="r")
            self.attributes = dict(self.group.attrs)
            self.arrays = dict(self.group.arrays())
        self.total = self.attributes["total_frames"]

    def numbers(self):
        cameras = {key for key, spec in self.attributes["features"].items() if "video" in spec}
        return {key: self.arrays[key][: self.total] for key in self.attributes["features"] if key not in cameras}

    def frame(self, camera, index):
        per_element = self.attributes["features"][camera]["video"]["frames_per_chunk"]
        return self.element(camera, index // per_element)[index % per_element]

    def element(self, camera, number):
        data = self.arrays[camera][number : number + 1][0]
        with av.open(io.BytesIO(bytes(data))) as container:
            return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]

    def spans(self, key):
        array = self.arrays[key]
        return [json.loads(bytes(array[i : i + 1][0])) for i in range(array.shape[0])]


@pytest.fixture(scope="module", params=VARIANTS)
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("independent")
    paths = open_root(folder / "store", create=True)
    draft = small_draft(folder, frames=130, annotations=TEXTS)
    publish_draft(paths, draft, settings=VARIANTS[request.param])
    reader = ZarrStore(paths).open(draft.meta.episode_id)
    yield reader, PlainReader(paths.episode_link(draft.meta.episode_id))
    reader.close()


def test_numbers_and_attributes(both):
    ours, plain = both
    numbers = plain.numbers()
    assert set(numbers) == set(ours.meta.numeric_keys)
    for key, array in read_all_numeric(ours).items():
        np.testing.assert_array_equal(numbers[key], array)
    assert plain.attributes == ours.attributes
    assert plain.attributes["intrinsics"]["front_1"] == [list(row) for row in ours.calibration.cameras["front_1"].k]


def test_frames(both):
    """Bit-equal: one codec context per request here, one container there."""
    ours, plain = both
    camera = "images.front_1"
    whole = [frame for number in range(ours.video_info("front_1").chunks) for frame in plain.element(camera, number)]
    assert len(whole) == 130
    assert (ours.frames("front_1", range(130)) == np.stack(whole)).all()
    for index in np.random.default_rng(3).permutation(130)[:10]:
        assert (plain.frame(camera, int(index)) == ours.frames("front_1", [int(index)])[0]).all()


def test_texts(both):
    ours, plain = both
    assert sorted(key for key in plain.arrays if key.startswith("annotations")) == list(ours.annotation_keys)
    for key in ours.annotation_keys:
        assert [(s["text"], s["start_idx"], s["end_idx"]) for s in plain.spans(key)] == [(s.text, s.start, s.end) for s in ours.spans(key)]
