"""The stream of samples for a seed is one: whatever the format, the workers, the ranks, or where it was resumed."""

import hashlib

import numpy as np
import pytest
import torch

from egodata.catalog import freeze, load_dataset
from egodata.catalog.rules import DatasetRule
from egodata.formats.lance import build_lance
from egodata.formats.zarr import publish_draft
from egodata.sampling import BlockOrder, HeadSource, Share, load_recipe
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.torch import Loading, make_loader
from egodata.video import EncodeSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
BLOCKS = BlockOrder(run_frames=10, open_runs=3, lanes=4)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    paths = open_root(folder / "store", create=True)
    for number in range(6):
        draft = small_draft(folder, frames=50 + 7 * number, seed=number, episode_id=f"ep{number}", operator=f"op{number % 3}")
        publish_draft(paths, draft, settings=EncodeSettings(preset="ultrafast", frames_per_chunk=40))
    build_lance(paths)
    freeze(paths, DatasetRule(name="tiny", version="v1", heads=("train", "seen"), valid_ratio=0.2))
    return paths


def loader_of(paths, *, format="zarr", workers=0, batch_size=8, share=None, blocks=None):
    source = HeadSource.open(
        paths, load_dataset(paths, "tiny@v1"), head="train", recipe=load_recipe("human_wrist6d"), format=format, seed=11
    )
    loading = Loading(share=share or Share(), blocks=blocks)
    return make_loader(source, batch_size=batch_size, num_workers=workers, loading=loading)


def rows(batch):
    out = []
    for at, episode in enumerate(batch["episode_id"]):
        digest = hashlib.sha256()
        for name in sorted(batch):
            for tensor in (
                [batch[name]] if isinstance(batch[name], torch.Tensor) else batch[name].values() if isinstance(batch[name], dict) else []
            ):
                digest.update(tensor[at].numpy().tobytes())
        out.append((episode, int(batch["frame"][at]), batch["prompt"][at], digest.hexdigest()))
    return out


def stream(loader, epoch, **options):
    loader.set_epoch(epoch, **options)
    return [rows(batch) for batch in loader]


@pytest.fixture(scope="module")
def expected(paths):
    return {blocks: [stream(loader_of(paths, blocks=blocks), epoch) for epoch in (0, 1)] for blocks in (None, BLOCKS)}


@pytest.mark.parametrize("format", ["zarr", "lance"])
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("blocks", [None, BLOCKS], ids=["uniform", "blocks"])
def test_format_and_workers_change_nothing(paths, expected, format, workers, blocks):
    loader = loader_of(paths, format=format, workers=workers, blocks=blocks)
    assert [stream(loader, epoch) for epoch in (0, 1)] == expected[blocks]


@pytest.mark.parametrize("format", ["zarr", "lance"])
@pytest.mark.parametrize("blocks", [None, BLOCKS], ids=["uniform", "blocks"])
def test_resumed_at_any_step_it_goes_on(paths, expected, format, blocks):
    loader = loader_of(paths, format=format, blocks=blocks)
    whole = expected[blocks][1]
    for start in range(len(whole) + 1):
        assert stream(loader, 1, start_batch=start) == whole[start:]


def test_two_ranks_read_what_one_reads_step_by_step(paths, expected):
    parts = [stream(loader_of(paths, batch_size=4, share=Share(rank, 2)), 1) for rank in (0, 1)]
    assert [first + second for first, second in zip(*parts, strict=True)] == expected[None][1]


def test_epochs_differ_and_hold_the_same_samples(expected):
    first, second = ([row[:2] for batch in epoch for row in batch] for epoch in expected[None])
    assert first != second and len(set(first)) == len(first) == len(second)
    assert np.mean([a == b for a, b in zip(first, second, strict=True)]) < 0.1
