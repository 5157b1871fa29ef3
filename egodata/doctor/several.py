"""Find every delivery that a folder holds, and whose layout each is in. Nothing is read but what discovery reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from egodata.errors import EgodataError, InputError
from egodata.ingest.observe import vendor_options
from egodata.ingest.sources import SOURCES, get_source
from egodata.vendors import Discovery

DEPTH = 3
"""Folders below the one that was named in which a delivery may lie, as in ``raw/<vendor>/<week>/<delivery>``."""
FEW = 16
"""More folders of one vendor beside each other are its recordings: nobody else's delivery is looked for inside them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with recordings, or one that may hold some.

    Attributes:
        folder: Where they lie.
        vendors: Whose reader finds them, sorted; more than one where nothing tells them apart, none where the folder cannot be opened.
    """

    folder: Path
    vendors: tuple[str, ...]


def find_deliveries(raw: Path) -> tuple[Place, ...]:
    """Find the deliveries in a folder; the folder itself where all its recordings are one vendor's.

    Args:
        raw: A delivery, or a folder that holds some.

    Returns:
        Sorted by folder, at least one.

    Raises:
        InputError: No vendor's reader finds recordings there, or the folder can be read as several vendors' and says nothing else.
    """
    places = sorted(_look(raw, DEPTH), key=lambda place: (str(place.folder), place.vendors))
    if not any(place.vendors for place in places):
        raise InputError(f"{raw}: neither a store nor a delivery that a vendor's reader finds recordings in. Say --vendor to see why.")
    if len(places) == 1 and len(places[0].vendors) > 1:
        raise InputError(f"{places[0].folder}: can be read as {' and as '.join(places[0].vendors)}. Say which with --vendor.")
    return tuple(places)


def _look(folder: Path, depth: int) -> list[Place]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return [Place(folder, ())]
    claims = _claims(folder)
    own = frozenset[str]().union(*claims.values())
    below: dict[str, list[Place]] = {}
    for entry in entries if depth else ():
        if entry.is_dir() and not entry.is_symlink() and (entry.name not in own or len(own) <= FEW):
            below[entry.name] = _look(entry, depth - 1)
    elsewhere = [place for name, places in below.items() if name not in own for place in places]
    groups = _groups(claims)
    found = list(elsewhere)
    for vendors, held in groups.items():
        inside = [below.get(name, []) for name in sorted(held)]
        places = [place for part in inside for place in part]
        alone = len(groups) == 1 and not elsewhere
        told_apart = any(place.vendors != vendors for place in places) or (not alone and (len(held) == 1 or len(vendors) > 1))
        found += places if all(inside) and told_apart else [Place(folder, vendors)]
    return found


def _claims(folder: Path) -> dict[str, frozenset[str]]:
    """Return by vendor in which entries of a folder its reader finds recordings, where it finds any."""
    found = {}
    for name in SOURCES:
        try:
            discovery = get_source(name).discover(folder.resolve(), vendor_options(folder, dataset="guess", delivery="guess"))
        except (EgodataError, OSError):
            continue
        if discovery.recordings:
            found[name] = _entries(folder.resolve(), discovery)
    return found


def _entries(folder: Path, discovery: Discovery) -> frozenset[str]:
    files: Iterable[Path] = (file for ref in discovery.recordings for part in ref.files.values() for file in part)
    return frozenset(file.relative_to(folder).parts[0] for file in files if file.is_relative_to(folder))


def _groups(claims: Mapping[str, frozenset[str]]) -> dict[tuple[str, ...], frozenset[str]]:
    """Put vendors together that find recordings in the same entries."""
    groups: list[tuple[Sequence[str], frozenset[str]]] = []
    for name, entries in claims.items():
        apart = [group for group in groups if not group[1] & entries]
        joined = [group for group in groups if group[1] & entries]
        names = sorted({name, *(other for group in joined for other in group[0])})
        groups = [*apart, (names, entries.union(*(group[1] for group in joined)))]
    return {tuple(names): entries for names, entries in groups}
