"""Where things lie in a store."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from egodata.errors import InputError, NotFoundError
from egodata.names import shell_word
from egodata.schema.ids import check_dataset_name, check_dataset_version, check_episode_id

SCHEMA_VERSION = "v4.0"
STORE_SCHEMA = 1
CONTENT_PREFIX = 16


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
    marker = paths.root / "store.json"
    if not marker.exists():
        if not create:
            raise NotFoundError(
                f"store {root}: no store.json there. Make one with `egodata ingest RAW --vendor V --store {shell_word(root)}`."
            )
        _create(paths, marker)
    try:
        found = json.loads(marker.read_text("utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get("store_schema", 0), int):
            raise ValueError("expected an object with a whole number store_schema")
    except (ValueError, RecursionError) as error:
        raise InputError(f"store {root}: store.json is not JSON ({error}). Restore it from a backup or remove it.") from error
    if found.get("store_schema", 0) > STORE_SCHEMA:
        raise InputError(
            f"store {root}: written by schema {found['store_schema']}, this egodata reads up to {STORE_SCHEMA}. Upgrade egodata."
        )
    return paths


def _create(paths: StorePaths, marker: Path) -> None:
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        body = {"store_schema": STORE_SCHEMA, "episode_schema": SCHEMA_VERSION}
        write_atomic(marker, json.dumps(body, indent=1, sort_keys=True).encode() + b"\n")
    except OSError as error:
        raise InputError(f"store {paths.root}: cannot be written ({error.strerror}). Choose a folder you own.") from error


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
