"""Upkeep of the Lance copy: merging small files, and removing versions that nothing names. Both check that nothing else changed.

Compaction rewrites `videos`, `frames`, `annotations` and `episodes` in that order and ends with an `episodes` commit that names the new
versions, so a reader sees the tables before it or after it, and a kill in the middle is swept by the next build like any other.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
from filelock import FileLock, Timeout

from egodata.errors import ConflictError, CorruptEpisodeError
from egodata.formats.lance import build
from egodata.formats.lance.commit import replace_episodes, restore, writing
from egodata.formats.lance.positions import episode_rows
from egodata.formats.lance.tables import (
    DATA_TABLES,
    EPISODES,
    TABLES,
    VIDEO_COLUMN,
    VIDEOS,
    committed_versions,
    named_versions,
    open_table,
    reading,
    shared_session,
    table_path,
    table_versions,
    version_property,
)
from egodata.progress import Progress, silent, tracked
from egodata.schema.layout import StorePaths, require_writable

DEFAULT_KEEP = 3
"""How many of the newest `episodes` commits keep their versions."""
_BLOBS_AT_ONCE = 8
_NEVER = timedelta(days=365 * 200)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compaction did.

    Attributes:
        files: Data files before and after, by table.
        versions: Version by table afterwards.
        blobs: Video elements whose digests were compared before and after.
    """

    files: Mapping[str, tuple[int, int]]
    versions: Mapping[str, int]
    blobs: int

    @property
    def wrote(self) -> bool:
        """Whether any table was rewritten."""
        return any(before != after for before, after in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        files = {table: {"before": before, "after": after} for table, (before, after) in self.files.items()}
        return {"files": files, "versions": dict(self.versions), "blobs": self.blobs}


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What cleanup did, or would do.

    Attributes:
        removed: Versions removed, by table, sorted.
        kept: Versions kept, by table, sorted.
        size_bytes: Bytes that the tables shrank by; 0 for a dry run.
        unfound: (episode id, content) pairs that datasets name and no live version holds.
        blobs: Video elements whose digests were checked afterwards.
    """

    removed: Mapping[str, tuple[int, ...]]
    kept: Mapping[str, tuple[int, ...]]
    size_bytes: int
    unfound: tuple[tuple[str, str], ...]
    blobs: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "removed": {table: list(found) for table, found in self.removed.items()},
            "kept": {table: list(found) for table, found in self.kept.items()},
            "bytes": self.size_bytes,
            "unfound": [list(pair) for pair in self.unfound],
            "blobs": self.blobs,
        }


def compact_lance(paths: StorePaths, *, progress: Progress = silent) -> Compacted:
    """Merge small data files of all four tables and drop deleted rows, then commit `episodes`.

    Ids, row order and counts, and the digest of every video element are compared before that commit; where one differs nothing becomes
    visible. Versions that datasets name stay as they are.

    Args:
        paths: The store.
        progress: Told per table.

    Raises:
        ConflictError: Another program holds the lock, or changed a table meanwhile.
        CorruptEpisodeError: Compaction changed what the tables hold; the former versions stay in force.
        NotFoundError: The store has no Lance copy.
    """
    with _locked(paths):
        before = table_versions(paths)
        newest = {table: open_table(paths, table) for table in TABLES}
        stray = [table for table in TABLES if newest[table].version != before[table]]
        for table in stray:
            newest[table] = restore(newest[table], before[table])
        files, blobs, changed = {}, 0, bool(stray)
        for table in tracked(TABLES, label="lance compact", progress=progress):
            counted = len(newest[table].get_fragments())
            after = _compacted(paths, newest[table])
            blobs += _require_same(newest[table], after)
            files[table] = (counted, len(after.get_fragments()))
            changed |= after.version != newest[table].version
            newest[table] = after
        if changed:
            properties = {version_property(table): str(newest[table].version) for table in DATA_TABLES}
            newest[EPISODES] = replace_episodes(newest[EPISODES], [], fragments=[], properties=properties)
        return Compacted(files, {table: int(newest[table].version) for table in TABLES}, blobs)


def _compacted(paths: StorePaths, dataset: lance.LanceDataset) -> lance.LanceDataset:
    """Return the table after compaction; the handle that was given stays at its version."""
    worker = lance.dataset(dataset.uri, session=shared_session())
    if worker.version != dataset.version:
        raise ConflictError(
            f"Lance table {dataset.uri}: another program changed it after version {dataset.version}. Stop it and try again."
        )
    with writing(dataset):
        worker.optimize.compact_files(materialize_deletions_threshold=0.0, num_threads=1)
    return open_table(paths, Path(dataset.uri).stem)


def _require_same(before: lance.LanceDataset, after: lance.LanceDataset) -> int:
    """Compare two versions of a table; return how many blobs were hashed.

    Raises:
        CorruptEpisodeError: Ids, their order, a count or a blob differs.
    """
    if before.version == after.version:
        return 0
    expected, got = episode_rows(before), episode_rows(after)
    if list(expected.items()) != list(got.items()):
        names = sorted(set(expected) ^ set(got)) or [name for name in expected if expected[name] != got[name]]
        shown = f"first at episode {names[0]}" if names else "in another order"
        raise CorruptEpisodeError(
            f"Lance table {after.uri}: compaction changed its rows, {shown}; version {before.version} stays in force. Report it."
        )
    return check_blobs(after) if Path(after.uri).stem == VIDEOS else 0


def check_blobs(videos: lance.LanceDataset) -> int:
    """Hash every video element of a version of `videos`.

    Returns:
        How many there are.

    Raises:
        CorruptEpisodeError: One is not what its row's `sha256` says.
    """
    with reading(videos):
        known = videos.to_table(columns=["episode_id", "camera", "chunk_index", "sha256"]).to_pylist()
        for start in range(0, len(known), _BLOBS_AT_ONCE):
            rows = known[start : start + _BLOBS_AT_ONCE]
            found = videos.read_blobs(VIDEO_COLUMN, indices=list(range(start, start + len(rows))))
            for row, (_, data) in zip(rows, found, strict=True):
                if data is None or hashlib.sha256(data).hexdigest() != row["sha256"]:
                    raise CorruptEpisodeError(
                        f"Lance table {videos.uri} version {videos.version}: episode {row['episode_id']}: camera {row['camera']}: "
                        f"element {row['chunk_index']} is not what its digest says. Remove lance_v2 and build it again."
                    )
    return len(known)


def cleanup_lance(
    paths: StorePaths,
    *,
    named: Collection[tuple[str, str]] = (),
    recorded: Collection[Mapping[str, int]] = (),
    keep: int = DEFAULT_KEEP,
    dry_run: bool = False,
    progress: Progress = silent,
) -> Cleaned:
    """Remove table versions that nothing names, and the data files of killed builds.

    Kept are the versions that the newest `keep` commits of `episodes` name, every tagged version and what belongs to it, the versions that
    manifests recorded, and for each content that a dataset or a lease names and none of those holds, the newest version that does.

    Args:
        paths: The store.
        named: (episode id, content) that datasets and live leases name.
        recorded: Table versions that manifests recorded.
        keep: How many of the newest commits keep their versions, at least 1.
        dry_run: Only say what would be removed.
        progress: Told per table.

    Raises:
        ConflictError: Another program holds the lock.
        CorruptEpisodeError: A kept version does not hold afterwards what it held before.
        NotFoundError: The store has no Lance copy.
    """
    with _locked(paths):
        sets = committed_versions(paths)
        chosen, unfound = _chosen(paths, sets, named=named, recorded=recorded, keep=max(1, keep))
        kept, removed = _divided(paths, chosen)
        if dry_run:
            return Cleaned(removed, kept, 0, unfound, 0)
        before = [_held(paths, versions) for versions in chosen]
        size_bytes = _size_bytes(paths)
        for table in tracked(TABLES, label="lance cleanup", progress=progress):
            handle = open_table(paths, table)
            with writing(handle):  # the lock is held, so files without a version belong to nobody who lives
                chosen_here: dict[str, Any] = {"versions": list(removed[table])} if removed[table] else {"older_than": _NEVER}
                handle.cleanup_old_versions(**chosen_here, delete_unverified=True, error_if_tagged_old_versions=False)
        for versions, held in zip(chosen, before, strict=True):
            if _held(paths, versions) != held:
                raise CorruptEpisodeError(
                    f"store {paths.root}: cleanup changed what {dict(versions)} holds. Remove lance_v2 and build again."
                )
        blobs = sum(check_blobs(open_table(paths, VIDEOS, version=version)) for version in sorted({one[VIDEOS] for one in chosen}))
        return Cleaned(removed, kept, size_bytes - _size_bytes(paths), unfound, blobs)


def _chosen(
    paths: StorePaths,
    sets: Sequence[Mapping[str, int]],
    *,
    named: Collection[tuple[str, str]],
    recorded: Collection[Mapping[str, int]],
    keep: int,
) -> tuple[list[Mapping[str, int]], tuple[tuple[str, str], ...]]:
    """Return the version sets to keep, newest first, and the contents that no version set holds."""
    tagged = set()
    episodes = open_table(paths, EPISODES)
    for tag in episodes.tags.list().values():
        tagged.add(int(tag["version"]))
    wanted = [dict(versions) for versions in recorded]
    kept = [place < keep or versions[EPISODES] in tagged or dict(versions) in wanted for place, versions in enumerate(sets)]
    missing = set(named)
    for flag, versions in zip(kept, sets, strict=True):
        if flag and missing:
            missing -= _contents(episodes, versions)
    for place, versions in enumerate(sets):
        if missing and not kept[place] and (found := _contents(episodes, versions) & missing):
            kept[place], missing = True, missing - found
    return [versions for flag, versions in zip(kept, sets, strict=True) if flag], tuple(sorted(missing))


def _contents(episodes: lance.LanceDataset, versions: Mapping[str, int]) -> set[tuple[str, str]]:
    table = episodes.checkout_version(versions[EPISODES]).to_table(columns=["episode_id", "content"])
    return set(zip(table["episode_id"].to_pylist(), table["content"].to_pylist(), strict=True))


def _divided(paths: StorePaths, chosen: Sequence[Mapping[str, int]]) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Return kept and removed versions by table. A tag on any one table keeps its version, and a newest version is never removed."""
    kept, removed = {}, {}
    for table in TABLES:
        handle = open_table(paths, table)
        everything = {int(item["version"]) for item in handle.versions()}
        stay = {versions[table] for versions in chosen} | {int(tag["version"]) for tag in handle.tags.list().values()} | {max(everything)}
        kept[table] = tuple(sorted(everything & stay))
        removed[table] = tuple(sorted(everything - stay))
    return kept, removed


def _held(paths: StorePaths, versions: Mapping[str, int]) -> Mapping[str, Any]:
    """Return ids, order and counts of every table at one version set, and which versions it names."""
    named = named_versions(open_table(paths, EPISODES, version=versions[EPISODES]))
    return {"named": named, **{table: tuple(episode_rows(open_table(paths, table, version=versions[table])).items()) for table in TABLES}}


def _size_bytes(paths: StorePaths) -> int:
    return sum(found.stat().st_size for table in TABLES for found in _files(table_path(paths, table)))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


@contextmanager
def _locked(paths: StorePaths) -> Iterator[None]:
    """Hold the committer's lock of a store."""
    require_writable(paths)
    table_versions(paths)  # says so where there is no copy, before a folder is made for the lock
    try:
        with FileLock(paths.lance / ".lock", timeout=build.LOCK_WAIT_S):
            yield
    except Timeout as error:
        raise ConflictError(f"store {paths.root}: another Lance build holds {paths.lance / '.lock'}. Wait for it to end.") from error
