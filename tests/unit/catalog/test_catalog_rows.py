"""The catalog says the same whichever format it is read from."""

import shutil

from egodata.annotations import SUBTASK
from egodata.catalog.freeze import freeze
from egodata.catalog.rows import catalog_from_lance, catalog_from_store, qualified_operator
from egodata.catalog.rules import DatasetRule, checked_rule
from egodata.formats import open_store
from egodata.formats.lance import build_lance, tagged_versions
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(profile="test", preset="ultrafast")


def test_one_catalog_from_both_formats(tmp_path):
    paths = open_root(tmp_path / "store", create=True)
    for name, options in {"b": {}, "a": {"operator": None, "annotations": {SUBTASK: []}}, "C": {"annotations": {}}}.items():
        publish_draft(paths, small_draft(tmp_path, frames=20, episode_id=name, **options), settings=SETTINGS)
    versions = build_lance(paths).versions
    rows = catalog_from_store(open_store(paths, "zarr"))
    assert [row.episode_id for row in rows] == ["C", "a", "b"]
    assert (
        rows == catalog_from_store(open_store(paths, "lance")) == catalog_from_lance(paths) == catalog_from_lance(paths, versions=versions)
    )
    assert (rows[1].operator, rows[1].session, rows[1].annotation_keys) == (None, None, (SUBTASK,))
    assert rows[2].operator == "mecka/operator_a" and rows[2].cameras == ("front_1",) and rows[2].has_calibration


def test_operators_are_qualified_by_vendor():
    assert qualified_operator("mecka", "68ab") == "mecka/68ab"
    assert qualified_operator("mecka", None) is None


def test_freezing_again_tags_a_copy_that_was_made_anew(tmp_path):
    paths = open_root(tmp_path / "store", create=True)
    for name in ("a", "b"):
        publish_draft(paths, small_draft(tmp_path, frames=20, seed=ord(name), episode_id=name), settings=SETTINGS)
        build_lance(paths)
    rule = checked_rule(DatasetRule(name="d", version="1", heads=("train",), where={"vendor": "mecka"}, valid_ratio=0.0))
    first = freeze(paths, rule, format="lance")
    shutil.rmtree(paths.lance)
    made = build_lance(paths).versions
    again = freeze(paths, rule, format="lance")
    assert not again.created and first.manifest.lance_versions != made == tagged_versions(paths, again.manifest.digest)
    store = open_store(paths, "lance", versions=again.manifest.lance_versions)
    for episode in again.manifest.head("train"):
        assert store.open(episode.episode_id, content=episode.content).digests.content == episode.content
