"""What identifies a recording's raw files: their bytes for ingest, their sizes and times for a quick look."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from egodata.schema.canonical import canonical_json, json_digest, jsonable, sha256_hex
from egodata.vendors import PARTS, RecordingRef

_BLOCK_BYTES = 1 << 20
_DETAILS = "(details)"


@dataclass(frozen=True, slots=True)
class RawFile:
    """One raw file: path relative to the delivery, size, SHA-256."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RawDigests:
    """Digests of a recording's raw files, by part and in all.

    Attributes:
        files: Sorted by path; values from shared files appear as one entry called ``(details)``.
        parts: Digest by part.
        raw: Digest over all files.
    """

    files: tuple[RawFile, ...]
    parts: dict[str, str]
    raw: str


class FileDigests:
    """Reads a file that several recordings share once for all of them, as long as it lives: a run, never longer.

    A shared file that changes meanwhile, by size, time or inode, is read again.
    """

    def __init__(self, refs: Iterable[RecordingRef] = ()) -> None:
        counts = Counter(path for ref in refs for path in _paths(ref))
        self._shared = {path for path, count in counts.items() if count > 1}
        self._known: dict[Path, tuple[tuple[int, int, int], RawFile]] = {}

    def shares(self, ref: RecordingRef) -> bool:
        """Whether a recording has a file that another one has too."""
        return not self._shared.isdisjoint(_paths(ref))

    def of(self, root: Path, path: Path) -> RawFile:
        """Return path, size and digest of a file.

        Raises:
            OSError: It cannot be read.
        """
        if path not in self._shared:
            return _file(root, path)
        found = path.stat()
        seen = (found.st_size, found.st_mtime_ns, found.st_ino)
        known = self._known.get(path)
        if known is None or known[0] != seen:
            known = (seen, _file(root, path))
            self._known[path] = known
        return known[1]


def raw_digest(ref: RecordingRef, files: FileDigests | None = None) -> RawDigests:
    """Read every file of a recording once and digest sorted (relative path, size, SHA-256), by part and in all.

    Args:
        ref: The recording.
        files: Remembers what recordings share; each is read anew without it.

    Raises:
        OSError: A file cannot be read.
    """
    files = files or FileDigests()
    by_part = {part: [files.of(ref.root, path) for path in ref.files.get(part, ())] for part in PARTS}
    if ref.details:
        data = canonical_json(dict(ref.details))
        by_part["media"].append(RawFile(_DETAILS, len(data), sha256_hex(data)))
    everything = sorted({file.path: file for found in by_part.values() for file in found}.values(), key=lambda file: file.path.encode())
    return RawDigests(tuple(everything), {part: _digest(found) for part, found in by_part.items()}, _digest(everything))


def _paths(ref: RecordingRef) -> set[Path]:
    return {path for part in PARTS for path in ref.files.get(part, ())}


def _file(root: Path, path: Path) -> RawFile:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return RawFile(path.relative_to(root).as_posix(), path.stat().st_size, digest.hexdigest())


def _digest(files: Iterable[RawFile]) -> str:
    rows = sorted(([file.path, file.size_bytes, file.sha256] for file in files), key=lambda row: str(row[0]).encode())
    return json_digest(rows)


def observed_version(ref: RecordingRef) -> str:
    """Digest sorted (relative path, size, mtime in ns) of a recording's files: quick, and changed by a touch."""
    seen = ((_below(ref.root, path), path.stat()) for path in _paths(ref))
    rows = sorted(((name, found.st_size, jsonable(found.st_mtime_ns)) for name, found in seen), key=lambda row: row[0].encode())
    if ref.details:
        return json_digest([*rows, dict(ref.details)])
    # The same bytes as the canonical form: of texts and small whole numbers `json` writes no other, at a tenth of the cost.
    return sha256_hex(json.dumps([*rows, {}], ensure_ascii=False, separators=(",", ":")).encode())


def _below(root: Path, path: Path) -> str:
    """Return a path relative to a folder; `relative_to` does the same at ten times the cost, which a delivery of 100,000 feels."""
    start, text = os.path.join(root, ""), os.fspath(path)
    return text[len(start) :] if os.sep == "/" and text.startswith(start) else path.relative_to(root).as_posix()
