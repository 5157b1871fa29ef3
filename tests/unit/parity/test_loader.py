"""Loader level: samples of a frozen dataset, field by field."""

from dataclasses import fields, replace

import numpy as np
import pytest

from egodata.annotations import SUBTASK, Span
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.formats import open_store
from egodata.formats.lance import build_lance, table_versions
from egodata.formats.zarr import attach_annotations
from egodata.parity import EXACT, ParityConfig, check_parity, latest, unproven
from egodata.parity.loader import compare_samples
from egodata.sampling import HeadSource, Sample, load_recipe

RECIPE = load_recipe("human_wrist6d")


def manifest_of(store, **heads):
    zarr = open_store(store.paths, "zarr")
    episodes = {head: tuple(HeadEpisode(name, 40, zarr.open(name).digests.content) for name in names) for head, names in heads.items()}
    return Manifest("small", "1", "d" * 64, episodes, {}, {"lance_versions": table_versions(store.paths)})


@pytest.fixture
def manifest(store):
    return manifest_of(store, train=("a", "b"), seen=("c",))


def test_equal_formats_pass_on_every_head(store, manifest):
    report = check_parity(store.paths, dataset=manifest, recipe=RECIPE, samples=10)
    assert report.passed
    loader = report.level("loader")
    assert loader.outcome.counts == {"heads": 2, "index": 120, "samples": 40}
    assert loader.outcome.numeric is None and loader.outcome.pixel is None
    (row,) = latest(store.paths, "loader")
    assert (row["dataset"], row["recipe"], row["passed"]) == ("small@1", "human_wrist6d", True)


def test_one_changed_float_reaches_the_samples_that_hold_it(store, manifest):
    store.set_number("a", "right__obs_ee_pose", 20, 0, lambda value: value + np.float32(0.01))
    moved = Manifest(**{**{f.name: getattr(manifest, f.name) for f in fields(manifest)}, "provenance": {}})
    report = check_parity(store.paths, dataset=moved, recipe=RECIPE, samples=None)
    loader = report.level("loader")
    assert {item.episode for item in loader.outcome.findings} == {"a"} == set(loader.failed)
    assert {item.stream for item in loader.outcome.findings} >= {"action", "proprio"}
    assert loader.outcome.numeric.value == pytest.approx(0.01, rel=0.5)


def test_the_frozen_versions_are_read_not_the_newest(store, manifest):
    store.set_number("a", "right__obs_ee_pose", 20, 0, np.float32(3))
    assert check_parity(store.paths, dataset=manifest, recipe=RECIPE, samples=4).passed
    assert not check_parity(store.paths).passed


def test_a_dataset_keeps_its_contents_on_both_formats(store, manifest):
    reader = open_store(store.paths, "zarr").open("a")
    attach_annotations(store.paths, "a", {SUBTASK: [Span("new", 0, 3)]}, expected=reader.digests.content)
    build_lance(store.paths)
    report = check_parity(store.paths, dataset=manifest, recipe=RECIPE, samples=4)
    assert report.passed and [name for name, _ in report.level("content").passed_episodes] == ["a", "b", "c"]


def test_another_prompt_is_found(store, manifest):
    store.set_cell("annotations", "a", "text", 0, "something else")
    moved = replace(manifest, provenance={})
    loader = check_parity(store.paths, dataset=moved, recipe=RECIPE, samples=None).level("loader")
    assert {item.stream for item in loader.outcome.findings} == {"prompt", "prompts"}


def test_another_index_is_found_before_samples_are_read(store, manifest):
    for side in ("left", "right"):
        store.set_cell("frames", "b", f"{side}__obs_ee_pose_valid", 30, False)
    loader = check_parity(store.paths, dataset=replace(manifest, provenance={}), recipe=RECIPE, samples=4).level("loader")
    (found,) = [item for item in loader.outcome.findings if item.code == "parity-index"]
    assert found.episode == "b" and "80 samples on zarr, 79 on lance" in found.message


@pytest.fixture(scope="module")
def sample(pristine):
    zarr = open_store(pristine, "zarr")
    head = {"train": (HeadEpisode("a", 40, zarr.open("a").digests.content),)}
    source = HeadSource.open(pristine, Manifest("s", "1", "", head, {}), head="train", recipe=RECIPE, format="zarr")
    return source.sample(5)


@pytest.mark.parametrize("name", [field.name for field in fields(Sample)])
def test_every_field_counts(sample, name):
    def other(value):
        if isinstance(value, np.ndarray):
            return ~value if value.dtype == bool else value + 1
        if value is None:
            return (0, 1, 2)
        if isinstance(value, (str, tuple)):
            return value + ("x" if isinstance(value, str) else ("x",))
        return value + 1

    value = getattr(sample, name)
    changed = {key: other(item) for key, item in value.items()} if hasattr(value, "keys") else other(value)
    outcome = compare_samples(sample, replace(sample, **{name: changed}), index=5, content="c", config=EXACT)
    (found,) = outcome.findings
    assert found.code == "parity-sample" and found.stream.partition(".")[0] == name and "sample 5 (episode a frame 5)" in found.message
    assert compare_samples(sample, sample, index=5, content="c", config=EXACT).findings == ()


def test_pixels_and_numbers_have_their_own_tolerance(sample):
    images = {key: item ^ 1 for key, item in sample.images.items()}
    outcome = compare_samples(sample, replace(sample, images=images), index=0, content="", config=ParityConfig(pixel=1))
    assert outcome.findings == () and outcome.pixel.value == 1 and outcome.numeric is None
    moved = replace(sample, action=sample.action + np.float32(1e-3))
    outcome = compare_samples(sample, moved, index=0, content="", config=ParityConfig(numeric=2e-3))
    assert outcome.findings == () and outcome.numeric.value == pytest.approx(1e-3, rel=0.01) and outcome.pixel is None


def test_a_content_that_one_format_lost_is_a_finding_at_every_level(store, manifest):
    gone = replace(manifest.head("train")[1], content="f" * 64)
    broken = replace(manifest, heads={"train": (manifest.head("train")[0], gone)})
    report = check_parity(store.paths, dataset=broken, recipe=RECIPE, samples=2)
    assert [level.failed for level in report.levels][1:] == [("b",), ("b",)]
    assert report.level("loader").outcome.findings[0].code == "parity-unreadable"
    assert unproven(store.paths, [("b", "f" * 64)]) == ["b"]
