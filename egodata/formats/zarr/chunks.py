"""Stored bytes of one array, decoded directly: the shard of a numeric array, the elements of a variable-length one.

A call of the zarr array API costs about 1 ms whatever its size, and gives the fill value for a missing chunk without a word.
Here a missing or changed chunk is an error that names array and chunk. Supported is what `write.py` writes, nothing else.
"""

import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from egodata.errors import CorruptEpisodeError

_CRC_BYTES = 4
_ABSENT = 2**64 - 1
_REBUILD = "Run `egodata verify` and rebuild the episode."
_INNER = ["bytes", "crc32c"]


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """How one array lies on disk, from its zarr.json.

    Attributes:
        shape: Whole shape; the first axis is frames, elements or spans.
        dtype: numpy dtype, little-endian; None for variable-length bytes.
        chunk_rows: Rows per chunk inside the shard.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    chunk_rows: int


def read_layout(folder: Path, *, where: str) -> ArrayLayout:
    """Read an array's zarr.json.

    Raises:
        CorruptEpisodeError: Missing, not JSON, or not laid out as this format writes it.
    """
    try:
        found = json.loads((folder / "zarr.json").read_bytes())
        shape = tuple(int(n) for n in found["shape"])
        outer = found["codecs"][0]
        if found["data_type"] == "variable_length_bytes":
            _expect([codec["name"] for codec in found["codecs"]] == ["vlen-bytes"], "codecs", where)
            _expect(found["chunk_grid"]["configuration"]["chunk_shape"] == [1], "chunk shape", where)
            return ArrayLayout(shape, None, 1)
        inner = outer["configuration"]
        _expect(len(found["codecs"]) == 1 and outer["name"] == "sharding_indexed", "codecs", where)
        _expect([codec["name"] for codec in inner["codecs"]] == _INNER, "chunk codecs", where)
        _expect(inner["index_location"] == "end" and [codec["name"] for codec in inner["index_codecs"]] == _INNER, "shard index", where)
        _expect(tuple(inner["chunk_shape"][1:]) == shape[1:], "chunk shape", where)
        return ArrayLayout(shape, np.dtype(found["data_type"]).newbyteorder("<"), int(inner["chunk_shape"][0]))
    except FileNotFoundError as error:
        raise CorruptEpisodeError(f"{where}: zarr.json is missing. {_REBUILD}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptEpisodeError(f"{where}: zarr.json is not that of a v4 array ({error!r}). {_REBUILD}") from error


def _expect(good: bool, what: str, where: str) -> None:
    if not good:
        raise CorruptEpisodeError(f"{where}: {what} in zarr.json are not those of a v4 array. {_REBUILD}")


@dataclass(frozen=True, slots=True)
class Shard:
    """The one shard of a numeric array, its index read and checked; the file is opened for each read, so that none stays open.

    Attributes:
        path: Its file.
        layout: From `read_layout`.
        index: (offset, size) in bytes of each chunk.
        chunk_bytes: Bytes of a chunk without its checksum.
        where: Episode and array, for error messages.
    """

    path: str
    layout: ArrayLayout
    index: tuple[tuple[int, int], ...]
    chunk_bytes: int
    where: str

    def rows(self, start: int, end: int) -> NDArray[Any]:
        """Read rows [start, end), 0 <= start <= end <= T, a fresh array.

        Raises:
            CorruptEpisodeError: The shard or one of the chunks needed is missing or changed; named by number and frames.
        """
        dtype, shape, per_chunk = self.layout.dtype, self.layout.shape, self.layout.chunk_rows
        out = np.empty((end - start, *shape[1:]), dtype)
        if start == end:
            return out
        first, last = start // per_chunk, (end - 1) // per_chunk
        file = _open(self.path, self.where)
        try:
            for number in range(first, last + 1):
                block = np.frombuffer(self._chunk(file, number), dtype).reshape(per_chunk, *shape[1:])
                base = number * per_chunk
                begin, stop = max(start, base), min(end, base + per_chunk)
                out[begin - start : stop - start] = block[begin - base : stop - base]
        finally:
            os.close(file)
        return out

    def _chunk(self, file: int, number: int) -> memoryview:
        offset, size = self.index[number]
        if offset == _ABSENT:
            raise CorruptEpisodeError(f"{self._at(number)} is missing from its shard. {_REBUILD}")
        data = os.pread(file, size, offset)
        if len(data) != size or size < _CRC_BYTES or not _crc_matches(data):
            raise CorruptEpisodeError(f"{self._at(number)} is cut off or changed (crc32c). {_REBUILD}")
        if size - _CRC_BYTES != self.chunk_bytes:
            raise CorruptEpisodeError(f"{self._at(number)} has {size - _CRC_BYTES} bytes, expected {self.chunk_bytes}. {_REBUILD}")
        return memoryview(data)[:-_CRC_BYTES]

    def _at(self, number: int) -> str:
        rows = self.layout.chunk_rows
        return f"{self.where}: chunk {number} (frames [{number * rows}, {min((number + 1) * rows, self.layout.shape[0])}))"


def open_shard(folder: Path, layout: ArrayLayout, *, where: str) -> Shard:
    """Read the index of a numeric array's shard.

    Args:
        folder: The array's folder.
        layout: From `read_layout`.
        where: Episode and array, for error messages.

    Raises:
        CorruptEpisodeError: Not a numeric array, or the shard is missing, or its index is cut off or changed.
    """
    if layout.dtype is None:
        raise CorruptEpisodeError(f"{where}: expected a numeric array, got variable-length bytes. {_REBUILD}")
    path = os.path.join(folder, "c", *("0",) * len(layout.shape))
    chunks = -(-layout.shape[0] // layout.chunk_rows)
    size = chunks * 16 + _CRC_BYTES
    file = _open(path, where)
    try:
        position = os.fstat(file).st_size - size
        data = os.pread(file, size, position) if position >= 0 else b""
    finally:
        os.close(file)
    if len(data) != size or not _crc_matches(data):
        raise CorruptEpisodeError(f"{where}: shard index of {chunks} chunks is cut off or changed. {_REBUILD}")
    chunk_bytes = layout.chunk_rows * int(np.prod(layout.shape[1:], dtype=np.int64)) * layout.dtype.itemsize
    return Shard(path, layout, tuple(struct.iter_unpack("<QQ", data[:-_CRC_BYTES])), chunk_bytes, where)


def _open(path: str, where: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError as error:
        name = path[path.rindex(f"{os.sep}c{os.sep}") + 1 :]
        raise CorruptEpisodeError(f"{where}: shard file {name} is missing. {_REBUILD}") from error


def read_file(path: str) -> bytes:
    """Read a small file whole; a third of what Python's file objects cost.

    Raises:
        OSError: It cannot be read.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def _crc_matches(data: bytes) -> bool:
    return bool(google_crc32c.value(data[:-_CRC_BYTES]) == int.from_bytes(data[-_CRC_BYTES:], "little"))


def read_element(folder: Path, number: int, *, where: str) -> bytes:
    """Read one element of a variable-length array with one element per chunk.

    Raises:
        CorruptEpisodeError: Its file is missing or cut off; named by number.
    """
    try:
        data = (folder / "c" / str(number)).read_bytes()
    except FileNotFoundError as error:
        raise CorruptEpisodeError(f"{where}: element {number} is missing. {_REBUILD}") from error
    if len(data) < 8 or struct.unpack_from("<I", data)[0] != 1 or struct.unpack_from("<I", data, 4)[0] != len(data) - 8:
        raise CorruptEpisodeError(f"{where}: element {number} is cut off or changed ({len(data)} bytes). {_REBUILD}")
    return data[8:]
