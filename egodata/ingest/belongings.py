"""Whose are the files of a delivery: of one subject alone, of others too, or of no recording that can be named."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from egodata.ingest.forgotten import forgotten_finding
from egodata.vendors import PARTS, Discovery, RecordingRef, Refused

MINE, GONE, OTHERS = "of the subject", "forgotten before", "of others"


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose files are looked for.

    Attributes:
        recordings: Vendor and id of each.
        operator: As the catalog names it; recordings of it that were never built are the subject's too.
        hashes: Of everything that was forgotten.
        stored: Recordings that the ledger has: they stay, whatever the hashes say.
    """

    recordings: frozenset[tuple[str, str]]
    operator: str | None = None
    hashes: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()

    def whose(self, ref: RecordingRef) -> str:
        """Say whose a recording is."""
        if (ref.vendor, ref.id) in self.recordings or (ref.operator is not None and f"{ref.vendor}/{ref.operator}" == self.operator):
            return MINE
        return GONE if ref.id not in self.stored and forgotten_finding(ref, self.hashes) is not None else OTHERS

    def refused(self, item: Refused) -> bool:
        """Whether a recording that cannot be read is the subject's, by the id that it has here or that the vendor gave it."""
        given = [replace(item.ref, id=finding.episode) for finding in item.findings[:1]]
        return any(self.whose(ref) == MINE for ref in (item.ref, *given))


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a delivery holds of a subject.

    Attributes:
        own: Files that nobody else uses, links as links; with them what lies unnamed in a folder that is the subject's alone.
        shared: Files that others use too, and files that no recording names, such as lists, where the subject is among others.
        places: Folders that are the subject's alone, and files of `own` in none of them.
        unread: What of the subject's cannot be read, in words.
    """

    own: tuple[Path, ...]
    shared: tuple[Path, ...]
    places: tuple[Path, ...]
    unread: tuple[str, ...]


def belongings(folder: Path, found: Sequence[Discovery], *, subject: Subject, expected: Collection[str] = ()) -> Belongings:
    """Sort the files of a delivery.

    Where something in the delivery cannot be read, files that no recording names may be of that, and count as shared.

    Args:
        folder: The delivery, free of links.
        found: What its vendor finds in it, once per dataset that it was ingested as.
        subject: Whose files are wanted.
        expected: Recordings that the delivery should hold.
    """
    users = _users(found, subject)
    refused = [item for one in found for item in one.refused]
    unread = [item.findings[0].message for item in refused if item.findings and subject.refused(item)]
    there = {ref.id for one in found for ref in one.recordings} | {name for one in found for name in one.absent}
    lost = sorted(set(expected) - there) if refused and not unread else []
    unread += [f"recording {name} is not found, and {len(refused)} things cannot be read: one may be it" for name in lost]
    ids = {name for _, name in subject.recordings}
    if not (unread or any(MINE in kinds for kinds in users.values()) or any(name in ids for one in found for name in one.absent)):
        return Belongings((), (), (), ())
    below = _below(folder, users)
    below.setdefault(folder, set()).add(MINE)
    own: list[Path] = []
    shared: list[Path] = []
    for path in sorted(things(folder)):
        kinds = users.get(path)
        alone = kinds if kinds is not None else _nearest(path, below)[1]
        if MINE not in alone:
            continue
        mine = OTHERS not in alone and (kinds is not None or (not refused and _nearest(path, below)[0] != folder))
        (own if mine else shared).append(path)
    places = {_place(path, folder, {} if refused else below) for path in own}
    return Belongings(tuple(own), tuple(shared), tuple(sorted(places)), tuple(unread))


def _users(found: Iterable[Discovery], subject: Subject) -> dict[Path, set[str]]:
    users: dict[Path, set[str]] = {}
    real: dict[Path, Path] = {}
    for one in found:
        known = [(ref, subject.whose(ref)) for ref in one.recordings]
        known += [(item.ref, MINE if subject.refused(item) else OTHERS) for item in one.refused]
        for ref, kind in known:
            for path in (path for part in PARTS for path in ref.files.get(part, ())):
                users.setdefault(path, set()).add(kind)
                if path.parent not in real:
                    real[path.parent] = path.parent.resolve()
                if path.is_symlink() or real[path.parent] != path.parent:
                    users.setdefault(path.resolve(), set()).add(kind)  # what a link inside the delivery leads to
    return users


def _below(folder: Path, users: dict[Path, set[str]]) -> dict[Path, set[str]]:
    """Return whose files lie anywhere below every folder that holds one."""
    direct: dict[Path, set[str]] = {}
    for path, kinds in users.items():
        direct.setdefault(path.parent, set()).update(kinds)
    found: dict[Path, set[str]] = {}
    for parent, kinds in direct.items():
        for above in (parent, *parent.parents):
            if not above.is_relative_to(folder):
                break
            found.setdefault(above, set()).update(kinds)
    return found


def _nearest(path: Path, below: dict[Path, set[str]]) -> tuple[Path, set[str]]:
    return next((parent, below[parent]) for parent in path.parents if parent in below)


def _place(path: Path, folder: Path, below: dict[Path, set[str]]) -> Path:
    """Return the highest folder below the delivery that is the subject's alone, or the file."""
    alone = [parent for parent in path.parents if parent != folder and OTHERS not in below.get(parent, {OTHERS})]
    return alone[-1] if alone else path


def things(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder but folders; a link is one thing, and is not followed."""
    for at, names, files in os.walk(folder):
        yield from (Path(at, name) for name in files)
        yield from (Path(at, name) for name in names if os.path.islink(os.path.join(at, name)))
