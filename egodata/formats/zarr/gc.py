"""Removing versions that nothing names: neither the episode's link, nor a dataset, nor a lease."""

import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass

from filelock import FileLock, Timeout

from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError
from egodata.formats.zarr import versions as on_disk
from egodata.progress import Progress, silent, tracked
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths

Named = Callable[[], Collection[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Freed:
    """One version that was removed, or would be.

    Attributes:
        episode_id: The episode.
        version: Its folder's name, ``<content16>-<n>``.
        size_bytes: Bytes that only this version held: files shared with another one by hard link do not count.
        why: ``superseded`` by a newer one that nothing else names, or ``damaged`` without an integrity record.
    """

    episode_id: str
    version: str
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What `collect_garbage` did.

    Attributes:
        freed: Versions removed, or that would be.
        busy: Episodes that another process was writing; nothing of them was touched.
        leftovers: Files of killed writers that were removed.
    """

    freed: tuple[Freed, ...]
    busy: tuple[str, ...]
    leftovers: int

    @property
    def size_bytes(self) -> int:
        """Bytes freed in all."""
        return sum(item.size_bytes for item in self.freed)


def collect_garbage(paths: StorePaths, named: Named, *, dry_run: bool = False, progress: Progress = silent) -> Collected:
    """Remove versions of episodes that nothing names; of equal contents the newest intact build stays.

    Args:
        paths: The store.
        named: Gives the (episode id, content) that datasets and leases name. It is asked again under each episode's lock, right before
            something is removed, so that a dataset frozen meanwhile counts.
        dry_run: Only say what would be removed.
        progress: Told per episode.
    """
    root = paths.zarr / ".v"
    ids = sorted_ids(os.listdir(root)) if root.is_dir() else []
    freed: list[Freed] = []
    busy: list[str] = []
    leftovers = 0
    for episode_id in tracked(ids, label="gc", progress=progress):
        folder = paths.episode_versions(episode_id)
        try:
            with FileLock(str(folder / ".lock"), timeout=0, mode=0o666):
                leftovers += 0 if dry_run else len(on_disk.remove_leftovers(paths, episode_id))
                freed += _collect_one(paths, episode_id, named, dry_run=dry_run)
        except Timeout:
            busy.append(episode_id)
    return Collected(tuple(freed), tuple(busy), leftovers)


def _collect_one(paths: StorePaths, episode_id: str, named: Named, *, dry_run: bool) -> list[Freed]:
    versions = on_disk.list_versions(paths, episode_id)
    try:
        current = on_disk.current_version(paths, episode_id).folder.name
    except EpisodeNotFoundError:
        current = ""  # withdrawn, or its first publish was killed before the link
    except CorruptEpisodeError:
        return []  # its link points at nothing: whatever is left may be all there is
    candidates = [version for version in versions if version.folder.name != current]
    if not candidates:
        return []
    wanted = {content for episode, content in named() if episode == episode_id}
    kept_builds = {_newest_intact(versions, content) for content in wanted}
    out = []
    for version in candidates:
        content = _content(version)
        if content in wanted and (version.folder.name in kept_builds or None in kept_builds):
            continue
        why = "superseded" if content else "damaged"
        out.append(Freed(episode_id, version.folder.name, own_bytes(version), why))
        if not dry_run:
            _remove(version)
    return out


def _content(version: on_disk.Version) -> str:
    try:
        return on_disk.read_integrity(version).content
    except CorruptEpisodeError:
        return ""


def _newest_intact(versions: list[on_disk.Version], content: str) -> str | None:
    """Name the newest build of a content whose files all verify; None if there is no such build, which keeps all of them."""
    for version in reversed(versions):
        same = content.startswith(version.prefix) and _content(version) == content
        if same and not on_disk.check_files(version, on_disk.read_integrity(version)):
            return version.folder.name
    return None


def own_bytes(version: on_disk.Version) -> int:
    """Bytes on disk that go away with a version: its files that no other version shares."""
    sizes = 0
    for folder, _, names in os.walk(version.folder):
        for name in names:
            found = os.lstat(os.path.join(folder, name))
            sizes += found.st_size if found.st_nlink == 1 else 0
    return sizes


def _remove(version: on_disk.Version) -> None:
    """Rename, then remove, so that a killed gc leaves nothing that looks like a version."""
    doomed = version.folder.with_name(on_disk.DOOMED)
    shutil.rmtree(doomed, ignore_errors=True)
    os.rename(version.folder, doomed)
    shutil.rmtree(doomed)
