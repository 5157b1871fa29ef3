"""Forgetting a person or an episode on request: out of every place of a store, old versions included, with a proof afterwards.

The order is such that a kill leaves the rest to be done by asking again: datasets are marked withdrawn first and files go last;
what is to go of the raw files is written down before.
"""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from egodata.catalog.known import load_known, save_registry
from egodata.catalog.leases import held_leases
from egodata.catalog.manifest import Manifest, manifest_from_bytes
from egodata.catalog.rows import CatalogRow, catalog_from_lance, catalog_from_store
from egodata.catalog.withdrawn import MARK, withdraw
from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import ConflictError, EgodataError, InputError, NotFoundError
from egodata.formats import open_store
from egodata.formats.lance import LanceStore, build_lance, cleanup_lance, committed_versions, compact_lance, drop_tag, tag_dataset
from egodata.formats.zarr.versions import episode_lock
from egodata.ingest.forget_raw import Begun, RawPlan, plan_raw, remove_raw
from egodata.ingest.forgotten import remember_forgotten
from egodata.ingest.ledger import known_recordings, read_entry
from egodata.names import nearest
from egodata.progress import Progress, silent, tracked
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths, require_writable, write_atomic

_PROBE_BYTES = 48
_PROBES = 64
"""About so many byte strings are looked for in every file of the store."""
_CARD = "card.html"
"""Beside a manifest; it shows pictures of episodes."""
_TEXT_SUFFIXES = (".json", ".html", ".csv", ".yaml", ".txt", ".md")


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed, and what stands for the rest.

    Attributes:
        episodes: Ids, sorted.
        withdrawn: Datasets that held one of them.
        kept: Datasets that did not, and open as before.
        runs: Training runs on withdrawn datasets: their checkpoints have seen the episodes.
        raw_outside: Raw files of theirs, or folders with only such, that are not the store's to remove.
        raw_shared: Raw files in the store that stay, because recordings of others use them too or because no recording names them:
            they still hold the subject, or may.
        raw_unread: Copied deliveries of which nobody can tell what is the subject's, and why; and files that could not be removed.
        removed: Files removed, by place.
        remains: Files that still hold bytes of an episode; empty is the proof.
        probes: Byte strings that were looked for.
    """

    episodes: tuple[str, ...]
    withdrawn: tuple[str, ...]
    kept: tuple[str, ...]
    runs: tuple[str, ...]
    raw_outside: tuple[str, ...]
    raw_shared: tuple[str, ...]
    raw_unread: tuple[str, ...]
    removed: Mapping[str, int]
    remains: tuple[str, ...]
    probes: int

    @property
    def complete(self) -> bool:
        """Whether nothing of the subject is left in the store, as far as anybody can tell."""
        return not (self.remains or self.raw_shared or self.raw_unread)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        lists = ("episodes", "withdrawn", "kept", "runs", "raw_outside", "raw_shared", "raw_unread", "remains")
        return {**{name: list(getattr(self, name)) for name in lists}, "removed": dict(self.removed), "probes": self.probes}


@dataclass(frozen=True, slots=True)
class _At:
    """The published zarr episodes, some of them at contents that a dataset recorded."""

    store: EpisodeStore
    contents: Mapping[str, str]

    def episode_ids(self) -> list[str]:
        return self.store.episode_ids()

    def open(self, episode_id: str, *, content: str | None = None) -> EpisodeReader:
        return self.store.open(episode_id, content=content or self.contents.get(episode_id))


def forget_episodes(
    paths: StorePaths, *, episode_id: str | None = None, operator: str | None = None, progress: Progress = silent
) -> Forgotten:
    """Remove an episode, or all episodes of an operator, from every place of a store.

    Args:
        paths: The store.
        episode_id: The episode.
        operator: As the catalog names it, such as ``mecka/6871...``; of the vendor or of a registry.
        progress: Told per step.

    Raises:
        InputError: Neither or both were given.
        NotFoundError: The store holds no such episode or operator, nor does a dataset.
        ConflictError: A running training holds a lease on one of them, or a writer its lock.
    """
    require_writable(paths)
    if (episode_id is None) == (operator is None):
        raise InputError("forget: expected one of an episode and an operator. Give --episode ID or --operator VENDOR/ID.")
    zarr = open_store(paths, "zarr")
    manifests = dict(_manifests(paths))
    begun = Begun(paths, episode_id=episode_id, operator=operator)
    before = begun.plan()
    ids = _subject(paths, zarr, manifests, episode_id=episode_id, operator=operator, begun=before)
    _require_no_lease(paths, ids)
    probes = _probes(paths, ids)
    affected = {path: manifest for path, manifest in manifests.items() if _members(manifest) & set(ids)}
    others = [manifest for path, manifest in manifests.items() if path not in affected and not path.with_name(MARK).is_file()]
    created = datetime.now(UTC).isoformat(timespec="seconds")
    for path, manifest in affected.items():
        if not path.with_name(MARK).is_file():
            withdraw(path, episodes=len(_members(manifest) & set(ids)), created=created)
    remember_forgotten(paths, recordings=_recordings_of(paths, ids), operators=[] if operator is None else [operator])
    raw = plan_raw(paths, ids, operator=operator).joined(before or RawPlan())
    begun.write(raw)
    gone, failed = remove_raw(paths, raw)
    removed = {"raw": gone, "ledger": _remove_records(paths, ids)}
    removed["zarr"] = sum(_remove_zarr(paths, name) for name in tracked(ids, label="forget zarr", progress=progress))
    if paths.lance.is_dir():
        _rewrite_lance(paths, zarr, affected.values(), others, progress=progress)
    refs = sorted(manifest.ref for manifest in affected.values())
    runs = tuple(sorted(_runs_on(paths, {manifest.digest for manifest in affected.values()})))
    _drop_from_registry(paths, ids)
    removed["caches"] = _remove_tree(paths.cache)
    removed["statistics"] = sum(_remove_tree(paths.norm_stats(manifest.name, manifest.version)) for manifest in affected.values())
    removed["reports"] = _remove_mentions(paths, ids) + sum(_remove_tree(path.with_name(_CARD)) for path in affected)
    remains = tuple(_remains(paths, probes))
    return Forgotten(
        tuple(ids),
        tuple(refs),
        tuple(sorted(manifest.ref for manifest in others)),
        runs,
        raw.outside,
        tuple(f"raw/{name}" for name in begun.done(paths, raw)),
        (*raw.unread, *failed),
        removed,
        remains,
        len(probes),
    )


def _manifests(paths: StorePaths) -> Iterator[tuple[Path, Manifest]]:
    for path in sorted(paths.datasets.glob("*/*/manifest.json")):
        yield path, manifest_from_bytes(path.read_bytes(), where=f"dataset {path.parent.parent.name}@{path.parent.name}")


def _members(manifest: Manifest) -> set[str]:
    return {episode.episode_id for members in manifest.heads.values() for episode in members}


def _subject(
    paths: StorePaths,
    zarr: EpisodeStore,
    manifests: Mapping[Path, Manifest],
    *,
    episode_id: str | None,
    operator: str | None,
    begun: RawPlan | None,
) -> list[str]:
    named = [episode for manifest in manifests.values() for members in manifest.heads.values() for episode in members]
    if episode_id is not None:
        known = {*zarr.episode_ids(), *(episode.episode_id for episode in named)}
        if episode_id not in known and not paths.episode_versions(episode_id).is_dir() and begun is None:
            raise NotFoundError(f"store {paths.root}: no episode {episode_id}; {nearest(episode_id, known)}")
        return [episode_id]
    copied = catalog_from_lance(paths) if paths.lance.is_dir() else []
    rows = load_known(paths).overlay([*catalog_from_store(zarr), *copied])
    found = {row.episode_id for row in rows if operator in (row.operator, row.vendor_operator)}
    found |= {episode.episode_id for episode in named if episode.operator == operator}
    if not found and begun is None:
        raise NotFoundError(f"store {paths.root}: no episode of operator {operator}; {nearest(str(operator), _operators(rows))}")
    return sorted_ids(found.union(begun.episodes if begun else ()))


def _operators(rows: Iterable[CatalogRow]) -> set[str]:
    return {name for row in rows for name in (row.operator, row.vendor_operator) if name}


def _require_no_lease(paths: StorePaths, ids: Sequence[str]) -> None:
    held = next((kept for kept in held_leases(paths) if kept.episode_id in set(ids)), None)
    if held is not None:
        raise ConflictError(f"episode {held.episode_id}: {held.by} is live. End that process, then ask again.")


def _probes(paths: StorePaths, ids: Sequence[str]) -> list[bytes]:
    """Return byte strings from the middle of the episodes' video elements, of every stored version: footage repeats nowhere by chance."""
    found = []
    for name in ids:
        for file in sorted(paths.episode_versions(name).glob("*/episode.zarr/images.*/c/*")):
            if file.is_file() and not file.is_symlink() and file.stat().st_size > 8 * _PROBE_BYTES:
                data = file.read_bytes()
                middle = len(data) // 2
                probe = data[middle : middle + _PROBE_BYTES]
                if len(set(probe)) > _PROBE_BYTES // 2:  # a run of zeros in a short file's header is in many files
                    found.append(probe)
    return found[:: max(1, len(found) // _PROBES)]


def _recordings_of(paths: StorePaths, ids: Sequence[str]) -> list[str]:
    """Return the recordings that episodes were cut from, as the ledger knows them; an id of its own where it does not."""
    entries = {name: read_entry(paths, name) for name in known_recordings(paths)}
    found = {name for name, entry in entries.items() if entry is not None and set(entry.episodes) & set(ids)}
    return sorted(found | {name for name in ids if not any(entry and name in entry.episodes for entry in entries.values())})


def _remove_records(paths: StorePaths, ids: Sequence[str]) -> int:
    """Remove ledger entries and quarantine records; return how many there were."""
    count, episodes = 0, set(ids)
    for recording in known_recordings(paths):
        entry = read_entry(paths, recording)
        if entry is not None and episodes & set(entry.episodes):
            (paths.ledger / "ingest" / f"{recording}.json").unlink(missing_ok=True)
            count += 1
    for name in ids:
        for path in (paths.root / "quarantine").glob(f"*/*/{name}.json"):
            path.unlink()
            count += 1
    return count


def _remove_zarr(paths: StorePaths, episode_id: str) -> int:
    folder = paths.episode_versions(episode_id)
    if not folder.is_dir():
        return 0
    with episode_lock(paths, episode_id):
        paths.episode_link(episode_id).unlink(missing_ok=True)
        return _remove_tree(folder)


def _remove_tree(folder: Path) -> int:
    """Remove a file or a folder; return how many files went."""
    if folder.is_file():
        folder.unlink()
        return 1
    count = sum(1 for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) if folder.is_dir() else 0
    shutil.rmtree(folder, ignore_errors=True)
    return count


def _rewrite_lance(
    paths: StorePaths, zarr: EpisodeStore, affected: Iterable[Manifest], others: Sequence[Manifest], *, progress: Progress
) -> None:
    """Make new versions without the episodes, for every dataset that stays and for now, and remove all former ones.

    A dataset that stays may hold contents that the present copy no longer has: the copy is built at its contents once, and tagged.
    """
    for manifest in [*affected, *others]:
        drop_tag(paths, manifest.digest)
    for manifest in others:
        if manifest.lance_versions is None:
            continue
        contents = {episode.episode_id: episode.content for members in manifest.heads.values() for episode in members}
        build_lance(paths, source=_At(zarr, contents), progress=progress)
        tag_dataset(paths, manifest.digest, versions=compact_lance(paths, progress=progress).versions)
    build_lance(paths, progress=progress)
    compact_lance(paths, progress=progress)
    cleanup_lance(paths, keep=1, progress=progress)


def _drop_from_registry(paths: StorePaths, ids: Sequence[str]) -> None:
    registry = load_known(paths).registry
    keep = [name not in set(ids) for name in registry["episode_id"].to_pylist()]
    if not all(keep):
        save_registry(paths, registry.filter(keep))


def _runs_on(paths: StorePaths, digests: set[str]) -> Iterator[str]:
    for path in paths.runs.glob("*/dataset.json"):
        try:
            if json.loads(path.read_text()).get("digest") in digests:
                yield path.parent.name
        except (ValueError, AttributeError):
            continue


def _remove_mentions(paths: StorePaths, ids: Sequence[str]) -> int:
    """Remove reports, previews and pictures of runs that name an episode, and the whole parity table where it does."""
    words, count = [name.encode() for name in ids], 0
    for root in (paths.reports, paths.ledger, paths.runs):
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            if not path.is_file() or ".lance" in path.as_posix() or path.suffix == ".lock":
                continue
            named = any(name in path.name for name in ids)
            if path.suffix == ".jsonl" and not named:
                count += _drop_lines(path, words)  # such as waivers: those of other episodes stay
            elif named or (path.suffix in _TEXT_SUFFIXES and root != paths.runs and _holds(path, words)):
                path.unlink()
                count += 1
    table = paths.reports / "parity.lance"
    if table.is_dir():
        with FileLock(paths.reports / ".parity.lock"):
            if any(_holds(path, words) for path in table.rglob("*") if path.is_file()):
                count += _remove_tree(table)
    return count


def _drop_lines(path: Path, words: Sequence[bytes]) -> int:
    """Remove the lines that hold one of the words as a whole; return 1 if there were any."""
    named = re.compile(rb"(?<![\w-])(?:" + b"|".join(map(re.escape, words)) + rb")(?![\w-])")
    if not named.search(path.read_bytes()):
        return 0
    with FileLock(path.with_name(f".{path.name}.lock")):  # the one that whoever adds a waiver holds
        lines = path.read_bytes().splitlines(keepends=True)
        write_atomic(path, b"".join(line for line in lines if not named.search(line)))
    return 1


def _holds(path: Path, words: Sequence[bytes]) -> bool:
    data = path.read_bytes()
    return any(word in data for word in words)


def _remains(paths: StorePaths, probes: Sequence[bytes]) -> Iterator[str]:
    """Yield every file of the store that holds one of the probes, and every live Lance version that names an episode."""
    for path in sorted(paths.root.rglob("*")):
        if path.is_file() and not path.is_symlink() and _holds(path, probes):
            yield str(path.relative_to(paths.root))


def still_named(paths: StorePaths, ids: Sequence[str]) -> list[str]:
    """Return which of some episodes any live Lance version, or zarr, still lists."""
    found: set[str] = set(ids) & set(open_store(paths, "zarr").episode_ids())
    try:
        for versions in committed_versions(paths):
            found |= set(ids) & set(LanceStore(paths, versions=versions).episode_ids())
    except (NotFoundError, EgodataError):
        pass
    return sorted_ids(found)
