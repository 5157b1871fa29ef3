"""Versions of an episode on disk: where they lie, what is in them, which one is current, who may write.

``zarr/<id>.zarr`` is a relative link to ``zarr/.v/<id>/<content16>-<n>/episode.zarr``; ``integrity.json`` lies beside that folder.
A version is built in ``.build`` under the episode's lock, flushed to disk, renamed to its name, then linked by `os.replace`.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from egodata.errors import ConflictError, CorruptEpisodeError, EpisodeNotFoundError, SchemaError
from egodata.names import shell_word
from egodata.schema.canonical import canonical_json
from egodata.schema.ids import case_collisions, check_episode_id
from egodata.schema.layout import CONTENT_PREFIX, StorePaths

LOCK_TIMEOUT_S = 3600.0
GROUP, INTEGRITY, BUILD, DOOMED = "episode.zarr", "integrity.json", ".build", ".removed"
ZARR, SUFFIX = "zarr", ".zarr"
_NAME = re.compile(r"([0-9a-f]{16})-([1-9][0-9]*)")
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """One complete version: ``<content16>-<n>``.

    Attributes:
        folder: Its folder; holds `GROUP` and `INTEGRITY`.
        prefix: First 16 hex digits of the content digest.
        number: Build number, counted over all versions of the episode.
    """

    folder: Path
    prefix: str
    number: int

    @property
    def group(self) -> Path:
        """The zarr group."""
        return self.folder / GROUP


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Integrity:
    """What a version holds: its content digest and every file below `GROUP`, by path relative to it."""

    content: str
    files: Mapping[str, FileRecord]


def list_versions(paths: StorePaths, episode_id: str) -> list[Version]:
    """Return the complete versions of an episode, oldest build first."""
    folder = paths.episode_versions(episode_id)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [Version(folder / name, match[1], int(match[2])) for name in names if (match := _NAME.fullmatch(name))]
    return sorted(found, key=lambda version: version.number)


def current_version(paths: StorePaths, episode_id: str) -> Version:
    """Follow the episode's link once.

    Raises:
        EpisodeNotFoundError: No such episode.
        CorruptEpisodeError: The link points at nothing, or is not a link of this format.
    """
    root = os.path.join(paths.root, ZARR)  # text, not Path: half of the time that opening an episode takes
    link = os.path.join(root, f"{check_episode_id(episode_id)}{SUFFIX}")
    try:
        target = os.readlink(link)
    except FileNotFoundError as error:
        raise EpisodeNotFoundError(f"episode {episode_id}: not in {paths.zarr}. See `egodata inspect {shell_word(paths.root)}`.") from error
    except OSError as error:
        raise CorruptEpisodeError(
            f"episode {episode_id}: {episode_id}{SUFFIX} is no link ({error.strerror}). Old stores need a migration."
        ) from error
    version = os.path.dirname(target)
    match = _NAME.fullmatch(os.path.basename(version))
    if match is None or not os.path.isdir(os.path.join(root, target)):
        raise CorruptEpisodeError(f"episode {episode_id}: its link points at {target}, which is not there. Rebuild the episode.")
    return Version(Path(root, version), match[1], int(match[2]))


def read_integrity(version: Version) -> Integrity:
    """Read a version's integrity.json.

    Raises:
        CorruptEpisodeError: Missing or malformed.
    """
    path = version.folder / INTEGRITY
    try:
        found = json.loads(path.read_bytes())
        files = {name: FileRecord(int(item["size"]), str(item["sha256"])) for name, item in found["files"].items()}
        return Integrity(str(found["content"]), files)
    except FileNotFoundError as error:
        raise CorruptEpisodeError(f"version {version.folder.name} of {version.folder.parent.name}: {INTEGRITY} is missing.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptEpisodeError(
            f"version {version.folder.name} of {version.folder.parent.name}: {INTEGRITY} is malformed ({error!r})."
        ) from error


@contextmanager
def episode_lock(paths: StorePaths, episode_id: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[Path]:
    """Hold an episode's kernel lock; gives its versions folder, with leftovers of killed runs removed.

    Raises:
        SchemaError: Another id in the store is equal when case is ignored.
        ConflictError: Another process holds the lock for longer than the timeout.
    """
    folder = paths.episode_versions(episode_id)
    _check_collision(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(str(folder / ".lock"), timeout=timeout_s, mode=0o666):
            remove_leftovers(paths, episode_id)
            yield folder
    except Timeout as error:
        raise ConflictError(
            f"episode {episode_id}: another process has been writing it for {timeout_s:.0f} s. Wait for it or end it."
        ) from error


def _check_collision(folder: Path) -> None:
    if not folder.parent.is_dir():
        return
    for pair in case_collisions([*os.listdir(folder.parent), folder.name]):
        if folder.name in pair:
            other = pair[0] if pair[1] == folder.name else pair[1]
            raise SchemaError(f"episode {folder.name}: the store already has {other}, equal when case is ignored. Rename the recording.")


def _link_temporary(paths: StorePaths, episode_id: str) -> Path:
    return paths.zarr / f".{episode_id}.zarr.link"


def remove_leftovers(paths: StorePaths, episode_id: str) -> list[str]:
    """Remove what killed writers left of an episode and return the names. The lock is held."""
    folder, removed = paths.episode_versions(episode_id), []
    for path in (folder / BUILD, folder / DOOMED, _link_temporary(paths, episode_id)):
        if path.is_symlink() or path.exists():
            removed.append(path.name)
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return removed


def clean_leftovers(paths: StorePaths, episode_id: str) -> list[str]:
    """Remove what a killed run left of an episode, known by holding its lock; returns the names removed.

    Raises:
        EpisodeNotFoundError: Nothing of that id is in the store.
        ConflictError: A process is writing the episode.
    """
    folder = paths.episode_versions(episode_id)
    if not folder.is_dir():
        raise EpisodeNotFoundError(f"episode {episode_id}: nothing of it in {paths.zarr}.")
    try:
        with FileLock(str(folder / ".lock"), timeout=0, mode=0o666):
            return remove_leftovers(paths, episode_id)
    except Timeout as error:
        raise ConflictError(f"episode {episode_id}: another process is writing it. Wait for it or end it.") from error


def group_files(group: Path) -> list[str]:
    """Return every file below a group, links and odd files included, as sorted relative POSIX paths."""
    found = []
    for folder, names, files in os.walk(group):
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        found += [Path(folder, name).relative_to(group).as_posix() for name in (*files, *links)]
    return sorted(found)


def hash_file(path: Path) -> FileRecord:
    """Return size and SHA-256 of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
            size += len(block)
    return FileRecord(size, digest.hexdigest())


