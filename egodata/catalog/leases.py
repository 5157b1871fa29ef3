"""Leases: a process that reads a dataset says so, and what the dataset holds is not removed while it lives.

A lease is a file that its holder keeps locked (flock), so it ends with the process; its body names every episode and content.
"""

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from egodata.catalog.manifest import Manifest, manifest_from_bytes
from egodata.catalog.withdrawn import is_withdrawn
from egodata.errors import EgodataError, GateError
from egodata.schema.canonical import canonical_json
from egodata.schema.layout import StorePaths, write_atomic

_SUFFIX = ".lease"


@dataclass(frozen=True, slots=True)
class Kept:
    """Why a content may not be removed.

    Attributes:
        episode_id: The episode.
        content: Content digest.
        by: ``dataset name@version`` or ``lease of process N on name@version``.
    """

    episode_id: str
    content: str
    by: str


def lease_folder(paths: StorePaths) -> Path:
    """Where leases lie."""
    return paths.ledger / "leases"


@contextmanager
def lease(paths: StorePaths, manifest: Manifest) -> Iterator[Path]:
    """Hold a lease on everything that a dataset names; gives its file.

    Args:
        paths: The store.
        manifest: The dataset.
    """
    path = lease_folder(paths) / f"{manifest.name}--{manifest.version}--{os.getpid()}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
    episodes = [[episode.episode_id, episode.content] for members in manifest.heads.values() for episode in members]
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock", mode=0o666)
    with lock:
        write_atomic(
            path, canonical_json({"dataset": manifest.ref, "digest": manifest.digest, "process": os.getpid(), "episodes": episodes})
        )
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)
            Path(lock.lock_file).unlink(missing_ok=True)


def held_leases(paths: StorePaths) -> list[Kept]:
    """Return what live leases keep; leases of dead processes are known by their free lock and removed."""
    kept = []
    for path in sorted(lease_folder(paths).glob(f"*{_SUFFIX}")):
        lock = FileLock(f"{path}.lock", timeout=0, mode=0o666)
        try:
            with lock:
                path.unlink(missing_ok=True)
                Path(lock.lock_file).unlink(missing_ok=True)
        except Timeout:
            kept += _read(path)
    return kept


def _read(path: Path) -> list[Kept]:
    try:
        found = json.loads(path.read_bytes())
        by = f"lease of process {found['process']} on {found['dataset']}"
        return [Kept(str(episode_id), str(content), by) for episode_id, content in found["episodes"]]
    except FileNotFoundError:
        return []  # given back in between
    except (ValueError, KeyError, TypeError) as error:
        raise EgodataError(f"lease {path.name}: is held, but cannot be read ({error!r}). End its process, then repeat.") from error


def kept_contents(paths: StorePaths) -> list[Kept]:
    """Return every content that a dataset of the store or a live lease names.

    Raises:
        GateError: A manifest cannot be read: nobody knows what it names, so nothing may be removed.
    """
    kept = []
    for path in sorted(paths.datasets.glob("*/*/manifest.json")):
        if is_withdrawn(path):
            continue
        where = f"dataset {path.parent.parent.name}@{path.parent.name}"
        try:
            manifest = manifest_from_bytes(path.read_bytes(), where=where)
        except EgodataError as error:
            raise GateError(f"{error} Nothing is removed while it cannot be read.") from error
        kept += [Kept(episode.episode_id, episode.content, where) for members in manifest.heads.values() for episode in members]
    return kept + held_leases(paths)


def named_contents(paths: StorePaths) -> Callable[[], Collection[tuple[str, str]]]:
    """Return what gives the (episode id, content) of `kept_contents`, read again only when a manifest or a lease came, went or changed."""
    state: dict[str, Any] = {}

    def look() -> list[tuple[str, int, int]]:
        files = [*paths.datasets.glob("*/*/manifest.json"), *lease_folder(paths).glob(f"*{_SUFFIX}")]
        return sorted((str(path), found.st_mtime_ns, found.st_ino) for path in files if (found := _stat(path)) is not None)

    def named() -> Collection[tuple[str, str]]:
        if state.get("seen") != (seen := look()):
            state["contents"] = {(kept.episode_id, kept.content) for kept in kept_contents(paths)}
            state["seen"] = seen
        contents: set[tuple[str, str]] = state["contents"]
        return contents

    return named


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
