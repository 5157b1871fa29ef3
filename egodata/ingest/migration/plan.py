"""What of a store is older than what this egodata would write, what can be rebuilt, and what stays valid. Changes nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egodata.catalog.standing import Standing, standings
from egodata.errors import EgodataError, InputError
from egodata.formats.lance import stable_storage_version
from egodata.formats.zarr import ZarrStore
from egodata.formats.zarr.legacy import legacy_groups
from egodata.ingest.forgotten import forgotten_hashes
from egodata.ingest.ledger import LedgerEntry, known_recordings, read_entry
from egodata.ingest.migration.delivered import checked, grouped
from egodata.ingest.migration.judge import BLOCKED, OUTDATED, STATES, Configs, Given, Judged, judge, schema_reason
from egodata.progress import Progress, silent, tracked
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths, current_marker, read_marker
from egodata.stats.stale import StaleStatistics, stale_statistics

LANCE = "lance_storage_version"
OLD = "episode schema v3"
IN_PLACE = "read in place; `egodata ingest FOLDER --vendor zarr_v3` builds it in another store"


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that `store.json` records.

    Attributes:
        name: As there; algorithms are called ``algorithms.<name>``.
        here: What the store says, None for nothing.
        now: What this egodata writes.
        behind: Whether a migration brings it up to date.
    """

    name: str
    here: Any
    now: Any
    behind: bool


