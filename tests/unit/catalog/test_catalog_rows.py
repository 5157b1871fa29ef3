"""The catalog says the same whichever format it is read from."""

from egodata.annotations import SUBTASK
from egodata.catalog.rows import catalog_from_lance, catalog_from_store, qualified_operator
from egodata.formats import open_store
from egodata.formats.lance import build_lance
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
