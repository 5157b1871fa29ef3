"""The raw files of what is forgotten: those of nobody else are removed from the store, all others are named."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from egodata.errors import InputError
from egodata.ingest.belongings import Belongings, Subject, belongings, things
from egodata.ingest.forgotten import forgotten_hashes, subject_hash
from egodata.ingest.ledger import LedgerEntry, known_recordings, read_entry
from egodata.ingest.migration.delivered import discovered, raw_folder
from egodata.ingest.sources import SOURCES, get_source
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths, write_atomic
from egodata.vendors import Discovery, VendorOptions

UNTOLD = "Look through it, and remove by hand what is of the subject."


@dataclass(frozen=True, slots=True)
class RawPlan:
    """What happens to raw files.

    Attributes:
        episodes: What is forgotten.
        remove: Files in the store that nobody else uses, relative to ``raw``.
        shared: Files in the store that stay because others use them, or because they may be of others; relative to ``raw``.
        outside: Files and folders that are not the store's to remove.
        unread: What in the store cannot be told to be of the subject or not, and why.
    """

    episodes: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def joined(self, other: "RawPlan") -> "RawPlan":
        """Return both in one."""
        remove = {*self.remove, *other.remove}
        return RawPlan(
            tuple(sorted_ids({*self.episodes, *other.episodes})),
            tuple(sorted(remove)),
            tuple(sorted({*self.shared, *other.shared} - remove)),
            tuple(sorted({*self.outside, *other.outside})),
            tuple(sorted({*self.unread, *other.unread})),
        )


class Begun:
    """What a call was about to do with raw files: one that was killed in the middle cannot be told from the files that are left.

    Where shared files stay, it is kept, without ids: asking again says whether they are still there.

    Args:
        paths: The store.
        episode_id: The episode, if it is one.
        operator: The operator, if it is one.
    """

    def __init__(self, paths: StorePaths, *, episode_id: str | None, operator: str | None) -> None:
        digest = subject_hash("operator", operator) if operator is not None else subject_hash("episode", str(episode_id))
        self.path = paths.ledger / f"forgetting-{digest[:16]}.pending"

    def plan(self) -> RawPlan | None:
        """Return the plan, or None where nothing was begun.

        Raises:
            InputError: It is damaged.
        """
        if not self.path.is_file():
            return None
        try:
            return RawPlan(**{name: tuple(map(str, values)) for name, values in json.loads(self.path.read_text("utf-8")).items()})
        except (ValueError, TypeError, AttributeError) as error:
            message = f"{self.path}: damaged ({error}). Look through raw/ by hand, remove this file, then ask again."
            raise InputError(message) from error

    def write(self, plan: RawPlan) -> None:
        """Record a plan, before anything is removed."""
        write_atomic(self.path, json.dumps(asdict(plan)).encode())

    def done(self, paths: StorePaths, plan: RawPlan) -> tuple[str, ...]:
        """Keep what is left to be watched; return the shared files that are still there."""
        shared = tuple(name for name in plan.shared if os.path.lexists(paths.raw / name))
        if shared:
            self.write(RawPlan(shared=shared))
        else:
            self.path.unlink(missing_ok=True)
        return shared


def plan_raw(paths: StorePaths, ids: Sequence[str], *, operator: str | None) -> RawPlan:
    """Find the raw files of episodes in every copied delivery of their vendors, and where else the ledger says that they are.

    A recording goes as a whole, also where only one of its clips is forgotten.

    Args:
        paths: The store.
        ids: Of the episodes.
        operator: Who is forgotten, if it is by operator.

    Raises:
        InputError: An entry of the ledger or the list of what was forgotten is damaged.
    """
    stored, episodes = known_recordings(paths), set(ids)
    entries = [entry for name in stored if (entry := read_entry(paths, name)) is not None]
    gone = [entry for entry in entries if episodes & set(entry.episodes)]
    wanted = frozenset((entry.vendor, entry.recording) for entry in gone)
    subject = Subject(wanted, operator, forgotten_hashes(paths), frozenset(stored))
    vendors = {vendor for vendor, _ in wanted} | ({operator.partition("/")[0]} & set(SOURCES) if operator else set())
    homes = _homes(paths, gone)
    plan = RawPlan(tuple(ids))
    for (folder, vendor), datasets in _places(paths, [entry for entry in entries if entry.vendor in vendors], vendors).items():
        inside = folder.is_relative_to(paths.raw.resolve())
        if inside or (folder, vendor) in homes:
            found = _found(folder, vendor, datasets)
            if isinstance(found, str):
                part = Belongings((), (), () if inside else (folder,), (found,))
            else:
                part = belongings(folder, found, subject=subject, expected=homes.get((folder, vendor), ()))
            plan = plan.joined(_inside(paths, folder, part) if inside else _outside(part))
    return plan


def remove_raw(paths: StorePaths, plan: RawPlan) -> tuple[int, list[str]]:
    """Remove what a plan says, and folders that are empty then.

    Returns:
        How many files went, and which could not be removed, in words.
    """
    base, count, failed = paths.raw.resolve(), 0, []
    for name in plan.remove:
        path = base / name
        if not path.parent.resolve().is_relative_to(base) or not os.path.lexists(path):
            continue
        try:
            path.unlink()
            count += 1
        except OSError as error:
            failed.append(f"raw/{name}: could not be removed ({error.strerror}). Remove it by hand.")
    for folder in sorted({parent for name in plan.remove for parent in (base / name).parents if base in parent.parents}, reverse=True):
        if not folder.is_symlink() and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return count, failed


def _homes(paths: StorePaths, entries: Iterable[LedgerEntry]) -> dict[tuple[Path, str], list[str]]:
    """Return the recordings by the folder that they were built from."""
    found: dict[tuple[Path, str], list[str]] = {}
    for entry in entries:
        found.setdefault((raw_folder(entry, paths).resolve(), entry.vendor), []).append(entry.recording)
    return found


def _places(paths: StorePaths, entries: Iterable[LedgerEntry], vendors: Iterable[str]) -> dict[tuple[Path, str], set[tuple[str, str]]]:
    """Return the folders to look in, with the datasets and deliveries that they were ingested as: an older copy may have none."""
    found: dict[tuple[Path, str], set[tuple[str, str]]] = {}
    for entry in {(entry.uri, entry.vendor, entry.dataset, entry.delivery): entry for entry in entries}.values():
        for folder in (raw_folder(entry, paths), paths.raw / entry.vendor / entry.delivery):
            if folder.is_dir():
                found.setdefault((folder.resolve(), entry.vendor), set()).add((entry.dataset, entry.delivery))
    known = {folder for folder, _ in found}
    for vendor in sorted(vendors):
        for folder in (path.resolve() for path in sorted((paths.raw / vendor).glob("*")) if path.is_dir()):
            if not any(folder.is_relative_to(other) or other.is_relative_to(folder) for other in known):
                found[folder, vendor] = set()
    return found


def _found(folder: Path, vendor: str, datasets: set[tuple[str, str]]) -> list[Discovery] | str:
    """Return what a delivery holds, once per dataset that it was ingested as, or why nobody can tell."""
    if next(things(folder), None) is None:
        return []
    if vendor in SOURCES and get_source(vendor).unique_ids:
        datasets = {(folder.name, folder.name)}
    if not datasets:
        return "nothing says any more as which dataset it was ingested"
    found = [discovered(folder, vendor, options=VendorOptions(dataset, delivery)) for dataset, delivery in sorted(datasets)]
    whys = [one for one in found if isinstance(one, str)]
    return whys[0] if whys else [one for one in found if not isinstance(one, str)]


def _inside(paths: StorePaths, folder: Path, part: Belongings) -> RawPlan:
    base = paths.raw.resolve()
    own, shared = ([str(path.relative_to(base)) for path in files] for files in (part.own, part.shared))
    where = f"raw/{folder.relative_to(base)}"
    advice = UNTOLD if own else f"Nothing of it was removed. {UNTOLD}"
    return RawPlan(remove=tuple(own), shared=tuple(shared), unread=tuple(f"{where}: {why.rstrip('.')}. {advice}" for why in part.unread))


def _outside(part: Belongings) -> RawPlan:
    shared = (f"{path} (others use it too, or it may be of others)" for path in part.shared)
    return RawPlan(outside=(*map(str, part.places), *shared))
