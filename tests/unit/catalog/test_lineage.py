import sys
from dataclasses import replace

import pytest

from egodata.catalog import freeze, load_dataset
from egodata.schema.layout import open_root


@pytest.fixture
def paths(tmp_path):
    return open_root(tmp_path / "store", create=True)


@pytest.fixture
def catalog(rows, monkeypatch):
    held = list(rows)
    monkeypatch.setattr(sys.modules["egodata.catalog.freeze"], "_catalog", lambda paths, format: (list(held), None))
    return held


def test_a_new_version_records_its_parent_and_the_difference(paths, catalog, rule, row):
    first = freeze(paths, rule(), format="zarr").manifest
    assert "parent" not in first.provenance
    catalog[6] = replace(catalog[6], content="0" * 64)
    catalog += [row(f"new{i}", operator="mecka/b") for i in range(3)]
    second = freeze(paths, rule(), version="v2", format="zarr").manifest
    parent = load_dataset(paths, "set@v2").provenance["parent"]
    assert (parent["version"], parent["digest"]) == ("v1", first.digest)
    assert parent["difference"] == {
        "added": 3,
        "removed": 0,
        "moved": 0,
        "changed": 1,
        "settings": 0,
        "lines": ["3 added: new0 (unseen_operator), new1 (unseen_operator), new2 (unseen_operator)", "1 changed: ep06"],
    }
    third = freeze(paths, rule(seed=5), version="a-later-one", format="zarr").manifest
    assert third.provenance["parent"]["version"] == "v2"
    assert third.provenance["parent"]["difference"]["settings"] == 1
    again = freeze(paths, rule(), version="v2", format="zarr")
    assert not again.created and again.manifest == second


def test_the_parent_is_no_part_of_the_digest_and_damage_does_not_stop_freezing(paths, catalog, rule):
    first = freeze(paths, rule(), format="zarr")
    second = freeze(paths, rule(), version="v2", format="zarr")
    assert second.manifest.digest == first.manifest.digest
    assert second.manifest.provenance["parent"]["difference"]["lines"] == []
    first.path.write_text("{}")
    third = freeze(paths, rule(), version="v3", format="zarr")
    assert third.manifest.provenance["parent"]["version"] == "v2"