@dataclass(frozen=True, slots=True)
class Unlisted:
    """An episode of the store that no ledger entry is of.

    Attributes:
        episode_id: The episode.
        reason: What is older about it; empty for nothing.
        note: What is known about it.
    """

    episode_id: str
    reason: str
    note: str

    def to_json(self) -> dict[str, str]:
        """Return plain JSON types."""
        return {"episode": self.episode_id, "reason": self.reason, "note": self.note}


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """How a store stands to this egodata.

    Attributes:
        parts: Of `store.json`.
        recordings: Every recording that was asked for, sorted by id.
        damaged: Ledger entries that cannot be read, in words.
        unlisted: Episodes that no ledger entry is of.
        datasets: Every frozen dataset.
        statistics: Kept statistics that are not used any more.
        others: Outdated recordings of vendors that were not asked for.
    """

    parts: tuple[Part, ...]
    recordings: tuple[Judged, ...]
    damaged: tuple[str, ...]
    unlisted: tuple[Unlisted, ...]
    datasets: tuple[Standing, ...]
    statistics: tuple[StaleStatistics, ...]
    others: int = 0

    def of(self, state: str) -> tuple[Judged, ...]:
        """Return the recordings of one state."""
        return tuple(item for item in self.recordings if item.state == state)

    @property
    def behind(self) -> bool:
        """Whether anything is older than what this egodata would write."""
        outdated = bool(self.of(OUTDATED) or self.of(BLOCKED) or self.damaged or any(item.reason for item in self.unlisted))
        return outdated or any(part.behind for part in self.parts)

    def counts(self) -> list[dict[str, Any]]:
        """Return the recordings by state, per vendor and delivery."""
        found: dict[tuple[str, str], Counter[str]] = {}
        for item in self.recordings:
            found.setdefault((item.entry.vendor, item.entry.delivery), Counter())[item.state] += 1
        return [
            {"vendor": vendor, "delivery": delivery, **{state: counts[state] for state in STATES}}
            for (vendor, delivery), counts in sorted(found.items())
        ]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; documented in docs/ingest.md."""
        return {
            "store": {part.name: {"here": part.here, "now": part.now, "behind": part.behind} for part in self.parts},
            "deliveries": self.counts(),
            "recordings": [item.to_json() for item in self.recordings],
            "damaged": list(self.damaged),
            "unlisted": [item.to_json() for item in self.unlisted],
            "datasets": [item.to_json() for item in self.datasets],
            "statistics": [{"dataset": item.ref, "file": item.file, "why": item.why} for item in self.statistics],
        }


def plan_migration(
    paths: StorePaths, *, given: Given, vendor: str | None = None, digests: bool = True, progress: Progress = silent
) -> MigrationPlan:
    """Compare a store with what this egodata would write. Nothing is written.

    Args:
        paths: The store.
        given: Used for recordings of which the store does not know how they were built.
        vendor: Only its recordings.
        digests: Read the raw files of what is outdated and compare their bytes; without, only whether they are there.
        progress: Told per recording and dataset.

    Raises:
        InputError: `store.json` or the list of what was forgotten is damaged, or no recording is of that vendor.
    """
    judged, damaged = _judged(paths, given, progress)
    if vendor is not None and not any(item.entry.vendor == vendor for item in judged):
        known = ", ".join(sorted({item.entry.vendor for item in judged})) or "none"
        raise InputError(f"store {paths.root}: no recording of vendor {vendor} was ingested; vendors are {known}")
    mine = [item for item in judged if vendor in (None, item.entry.vendor)]
    outdated = [item for item in mine if item.state == OUTDATED]
    looked = {item.entry.recording: item for item in _delivered(outdated, paths, digests=digests, progress=progress)}
    recordings = tuple(looked.get(item.entry.recording, item) for item in mine)
    listed = {episode_id for item in judged for episode_id in item.entry.episodes}
    old = {pair for item in recordings if item.state in (OUTDATED, BLOCKED) for pair in item.entry.episodes.items()}
    return MigrationPlan(
        tuple(_parts(paths)),
        recordings,
        tuple(damaged),
        tuple(_unlisted(paths, listed)),
        tuple(standings(paths, old, progress=progress)),
        tuple(stale_statistics(paths)),
        others=sum(item.state == OUTDATED and vendor not in (None, item.entry.vendor) for item in judged),
    )


def plan_of_old_store(folder: Path) -> MigrationPlan | None:
    """Return what there is to say of a folder of schema v3 groups that is read in place; None where it is none."""
    found = legacy_groups(folder)
    return MigrationPlan((), (), (), tuple(Unlisted(name, OLD, IN_PLACE) for name in found), (), ()) if found else None


def _parts(paths: StorePaths) -> Iterator[Part]:
    here, now = read_marker(paths), current_marker()
    for name in ("store_schema", "episode_schema"):
        yield Part(name, here.get(name), now[name], here.get(name) != now[name])
    for name, number in now["algorithms"].items():
        found = here.get("algorithms", {}).get(name)
        yield Part(f"algorithms.{name}", found, number, found != number)
    yield Part(LANCE, here.get(LANCE), stable_storage_version(), behind=False)  # settled when the tables are made, and kept


def _judged(paths: StorePaths, given: Given, progress: Progress) -> tuple[list[Judged], list[str]]:
    store, configs, judged, damaged = ZarrStore(paths), Configs(), [], []
    for recording in tracked(known_recordings(paths), label="ledger", progress=progress):
        try:
            entry = read_entry(paths, recording)
        except InputError as error:
            damaged.append(str(error))
            continue
        if entry is not None:
            judged.append(judge(entry, _attributes(store, entry), given=given, configs=configs))
    return judged, damaged


def _attributes(store: ZarrStore, entry: LedgerEntry) -> Mapping[str, Mapping[str, Any] | EgodataError]:
    return {episode_id: _read(store, episode_id) for episode_id in sorted_ids(entry.episodes)}


def _read(store: ZarrStore, episode_id: str) -> Mapping[str, Any] | EgodataError:
    try:
        reader = store.open(episode_id)
        try:
            return reader.attributes
        finally:
            reader.close()
    except EgodataError as error:
        return error


def _delivered(outdated: Sequence[Judged], paths: StorePaths, *, digests: bool, progress: Progress) -> Iterator[Judged]:
    forgotten = forgotten_hashes(paths)
    for group in grouped(outdated, paths):
        yield from checked(group, forgotten=forgotten, digests=digests, progress=progress)


def _unlisted(paths: StorePaths, listed: set[str]) -> Iterator[Unlisted]:
    store, old = ZarrStore(paths), legacy_groups(paths.zarr)
    for episode_id in store.episode_ids():
        if episode_id in listed:
            continue
        found = _read(store, episode_id)
        if episode_id in old and not paths.episode_link(episode_id).is_symlink():
            yield Unlisted(episode_id, OLD, IN_PLACE)
        elif isinstance(found, EgodataError):
            yield Unlisted(episode_id, "cannot be read", str(found))
        else:
            source = (found.get("provenance") or {}).get("source") or {}
            made = found.get("processing") or {}
            by = f"{made['converter']}/{made.get('version')}" if "converter" in made else "nobody knows which converter"
            yield Unlisted(episode_id, schema_reason(found) or "", f"made by {by} from {source.get('uri', 'files that are not recorded')}")
