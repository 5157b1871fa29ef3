"""A source that has read real files goes to spawned workers, on both formats."""

import hashlib

import pytest

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.formats.lance import build_lance, table_versions
from egodata.formats.zarr import publish_draft
from egodata.sampling import HeadSource, load_recipe
from egodata.schema.layout import StorePaths
from egodata.testing.drafts import small_draft
from egodata.torch import make_loader
from egodata.video import SWIFT


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    paths = StorePaths(folder / "store")
    heads = []
    for seed, frames in enumerate((45, 130)):
        draft = small_draft(folder, frames=frames, seed=seed, episode_id=f"ep{seed}")
        heads.append(HeadEpisode(f"ep{seed}", frames, publish_draft(paths, draft, settings=SWIFT).content))
    build_lance(paths)
    return paths, Manifest("small", "1", "0" * 64, {"train": tuple(heads)}, {}, {"lance_versions": table_versions(paths)})


def digests(source, workers):
    out = []
    for batch in make_loader(source, batch_size=16, num_workers=workers):
        parts = [tensor.numpy().tobytes() for tensor in (batch["images"]["front_1"], batch["action"], batch["proprio"])]
        out.append(hashlib.sha256(b"".join([*parts, *(prompt.encode() for prompt in batch["prompt"])])).hexdigest())
    return out


@pytest.mark.parametrize("format", ["zarr", "lance"])
def test_a_source_that_has_read_goes_to_spawned_workers(store, format):
    paths, manifest = store
    source = HeadSource.open(paths, manifest, head="train", recipe=load_recipe("human_wrist6d"), format=format, seed=7)
    source.sample(0)
    alone = digests(source, 0)
    assert len(set(alone)) == 10
    assert digests(source, 1) == alone
