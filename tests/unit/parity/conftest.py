"""A store with both formats, and ways to falsify one of them that no check of egodata's own would allow."""

import shutil
from dataclasses import dataclass

import lance
import numpy as np
import pyarrow as pa
import pytest

from egodata.annotations import SUBTASK
from egodata.formats.lance import build_lance, tables
from egodata.formats.lance.commit import replace_episodes, stage
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import StorePaths, open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=25)


@pytest.fixture(scope="session")
def pristine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parity")
    paths = open_root(folder / "store", create=True)
    for seed, name in enumerate(("a", "b", "c")):
        notes = {"c": {SUBTASK: []}, "b": {}}.get(name)
        publish_draft(paths, small_draft(folder, frames=40, seed=seed, episode_id=name, annotations=notes), settings=SETTINGS)
    build_lance(paths)
    return paths


@dataclass
class Falsified:
    """A copy of the store whose Lance tables can be rewritten; the commit names the versions, as a build would."""

    paths: StorePaths

    def rewrite(self, table: str, episode_id: str, change) -> None:
        """Replace the rows of one episode in a table by what `change` returns for them, and commit `episodes` after it."""
        versions = tables.table_versions(self.paths)
        handle = tables.open_table(self.paths, table)
        found = handle.to_table(filter=f"episode_id = '{episode_id}'", blob_handling="all_binary")
        rows = change(found)
        if table == "videos":
            blobs = lance.blob_array(rows["video"].to_pylist())
            rows = pa.Table.from_arrays([*(rows[name].combine_chunks() for name in rows.schema.names[:-1]), blobs], schema=handle.schema)
        else:
            rows = rows.cast(handle.schema)
        staged = stage(handle, rows.to_batches(), schema=handle.schema)
        properties = {tables.version_property(name): str(versions[name]) for name in tables.DATA_TABLES}
        if table == "episodes":
            replace_episodes(handle, [episode_id], fragments=staged, properties=properties)
            return
        made = replace_episodes(handle, [episode_id], fragments=staged, properties={})
        properties[tables.version_property(table)] = str(made.version)
        replace_episodes(tables.open_table(self.paths, "episodes"), [], fragments=[], properties=properties)

    def set_cell(self, table: str, episode_id: str, column: str, row: int, value) -> None:
        """Set one cell."""

        def change(rows: pa.Table) -> pa.Table:
            values = rows[column].to_pylist()
            values[row] = value(values[row]) if callable(value) else value
            place = rows.schema.names.index(column)
            return rows.set_column(place, rows.schema.field(column), pa.array(values, rows.schema.field(column).type))

        self.rewrite(table, episode_id, change)

    def set_number(self, episode_id: str, column: str, row: int, channel: int, number) -> None:
        """Set one number of one frame, without a detour over Python floats."""

        def change(rows: pa.Table) -> pa.Table:
            field = rows.schema.field(column)
            values = np.array(rows[column].combine_chunks().flatten()).reshape(len(rows), -1)
            values[row, channel] = number(values[row, channel]) if callable(number) else number
            made = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), field.type.list_size)
            return rows.set_column(rows.schema.names.index(column), field, made)

        self.rewrite("frames", episode_id, change)


@pytest.fixture
def store(tmp_path, pristine):
    shutil.copytree(pristine.root, tmp_path / "store", symlinks=True)
    return Falsified(StorePaths(tmp_path / "store"))
