"""A LeRobot v3.0 folder as the three Lance tables that LeRobot's Lance reader opens: frames, videos, meta.

`frames` has one row per frame in index order, dots in names as underscores, vectors as fixed-size lists. `videos` has one row per mp4 with
its bytes as a blob and the positions of its keyframes, so that a reader fetches only the byte ranges it needs. `meta` holds the files of
``meta/``.
"""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from egodata.errors import InputError
from egodata.video.mp4 import index_chunk

BLOB = "video_bytes"
STORAGE_VERSION: Literal["2.2"] = "2.2"
_I64 = pa.int64()
_VIDEOS = pa.schema(
    [
        pa.field("video_key", pa.string()),
        *(pa.field(name, _I64) for name in ("chunk_index", "file_index", "file_size", "moov_offset", "moov_size")),
        *(pa.field(name, pa.list_(_I64)) for name in ("kf_indices", "kf_positions")),
        lance.blob_field(BLOB),
    ]
)


def to_lance_tables(root: Path) -> None:
    """Turn a LeRobot folder into its Lance layout in place: the tables replace ``data/`` and ``videos/``; ``meta/`` stays.

    Raises:
        InputError: Two features would have one column name.
    """
    files = sorted((root / "data").glob("*/*.parquet"))
    schema = _frames_schema(files[0])
    lance.write_dataset(_frames(files, schema), str(root / "frames.lance"), schema=schema, data_storage_version=STORAGE_VERSION)
    videos = sorted((root / "videos").glob("*/*/*.mp4")) if (root / "videos").is_dir() else []
    lance.write_dataset(_videos(videos), str(root / "videos.lance"), schema=_VIDEOS, data_storage_version=STORAGE_VERSION)
    meta = sorted(path for path in (root / "meta").rglob("*") if path.is_file())
    table = pa.table(
        {
            "path": pa.array([path.relative_to(root / "meta").as_posix() for path in meta], pa.string()),
            "data": pa.array([path.read_bytes() for path in meta], pa.large_binary()),
        }
    )
    lance.write_dataset(table, str(root / "meta.lance"), data_storage_version=STORAGE_VERSION)
    shutil.rmtree(root / "data")
    shutil.rmtree(root / "videos", ignore_errors=True)


def _frames_schema(path: Path) -> pa.Schema:
    source = pq.ParquetFile(path)
    first = next(source.iter_batches(batch_size=1))
    fields = [pa.field(_plain(field.name), _fixed(field.type, first.column(field.name))) for field in source.schema_arrow]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"export: columns {', '.join(twice)} would stand for two features each once dots are underscores. Export without --raw."
        )
    return pa.schema(fields)


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _fixed(kind: pa.DataType, column: pa.Array) -> pa.DataType:
    return pa.list_(kind.value_type, len(column[0])) if pa.types.is_list(kind) else kind


def _frames(files: list[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches():
            columns = []
            for column, field in zip(batch.columns, schema, strict=True):
                fixed = pa.types.is_fixed_size_list(field.type)
                columns.append(pa.FixedSizeListArray.from_arrays(column.flatten(), field.type.list_size) if fixed else column)
            yield pa.record_batch(columns, schema=schema)


def _videos(files: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in files:
        data = path.read_bytes()
        index = index_chunk(data)
        keys = np.flatnonzero(index.key)
        offset, size = _moov(data)
        row = {
            "video_key": path.parts[-3],
            "chunk_index": int(path.parent.name.removeprefix("chunk-")),
            "file_index": int(path.stem.removeprefix("file-")),
            "file_size": len(data),
            "moov_offset": offset,
            "moov_size": size,
            "kf_indices": index.display[keys].tolist(),
            "kf_positions": index.offsets[keys].tolist(),
            BLOB: data,
        }
        arrays = [lance.blob_array([row[f.name]]) if f.name == BLOB else pa.array([row[f.name]], f.type) for f in _VIDEOS]
        yield pa.record_batch(arrays, schema=_VIDEOS)


def _moov(data: bytes) -> tuple[int, int]:
    """Return position and size of the box with the sample tables; `index_chunk` has found it before."""
    start = 0
    while start + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, start)
        if size == 1:
            size = struct.unpack_from(">Q", data, start + 8)[0]
        if kind == b"moov":
            return start, size
        start += size or len(data)
    raise InputError("mp4: no moov box; it was cut off.")
