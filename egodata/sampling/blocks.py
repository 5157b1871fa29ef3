"""Whole-episode numbers in memory-mapped files, built once from a store and shared by every worker on the machine.

One file per episode content and format under ``STORE/cache/blocks``: a header, then the arrays as they are in memory. It is a cache:
removing it loses nothing, a file whose digest does not match is built again, and where it cannot be written numbers are read directly.
"""

import hashlib
import json
import mmap
import struct
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeReader
from egodata.errors import EgodataError, FeatureNotFoundError, WindowError
from egodata.names import nearest
from egodata.schema.canonical import canonical_json
from egodata.schema.layout import write_atomic

MAGIC = b"EGOBLK1\n"
MAPPED_BLOCKS = 4096
_ALIGN_BYTES = 64
_PREFIX = struct.Struct("<8sQ")

Arrays = Mapping[str, NDArray[Any]]


class BlockError(EgodataError, ValueError):
    """A block file is cut off, changed, or of another episode; it is built again."""


@dataclass(frozen=True, slots=True)
class Block:
    """The mapped numbers of one episode.

    Attributes:
        content: Content digest of the episode.
        where: Episode, for error messages.
        arrays: Read-only views of the file, (T, ...) by key.
    """

    content: str
    where: str
    arrays: Arrays

    def rows(self, keys: Sequence[str], ranges: Sequence[tuple[int, int]]) -> dict[str, NDArray[Any]]:
        """Return a copy of the half-open row range of each key, as `EpisodeReader.rows` does.

        Raises:
            FeatureNotFoundError: No such key.
            WindowError: A range outside [0, T].
        """
        return {key: self._window(key, start, end).copy() for key, (start, end) in zip(keys, ranges, strict=True)}

    def windows(self, requests: Mapping[str, Sequence[tuple[int, int]]]) -> dict[str, list[NDArray[Any]]]:
        """Return a copy of every half-open window of every key, in the order asked for.

        Raises:
            FeatureNotFoundError: No such key.
            WindowError: A range outside [0, T].
        """
        return {key: [self._window(key, start, end).copy() for start, end in ranges] for key, ranges in requests.items()}

    def _window(self, key: str, start: int, end: int) -> NDArray[Any]:
        array = self.arrays.get(key)
        if array is None:
            raise FeatureNotFoundError(f"{self.where}: no numeric feature {key!r}; {nearest(key, self.arrays)}")
        if not 0 <= start <= end <= len(array):
            raise WindowError(f"{self.where}: rows [{start}, {end}) of {key} are outside [0, {len(array)}).")
        return array[start:end]


def encode_block(content: str, arrays: Arrays) -> bytes:
    """Return the bytes of a block file.

    Args:
        content: Content digest of the episode.
        arrays: Numeric arrays by key.
    """
    entries, payload = {}, bytearray()
    for key in sorted(arrays):
        array = np.ascontiguousarray(arrays[key], arrays[key].dtype.newbyteorder("<"))
        payload += b"\0" * (-len(payload) % _ALIGN_BYTES)
        entries[key] = {"dtype": array.dtype.name, "shape": list(array.shape), "offset": len(payload)}
        payload += array.tobytes()
    header = canonical_json({"content": content, "arrays": entries, "sha256": hashlib.sha256(payload).hexdigest()})
    start = _PREFIX.pack(MAGIC, len(header)) + header
    return start + b"\0" * (-len(start) % _ALIGN_BYTES) + bytes(payload)


def map_block(path: Path, *, content: str, where: str) -> Block:
    """Map a block file and check its digest.

    Args:
        path: The file.
        content: The content digest that it has to be of.
        where: Episode, for error messages.

    Raises:
        FileNotFoundError: There is none.
        BlockError: It is cut off, changed, or of another content.
    """
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except ValueError as error:
            raise BlockError(f"block {path.name}: empty") from error
    try:
        magic, length = _PREFIX.unpack_from(data)
        begin = _PREFIX.size + length
        header = json.loads(data[_PREFIX.size : begin])
        first = begin + -begin % _ALIGN_BYTES
        view = memoryview(data)[first:]
        if magic != MAGIC or header["content"] != content or hashlib.sha256(view).hexdigest() != header["sha256"]:
            raise BlockError(f"block {path.name}: not of content {content[:16]}, or changed")
        arrays = {key: _array(view, item) for key, item in header["arrays"].items()}
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise BlockError(f"block {path.name}: malformed ({error})") from error
    return Block(content, where, arrays)


def _array(view: memoryview, item: Mapping[str, Any]) -> NDArray[Any]:
    shape = tuple(item["shape"])
    dtype = np.dtype(item["dtype"]).newbyteorder("<")
    return np.frombuffer(view, dtype, int(np.prod(shape, dtype=np.int64)), int(item["offset"])).reshape(shape)


class BlockCache:
    """Maps the blocks of one format, building those that are missing. A pickled copy starts empty and maps the same files."""

    def __init__(self, folder: Path) -> None:
        """Remember where blocks lie; nothing is opened yet.

        Args:
            folder: Of one format: blocks made from zarr and from Lance are kept apart, or comparing them would prove nothing.
        """
        self._folder = folder
        self._mapped: OrderedDict[str, Block] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self._folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._folder = state["folder"]
        self._mapped = OrderedDict()

    def path(self, content: str) -> Path:
        """Where the block of a content lies."""
        return self._folder / content[:2] / f"{content}.block"

    def block(self, reader: EpisodeReader, *, content: str) -> Block:
        """Return an episode's block, built from the reader if there is no good one.

        Args:
            reader: Of exactly that content.
            content: Content digest.

        Raises:
            CorruptEpisodeError: The store's own chunks are missing or changed.
        """
        found = self._mapped.get(content)
        if found is not None:
            self._mapped.move_to_end(content)
            return found
        where, path = f"episode {reader.meta.episode_id}", self.path(content)
        try:
            found = map_block(path, content=content, where=where)
        except (OSError, BlockError):  # none yet, damaged, or not readable
            found = self._build(reader, path, content, where)
        self._mapped[content] = found
        while len(self._mapped) > MAPPED_BLOCKS:
            self._mapped.popitem(last=False)
        return found

    def _build(self, reader: EpisodeReader, path: Path, content: str, where: str) -> Block:
        meta = reader.meta
        keys = meta.numeric_keys
        arrays = reader.rows(keys, [(0, meta.total_frames)] * len(keys))
        try:
            write_atomic(path, encode_block(content, arrays))
            return map_block(path, content=content, where=where)
        except OSError:  # a store that this user may only read, or a full disk: numbers are kept in memory instead
            return Block(content, where, arrays)

    def close(self) -> None:
        """Forget every mapping."""
        self._mapped.clear()


def stale_blocks(folder: Path, *, wanted: Iterable[str]) -> list[Path]:
    """Return block files of contents that are not wanted, sorted."""
    kept = set(wanted)
    return sorted(path for path in folder.glob("*/*/*.block") if path.stem not in kept)
