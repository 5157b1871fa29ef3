"""Every format's reader keeps the promises of `EpisodeReader`, on episodes around the element and chunk boundaries."""

import numpy as np
import pytest

from egodata.annotations import SUBTASK, TASK, Span
from egodata.formats import open_store
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing import reader_contract as contract
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings, decode_video

FPC = 20
SETTINGS = EncodeSettings(frames_per_chunk=FPC, gop=9, bframes=3)
LENGTHS = (1, FPC - 1, FPC, FPC + 1, 2 * FPC, 130)
TEXTS = {TASK: [Span("räum die 🧊 auf | שלום", 0, 1)], SUBTASK: []}


def _zarr(paths):
    return open_store(paths, "zarr")


def _lance(paths):
    from egodata.formats.lance import build_lance

    build_lance(paths)
    return open_store(paths, "lance")


FORMATS = {"zarr": _zarr, "lance": _lance}


@pytest.fixture(scope="module")
def drafts(tmp_path_factory):
    """One episode per length, published as zarr."""
    folder = tmp_path_factory.mktemp("contract")
    paths = open_root(folder / "store", create=True)
    made = {}
    for length in LENGTHS:
        made[length] = small_draft(folder, frames=length, seed=length, episode_id=f"ep{length:03}", annotations=TEXTS)
        publish_draft(paths, made[length], settings=SETTINGS)
    return paths, made


@pytest.fixture(scope="module", params=FORMATS)
def store(request, drafts):
    return FORMATS[request.param](drafts[0])


@pytest.fixture(params=LENGTHS)
def case(request, drafts, store):
    draft = drafts[1][request.param]
    reader = store.open(draft.meta.episode_id)
    yield reader, draft
    reader.close()


def _sequential(reader, folder):
    frames = []
    for number in range(reader.video_info("front_1").chunks):
        path = folder / f"{number}.mp4"
        path.write_bytes(reader.video_chunk("front_1", number))
        frames += list(decode_video(path))
    return np.stack(frames)


def test_ids_are_sorted(store):
    assert store.episode_ids() == [f"ep{length:03}" for length in sorted(LENGTHS)]


def test_meta(case):
    contract.check_meta(*case)


def test_rows(case):
    contract.check_rows(*case)


def test_frames(case, tmp_path):
    contract.check_frames(case[0], "front_1", reference=_sequential(case[0], tmp_path))


def test_annotations(case):
    contract.check_annotations(*case)


def test_refusals(case):
    contract.check_refusals(case[0])


def test_pickling(case):
    contract.check_pickling(case[0], camera="front_1")


@pytest.mark.parametrize("case", [FPC + 1], indirect=True)
def test_a_handle_inherited_by_fork_is_refused(case):
    contract.check_inherited(case[0], camera="front_1")


@pytest.mark.parametrize("case", [1, 130], indirect=True)
def test_closed(case):
    contract.check_closed(case[0], camera="front_1")
