"""The parquet side of a LeRobot v3.0 dataset: frames in size-capped files with a row group per episode, episodes, and tasks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

FILES_PER_CHUNK = 1000
DATA_FILE_BYTES = 100 << 20
VIDEO_FILE_BYTES = 200 << 20
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-000/file-000.parquet"
INDEX_FEATURES = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64", "task_index": "int64"}


def numbered(number: int) -> dict[str, int]:
    """Return chunk and file index of the n-th file."""
    return {"chunk_index": number // FILES_PER_CHUNK, "file_index": number % FILES_PER_CHUNK}


def feature_json(dtype: str, shape: Sequence[int], *, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a feature's entry in ``info.json``; a number per frame has the shape (1,) there."""
    return {"dtype": dtype, "shape": list(shape) or [1], "names": list(names) if names else None}


def _column(rows: NDArray[Any]) -> pa.Array:
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    values = pa.array(flat.ravel())
    if flat.shape[1] == 1:
        return values
    return pa.ListArray.from_arrays(pa.array(np.arange(len(flat) + 1, dtype=np.int32) * flat.shape[1]), values)


class FrameFiles:
    """Frames in parquet files of at most `DATA_FILE_BYTES`, one row group per episode."""

    def __init__(self, root: Path) -> None:
        self._root, self._number = root, -1
        self._writer: pq.ParquetWriter | None = None
        self._path = root

    def append(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """Append an episode, (T, ...) per column, and return its chunk and file index."""
        table = pa.table({key: _column(rows) for key, rows in columns.items()})
        if self._writer is not None and self._path.stat().st_size + table.nbytes > DATA_FILE_BYTES:
            self.close()
        if self._writer is None:
            self._number += 1
            self._path = self._root / DATA_PATH.format(**numbered(self._number))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="snappy")
        self._writer.write_table(table)
        return numbered(self._number)

    def close(self) -> None:
        """Finish the open file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def read_column(root: Path, key: str) -> NDArray[Any]:
    """Return one column (N, ...) of all frames."""
    column = pa.concat_tables([pq.read_table(path, columns=[key]) for path in sorted((root / "data").glob("*/*.parquet"))]).column(key)
    if not pa.types.is_list(column.type):
        return np.asarray(column.to_numpy())
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat).reshape(len(column), -1)


def write_tasks(root: Path, tasks: Sequence[str]) -> None:
    """Write ``meta/tasks.parquet``: pandas reads the text back as the index, which is where that library looks for it."""
    table = pa.table({"task_index": pa.array(range(len(tasks)), pa.int64()), "task": pa.array(tasks, pa.string())})
    columns = [
        {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": None},
        {"name": "task", "field_name": "task", "pandas_type": "unicode", "numpy_type": "object", "metadata": None},
    ]
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": columns,
        "creator": {"library": "pyarrow"},
        "pandas_version": "2.2.0",
    }
    (root / "meta").mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), root / "meta" / "tasks.parquet")


def write_episodes(root: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write ``meta/episodes``, one row per episode."""
    path = root / EPISODES_PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    placed = [{**row, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0} for row in rows]
    keys = dict.fromkeys(key for row in placed for key in row)
    pq.write_table(pa.table({key: [row.get(key) for row in placed] for key in keys}), path)
