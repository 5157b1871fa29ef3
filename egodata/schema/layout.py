"""Where things lie in a store."""

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egodata.errors import InputError, NotFoundError
from egodata.names import shell_word
from egodata.schema.ids import check_dataset_name, check_dataset_version, check_episode_id

SCHEMA_VERSION = "v4.0"
STORE_SCHEMA = 1
ALGORITHMS = {"digests": 1, "hand_frame": 1, "splits": 1, "statistics": 1}
"""Versions of what numbers and identities come from, as `store.json` records them; docs/format.md, section 3, says what each means."""
CONTENT_PREFIX = 16
MARKER = "store.json"
_SCHEMA = re.compile(r"v(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class StorePaths:
    """Every path of a store, from its root."""

    root: Path

    @property
    def raw(self) -> Path:
        """Raw deliveries kept in the store (`--copy`)."""
        return self.root / "raw"

    @property
    def zarr(self) -> Path:
        """Links to published zarr episodes."""
        return self.root / "zarr"

    @property
    def lance(self) -> Path:
        """The four Lance tables."""
        return self.root / "lance_v2"

    @property
    def ledger(self) -> Path:
        """Ingest ledger and waivers."""
        return self.root / "ledger"

    @property
    def reports(self) -> Path:
        """Reports, one folder per kind."""
        return self.root / "reports"

    @property
    def cache(self) -> Path:
        """Anything that can be rebuilt."""
        return self.root / "cache"

    @property
    def runs(self) -> Path:
        """Training runs."""
        return self.root / "runs"

    @property
    def dagster(self) -> Path:
        """Dagster home."""
        return self.root / "dagster"

    @property
    def catalog(self) -> Path:
        """What is known about episodes and deliveries from elsewhere: the imported registry, licence and consent."""
        return self.root / "catalog"

    @property
    def datasets(self) -> Path:
        """Frozen datasets."""
        return self.root / "datasets"

    def episode_link(self, episode_id: str) -> Path:
        """Relative link to the current version of a zarr episode."""
        return self.zarr / f"{check_episode_id(episode_id)}.zarr"

    def episode_versions(self, episode_id: str) -> Path:
        """Folder of all versions of a zarr episode, its lock included."""
        return self.zarr / ".v" / check_episode_id(episode_id)

    def manifest(self, name: str, version: str) -> Path:
        """Manifest of a frozen dataset."""
        return self.datasets / check_dataset_name(name) / check_dataset_version(version) / "manifest.json"

    def norm_stats(self, name: str, version: str) -> Path:
        """Folder of norm statistics of a dataset."""
        return self.root / "norm_stats" / check_dataset_name(name) / check_dataset_version(version)

    def quarantine(self, vendor: str, delivery: str, recording: str) -> Path:
        """Quarantine record of one recording."""
        return self.root / "quarantine" / vendor / delivery / f"{check_episode_id(recording)}.json"


def open_root(root: Path | str, *, create: bool = False) -> StorePaths:
    """Open a store's root folder, or make a new one.

    Args:
        root: The folder.
        create: Make it, with `store.json`, if it is not there.

    Raises:
        NotFoundError: It is not a store and `create` is False.
        InputError: It was written by a newer schema, or cannot be written to.
    """
    paths = StorePaths(Path(root).absolute())
    if not (paths.root / MARKER).exists():
        if not create:
            raise NotFoundError(
                f"store {root}: no store.json there. Make one with `egodata ingest RAW --vendor V --store {shell_word(root)}`."
            )
        try:
            paths.root.mkdir(parents=True, exist_ok=True)
            write_marker(paths, current_marker())
        except OSError as error:
            raise InputError(f"store {paths.root}: cannot be written ({error.strerror}). Choose a folder you own.") from error
    found = read_marker(paths)
    if found.get("store_schema", 0) > STORE_SCHEMA:
        raise InputError(
            f"store {root}: written by schema {found['store_schema']}, this egodata reads up to {STORE_SCHEMA}. Upgrade egodata."
        )
    if (newer := _newer(found)) is not None:
        raise InputError(f"store {root}: {newer}. Upgrade egodata.")
    return paths


def current_marker() -> dict[str, Any]:
    """Return what `store.json` of a new store says."""
    return {"store_schema": STORE_SCHEMA, "episode_schema": SCHEMA_VERSION, "algorithms": dict(ALGORITHMS)}


def read_marker(paths: StorePaths) -> dict[str, Any]:
    """Return what `store.json` says.

    Raises:
        InputError: It is not JSON of that shape.
    """
    try:
        found = json.loads((paths.root / MARKER).read_text("utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get("store_schema", 0), int):
            raise ValueError("expected an object with a whole number store_schema")
        algorithms = found.get("algorithms", {})
        if not isinstance(algorithms, dict) or not all(isinstance(number, int) for number in algorithms.values()):
            raise ValueError("expected algorithms to be whole numbers by name")
    except (ValueError, RecursionError) as error:
        raise InputError(f"store {paths.root}: store.json is not JSON ({error}). Restore it from a backup or remove it.") from error
    return found


def write_marker(paths: StorePaths, body: dict[str, Any]) -> None:
    """Write `store.json`; a reader sees the old one or the new one."""
    write_atomic(paths.root / MARKER, json.dumps(body, indent=1, sort_keys=True).encode() + b"\n")


def schema_order(text: str) -> tuple[int, int] | None:
    """Return an episode schema such as ``v4.0`` as numbers that compare, None where it is no such text."""
    match = _SCHEMA.fullmatch(text)
    return None if match is None else (int(match[1]), int(match[2]))


def _newer(found: dict[str, Any]) -> str | None:
    """Say what of a store this egodata is too old for; a name that it does not know is that too."""
    here, known = schema_order(str(found.get("episode_schema", SCHEMA_VERSION))), schema_order(SCHEMA_VERSION)
    if here is not None and known is not None and here > known:
        return f"holds episodes of schema {found['episode_schema']}, this egodata reads up to {SCHEMA_VERSION}"
    for name, number in sorted(found.get("algorithms", {}).items()):
        if number > ALGORITHMS.get(name, 0):
            return f"its {name} are of algorithm {number}, this egodata knows up to {ALGORITHMS.get(name, 0)}"
    return None


def require_writable(paths: StorePaths) -> None:
    """Say at the start, before work is done, that a store cannot be written to.

    Raises:
        InputError: The root folder is read-only for this user.
    """
    if not os.access(paths.root, os.W_OK | os.X_OK):
        raise InputError(f"store {paths.root}: not writable for this user. Choose a folder you own.")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old bytes or the new ones, never a part.

    The bytes are flushed to disk before the rename; a temporary file left by a killed process has the suffix ``.tmp``.
    """
    with _staged(path, data) as temporary:
        os.replace(temporary, path)


def write_once(path: Path, data: bytes) -> bool:
    """Write a file that must not exist yet; say False if it does. A hard link makes it appear whole or not at all."""
    with _staged(path, data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    return True


@contextmanager
def _staged(path: Path, data: bytes) -> Iterator[Path]:
    """Flush bytes to a temporary file beside a path; what is left of it goes away afterwards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