def check_files(version: Version, integrity: Integrity) -> list[tuple[str, str, str, str]]:
    """Compare a version's files with its integrity record.

    Returns:
        (code, path, expected, got) for each missing, changed and unlisted file; empty if all is well.
    """
    present = set(group_files(version.group))
    problems = []
    for name, record in sorted(integrity.files.items()):
        path = version.group / name
        if name not in present:
            problems.append(("file-missing", name, f"{record.size} bytes", "no file"))
        elif path.is_symlink() or (found := hash_file(path)) != record:
            got = "a link" if path.is_symlink() else f"{found.size} bytes, sha256 {found.sha256[:12]}"
            problems.append(("file-changed", name, f"{record.size} bytes, sha256 {record.sha256[:12]}", got))
    problems += [("file-unlisted", name, "no such file", "a file") for name in sorted(present - set(integrity.files))]
    return problems


def seal(build: Path, *, content: str, known: Mapping[str, FileRecord] | None = None) -> None:
    """Write integrity.json of a finished build and flush files and folders to disk.

    Args:
        build: Folder with `GROUP`.
        content: Content digest of the episode.
        known: Records of files shared by hard link, which are neither read nor flushed again.
    """
    group, shared = build / GROUP, known or {}
    files = {}
    for name in group_files(group):
        record = shared.get(name)
        if record is None:
            record = hash_file(group / name)
            _flush(group / name)
        files[name] = {"size": record.size, "sha256": record.sha256}
    path = build / INTEGRITY
    path.write_bytes(canonical_json({"content": content, "files": files}) + b"\n")
    _flush(path)
    for folder, _, _ in os.walk(build):
        _flush(Path(folder))


def publish_build(paths: StorePaths, episode_id: str, *, content: str) -> Version:
    """Give a sealed build its name and point the episode's link at it. The lock is held."""
    versions = list_versions(paths, episode_id)
    number = max((version.number for version in versions), default=0) + 1
    folder = paths.episode_versions(episode_id)
    version = Version(folder / f"{content[:CONTENT_PREFIX]}-{number}", content[:CONTENT_PREFIX], number)
    os.rename(folder / BUILD, version.folder)
    _flush(folder)
    point_link(paths, episode_id, version=version)
    return version


def point_link(paths: StorePaths, episode_id: str, *, version: Version) -> None:
    """Swap the episode's link to a version, in one step. The lock is held."""
    temporary = _link_temporary(paths, episode_id)
    os.symlink(os.path.join(".v", episode_id, version.folder.name, GROUP), temporary)
    os.replace(temporary, paths.episode_link(episode_id))
    _flush(paths.zarr)


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
