"""Keep a delivery's files in the store (`--copy`), as they were received and read only."""

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from egodata.errors import InputError
from egodata.progress import Progress, silent
from egodata.schema.layout import StorePaths
from egodata.vendors.files import is_inside

LABEL = "copy"
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """What was copied.

    Attributes:
        folder: The copy.
        files: Copied now.
        size_bytes: Of those.
        present: Were there already, with the same bytes.
        refused: Links that lead out of the delivery and things that are no plain files; they are not copied.
    """

    folder: Path
    files: int
    size_bytes: int
    present: int
    refused: int

    def to_json(self) -> dict[str, int]:
        """Return the counts."""
        return {"files": self.files, "bytes": self.size_bytes, "present": self.present, "refused": self.refused}


def keep_delivery(
    raw: Path, paths: StorePaths, *, vendor: str, delivery: str, without: Collection[Path] = (), progress: Progress = silent
) -> Kept:
    """Copy a delivery into ``raw/<vendor>/<delivery>``; what is there with the same bytes stays.

    Args:
        raw: The delivery's folder; one that lies in the store already stays where it is.
        paths: The store.
        vendor: Goes into the path.
        delivery: Goes into the path.
        without: Files of recordings that were not asked for.
        progress: Told after every file.

    Raises:
        InputError: The store holds other bytes under one of these names; a received file is never replaced.
        OSError: A file cannot be read or written.
    """
    root, folder = raw.resolve(), paths.raw / vendor / delivery
    if root.is_relative_to(paths.raw.resolve()):
        return Kept(root, 0, 0, 0, 0)
    left_out = {path.resolve() for path in without}
    found = sorted(_files(root))
    files = [path for path in found if is_inside(root, path) and path.is_file() and path.resolve() not in left_out]
    refused = sum(not (is_inside(root, path) and path.is_file()) for path in found)
    copied = size_bytes = 0
    for number, path in enumerate(files):
        progress(LABEL, number, len(files))
        if _keep(path, folder / path.relative_to(root)):
            copied, size_bytes = copied + 1, size_bytes + path.stat().st_size
    progress(LABEL, len(files), len(files))
    return Kept(folder, copied, size_bytes, len(files) - copied, refused)


def _files(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        yield from (Path(folder, name) for name in files)
        yield from (Path(folder, name) for name in names if os.path.islink(os.path.join(folder, name)))


def _keep(source: Path, target: Path) -> bool:
    """Copy one file by way of a temporary one; say False if it is there already."""
    if target.is_file():
        if target.stat().st_size != source.stat().st_size or _sha256(target) != _sha256(source):
            raise InputError(
                f"{target}: the store holds other bytes under this name, and received files stay. Name this delivery with --delivery."
            )
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        shutil.copyfile(source, temporary)
        shutil.copystat(source, temporary)
        temporary.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
