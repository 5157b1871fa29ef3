"""Freezing, loading, listing and comparing over a given catalog; over real stores it runs in tests/e2e."""

import json
import sys
import threading
from dataclasses import replace

import pytest

from egodata.catalog import diff_manifests, freeze, list_datasets, load_dataset
from egodata.catalog.rules import PinCount
from egodata.errors import ConflictError, GateError, InputError, NotFoundError, SchemaError
from egodata.schema.layout import open_root


@pytest.fixture
def paths(tmp_path):
    return open_root(tmp_path / "store", create=True)


@pytest.fixture
def catalog(rows, monkeypatch):
    """A list that `freeze` reads as the catalog; tests change it in place."""
    held = list(rows)
    module = sys.modules["egodata.catalog.freeze"]
    monkeypatch.setattr(module, "_catalog", lambda paths, format: (list(held), None))
    return held


def test_freeze_writes_a_manifest_that_loads(paths, catalog, rule):
    frozen = freeze(paths, rule(pins={"train": PinCount(1)}), format="zarr", provenance={"run": "r1"})
    assert frozen.created
    assert frozen.path == paths.root / "datasets/set/v1/manifest.json"
    loaded = load_dataset(paths, "set@v1")
    assert loaded == frozen.manifest == load_dataset(paths, frozen.path) == load_dataset(paths, str(frozen.path))
    assert loaded.pins == {"train": (loaded.head("train")[0].episode_id,)}
    assert loaded.provenance["run"] == "r1"
    assert loaded.provenance["format"] == "zarr"
    assert set(loaded.provenance) >= {"created", "egodata", "catalog_episodes", "left_out"}
    assert [path.name for path in frozen.path.parent.iterdir()] == ["manifest.json"]


def written(path):
    """Return what a write changes; the time of access is changed by reading."""
    found = path.stat()
    return found.st_mtime_ns, found.st_ino, found.st_size


def test_equal_content_is_a_no_op_and_the_first_provenance_stays(paths, catalog, rule):
    first = freeze(paths, rule(), format="zarr", provenance={"run": "r1"})
    before = written(first.path)
    catalog.reverse()
    again = freeze(paths, rule(), format="zarr", provenance={"run": "r2"})
    assert not again.created
    assert again.manifest == first.manifest
    assert written(first.path) == before


def test_changed_content_under_one_version_is_refused_with_the_difference(paths, catalog, rule, row):
    freeze(paths, rule(), format="zarr")
    catalog[6] = replace(catalog[6], content="0" * 64)
    catalog += [row(f"new{i}", operator="mecka/b") for i in range(7)]
    with pytest.raises(ConflictError) as refused:
        freeze(paths, rule(), format="zarr")
    message = str(refused.value)
    assert "dataset set@v1: already frozen with digest" in message
    assert "7 added: new0 (unseen_operator), new1 (unseen_operator)" in message
    assert "and 2 more" in message
    assert "1 changed: ep06" in message
    assert "another version" in message
    second = freeze(paths, rule(), version="v2", format="zarr")
    assert second.created
    assert list_datasets(paths) == [("set", "v1", load_dataset(paths, "set@v1").digest), ("set", "v2", second.manifest.digest)]


def test_a_failed_gate_writes_nothing(paths, catalog, rule):
    with pytest.raises(GateError, match="pin gone of head train"):
        freeze(paths, rule(pins={"train": ("gone",)}), format="zarr")
    assert list_datasets(paths) == []


def test_two_at_once_agree(paths, catalog, rule):
    found = []
    threads = [threading.Thread(target=lambda: found.append(freeze(paths, rule(), format="zarr"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.created for one in found) == [False, False, False, True]
    assert len({one.manifest.digest for one in found}) == 1


def test_loading_refuses(paths, catalog, rule):
    frozen = freeze(paths, rule(), format="zarr")
    with pytest.raises(SchemaError, match="'latest' moves"):
        load_dataset(paths, "set@latest")
    with pytest.raises(SchemaError, match="got no version"):
        load_dataset(paths, "set")
    with pytest.raises(NotFoundError, match=r"dataset set@v2: not frozen in this store; did you mean set@v1\?"):
        load_dataset(paths, "set@v2")
    moved = paths.manifest("set", "v3")
    moved.parent.mkdir()
    moved.write_bytes(frozen.path.read_bytes())
    with pytest.raises(GateError, match="dataset set@v3: the file there is set@v1"):
        load_dataset(paths, "set@v3")
    value = json.loads(frozen.path.read_text())
    value["identity"]["heads"]["train"]["ids"].reverse()
    frozen.path.write_text(json.dumps(value))
    with pytest.raises(GateError, match="dataset set@v1: changed since it was frozen"):
        load_dataset(paths, "set@v1")
    frozen.path.write_text("{}")
    assert ("set", "v1", "unreadable") in list_datasets(paths)


def test_formats_are_checked(paths, rule):
    with pytest.raises(InputError, match="format 'parquet': expected zarr or lance"):
        freeze(paths, rule(), format="parquet")


def test_a_store_that_cannot_be_written_is_said_at_once(paths, catalog, rule, monkeypatch):
    monkeypatch.setattr("egodata.schema.layout.os.access", lambda *_: False)
    with pytest.raises(InputError, match="not writable for this user"):
        freeze(paths, rule(), format="zarr")


def test_diff(paths, catalog, rule):
    first = freeze(paths, rule(), format="zarr").manifest
    assert diff_manifests(first, first).lines() == []
    gone = catalog.pop()
    catalog[0] = replace(catalog[0], operator="mecka/b")
    second = freeze(paths, rule(seed=7, min_frames=2), version="v2", format="zarr").manifest
    diff = diff_manifests(first, second)
    assert diff.removed == ((next(h for h in first.heads if gone.episode_id in {e.episode_id for e in first.head(h)}), gone.episode_id),)
    assert [move[0] for move in diff.moved if move[2] == "unseen_operator"] == ["ep00"]
    assert diff.changed == ("ep00",)
    assert "seed: 42 -> 7" in diff.settings
    assert "rule.min_frames: 1 -> 2" in diff.settings
