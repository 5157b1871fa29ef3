"""A dataset and its statistics over a real store: the same bytes from zarr and from Lance, also after a re-delivery."""

import os
import random
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egodata.catalog import diff_manifests, freeze, load_dataset
from egodata.catalog.rules import DatasetRule, HeldOutRule, PinCount, checked_rule
from egodata.errors import ConflictError, GateError
from egodata.formats import open_store
from egodata.formats.lance import build_lance, tagged_versions
from egodata.formats.zarr import publish_draft
from egodata.reports.dataset_card import write_card
from egodata.sampling import HeadSource, load_recipe
from egodata.schema.layout import StorePaths, open_root
from egodata.stats import norm_stats, stats_report
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=50)
OPERATORS = "aaaabbcc"
RULE = checked_rule(
    DatasetRule(
        name="small",
        heads=("train", "seen", "unseen_operator"),
        where={"vendor": "mecka"},
        held_out=HeldOutRule(min_episodes=2),
        valid_ratio=0.2,
        pins={"seen": PinCount(1)},
    )
)


def forget_caches(paths: StorePaths) -> None:
    """Forget statistics and source rows, so that the copy that is named is what is read."""
    for folder in (paths.root / "norm_stats", paths.cache):
        shutil.rmtree(folder, ignore_errors=True)


def publish(paths: StorePaths, folder, number: int, *, seed: int) -> None:
    draft = small_draft(
        folder, frames=40 + number, size=(32, 24), seed=seed, episode_id=f"e{number}", operator=OPERATORS[number], annotations={}
    )
    publish_draft(paths, draft, settings=SETTINGS)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    paths = open_root(folder / "store", create=True)
    for number in range(len(OPERATORS)):
        publish(paths, folder, number, seed=number)
    build_lance(paths)
    return paths, folder


def test_one_digest_and_one_statistics_file_from_either_format(built):
    paths, _ = built
    from_zarr = freeze(paths, RULE, version="z", format="zarr").manifest
    from_lance = freeze(paths, RULE, version="l", format="lance").manifest
    assert from_zarr.digest == from_lance.digest
    assert diff_manifests(from_zarr, from_lance).lines() == []
    assert from_lance.held_out_operators == ("mecka/c",)
    assert from_zarr.lance_versions is None
    assert from_lance.lance_versions == tagged_versions(paths, from_lance.digest)
    recipe = load_recipe("human_wrist6d")
    one = norm_stats(paths, from_zarr, recipe=recipe, format="zarr")
    first = one.path.read_bytes()
    shared = norm_stats(paths, from_lance, recipe=recipe, format="lance")
    assert shared.cached and shared.path.read_bytes() == first
    forget_caches(paths)
    two = norm_stats(paths, from_lance, recipe=recipe, format="lance")
    assert not one.cached and not two.cached
    assert two.path.read_bytes() == first
    reports = [
        stats_report(paths, manifest, recipe=recipe, stats=two, format=format)
        for manifest, format in ((from_zarr, "zarr"), (from_lance, "lance"))
    ]
    assert replace(reports[0], dataset="") == replace(reports[1], dataset="")


@pytest.mark.parametrize("format", ["zarr", "lance"])
def test_statistics_equal_numpy_on_the_concatenated_rows(built, format):
    paths, _ = built
    manifest, recipe = freeze(paths, RULE, version=f"numpy-{format}", format=format).manifest, load_recipe("human_wrist6d")
    forget_caches(paths)
    fields = norm_stats(paths, manifest, recipe=recipe, format=format).features["action"].fields
    source = HeadSource.open(paths, manifest, head="train", recipe=recipe, format=format)
    parts = [windows for _, windows in source.windows()]
    rows = np.concatenate([np.where(part.action_mask, part.actions, np.nan) for part in parts]).astype(np.float64)
    source.close()
    assert len(rows) == len(source)
    assert fields["count"].tolist() == np.isfinite(rows).sum(0).tolist()
    for name, want in {
        "mean": np.nanmean(rows, 0),
        "std": np.nanstd(rows, 0),
        "min": np.nanmin(rows, 0),
        "max": np.nanmax(rows, 0),
    }.items():
        np.testing.assert_allclose(fields[name], want, rtol=1e-10, atol=1e-15, err_msg=name)
    for name, level in {"q01": 0.01, "median": 0.5, "q9999": 0.9999}.items():
        np.testing.assert_allclose(fields[name], np.nanquantile(rows, level, axis=0), rtol=1e-12, atol=1e-15, err_msg=name)


def test_a_re_delivery_never_changes_an_old_dataset(built):
    paths, folder = built
    old = freeze(paths, RULE, version="old", format="lance").manifest
    first = old.head("train")[0]
    number = int(first.episode_id[1:])
    publish(paths, folder, number, seed=50)
    build_lance(paths)
    with pytest.raises(ConflictError, match=f"1 changed: {first.episode_id}"):
        freeze(paths, RULE, version="old", format="lance")
    new = freeze(paths, RULE, version="new", format="lance").manifest
    assert diff_manifests(old, new).changed == (first.episode_id,)
    again = load_dataset(paths, "small@old")
    assert again == old
    for format in ("zarr", "lance"):
        store = open_store(paths, format, versions=again.lance_versions)
        reader = store.open(first.episode_id, content=first.content)
        assert reader.digests.content == first.content
        rows = reader.rows(["right.obs_ee_pose"], [(0, first.frames)])["right.obs_ee_pose"]
        draft = small_draft(folder, frames=40 + number, size=(32, 24), seed=number, episode_id=first.episode_id)
        np.testing.assert_array_equal(rows, draft.arrays["right.obs_ee_pose"])
        reader.close()


@pytest.mark.parametrize("format", ["zarr", "lance"])
def test_loading_finds_every_episode_or_names_the_one_that_is_gone(built, tmp_path, format):
    paths, _ = built
    frozen = freeze(paths, RULE, version=f"there-{format}", format=format).manifest
    assert load_dataset(paths, frozen.ref, format=format, sample=None) == frozen
    assert load_dataset(paths, frozen.ref, format=format, sample=2) == frozen
    copy = StorePaths(tmp_path / "store")
    shutil.copytree(paths.root, copy.root, symlinks=True)
    lost = frozen.head("train")[0].episode_id
    if format == "zarr":
        shutil.rmtree(copy.episode_versions(lost))
        with pytest.raises(GateError, match=f"1 of 8 episodes are gone in the recorded content: {lost} "):
            load_dataset(copy, frozen.ref, format=format, sample=None)
    card = write_card(paths, frozen, store=open_store(paths, format, versions=frozen.lance_versions))
    assert card.read_text().count("data:image/jpeg") == 4


def test_one_digest_from_shuffled_listings_and_another_file_system(built, monkeypatch):
    paths, _ = built
    expected = freeze(paths, RULE, version="listed", format="zarr").manifest.digest
    listed = os.listdir

    def shuffled(folder="."):
        names = listed(folder)
        random.Random(len(names)).shuffle(names)
        return names

    monkeypatch.setattr("os.listdir", shuffled)
    assert freeze(paths, RULE, version="listed-otherwise", format="zarr").manifest.digest == expected
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.skip("no file system in memory here")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        elsewhere = StorePaths(Path(folder) / "store")
        shutil.copytree(paths.zarr, elsewhere.zarr, symlinks=True)
        for format in ("zarr", "lance"):
            if format == "lance":
                build_lance(elsewhere)
            assert freeze(elsewhere, RULE, version=f"moved-{format}", format=format).manifest.digest == expected
