"""Is what an outdated recording was built from still where the ledger says, with the same bytes?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from egodata.errors import EgodataError
from egodata.ingest.clips import ClipRule
from egodata.ingest.digests import FileDigests, raw_digest
from egodata.ingest.forgotten import forgotten_finding
from egodata.ingest.ledger import LedgerEntry
from egodata.ingest.migration.judge import BLOCKED, Judged, Settings
from egodata.ingest.sources import get_source
from egodata.progress import Progress
from egodata.schema.canonical import json_digest
from egodata.schema.layout import StorePaths
from egodata.vendors import Discovery, RecordingRef, VendorOptions


@dataclass(frozen=True, slots=True)
class Group:
    """Outdated recordings that one call of ingest rebuilds: one delivery, one way of building.

    Attributes:
        folder: Where the delivery lies.
        vendor: Who delivered it.
        dataset: As it was ingested.
        delivery: As it was ingested.
        settings: How all of them are built; `clips` is None where they are cut by ranges, which differ.
        members: The recordings.
    """

    folder: Path
    vendor: str
    dataset: str
    delivery: str
    settings: Settings
    members: tuple[Judged, ...]

    def rule(self) -> ClipRule | None:
        """Return the clip rule of all members, None where they stay whole."""
        clips = {item.entry.recording: item.settings.clips for item in self.members if item.settings is not None and item.settings.clips}
        ranges = {name: found["ranges"] for name, found in clips.items() if "ranges" in found}
        if ranges:
            return ClipRule(ranges={name: tuple((int(start), int(end)) for start, end in found) for name, found in ranges.items()})
        return None if self.settings.clips is None else ClipRule(**self.settings.clips)


def raw_folder(entry: LedgerEntry, paths: StorePaths) -> Path:
    """Return where a recording's delivery lies: where the ledger says, or the copy in a store that was moved since."""
    there = Path(url2pathname(urlsplit(entry.uri).path))
    kept = paths.raw / entry.vendor / entry.delivery
    return kept if not there.is_dir() and kept.is_dir() else there


def grouped(outdated: Sequence[Judged], paths: StorePaths) -> Iterator[Group]:
    """Sort outdated recordings into groups, in the order of the first of each."""
    found: dict[str, list[Judged]] = {}
    for item in outdated:
        if item.settings is not None:
            found.setdefault(_key(item, item.settings, paths), []).append(item)
    for members in found.values():
        first = members[0]
        settings = first.settings
        if settings is not None:
            shared = replace(settings, clips=None) if settings.clips and "ranges" in settings.clips else settings
            entry = first.entry
            yield Group(raw_folder(entry, paths), entry.vendor, entry.dataset, entry.delivery, shared, tuple(members))


def _key(item: Judged, settings: Settings, paths: StorePaths) -> str:
    entry, clips = item.entry, settings.clips
    cut = "ranges" if clips and "ranges" in clips else dict(clips or {})
    chosen = [settings.config, settings.encode.to_json(), settings.declare, cut, settings.force]
    return json_digest([entry.vendor, entry.dataset, entry.delivery, str(raw_folder(entry, paths)), *chosen])


def checked(group: Group, *, forgotten: frozenset[str], digests: bool, progress: Progress) -> Iterator[Judged]:
    """Say of each member whether it can be rebuilt.

    Args:
        group: The recordings.
        forgotten: Hashes of what was forgotten.
        digests: Read the raw files and compare their bytes too; without, ingest does so when it rebuilds.
        progress: Told per recording.
    """
    options = VendorOptions(group.dataset, group.delivery, group.settings.config, group.settings.declare)
    found = discovered(group.folder, group.vendor, options=options)
    if isinstance(found, str):
        yield from (_blocked(item, found) for item in group.members)
        return
    refs, refused = {ref.id: ref for ref in found.recordings}, _refused(found)
    files = FileDigests(refs[item.entry.recording] for item in group.members if item.entry.recording in refs)
    label = f"raw {group.vendor}/{group.delivery}"
    progress(label, 0, len(group.members))
    for number, item in enumerate(group.members, 1):
        name = item.entry.recording
        why = _why_not(item, refs[name], forgotten, files if digests else None) if name in refs else refused.get(name)
        if name not in refs and why is None:
            why = f"its raw delivery {group.folder} does not hold it any more"
        yield item if why is None else _blocked(item, why)
        progress(label, number, len(group.members))


def discovered(folder: Path, vendor: str, *, options: VendorOptions) -> Discovery | str:
    """Return what a delivery that was ingested once holds now, or why nobody can tell."""
    if not folder.is_dir():
        return f"its raw delivery {folder} is gone"
    try:
        return get_source(vendor).discover(folder.resolve(), options)
    except (EgodataError, OSError) as error:
        return f"its raw delivery: {error}"


def _refused(found: Discovery) -> Mapping[str, str]:
    return {item.findings[0].episode: f"its raw files: {item.findings[0].message}" for item in found.refused if item.findings}


def _why_not(item: Judged, ref: RecordingRef, forgotten: frozenset[str], files: FileDigests | None) -> str | None:
    if forgotten_finding(ref, forgotten) is not None:
        return "it was forgotten on request, and is left out. To build it all the same: egodata ingest --include-forgotten"
    if files is None:
        return None
    try:
        raw = raw_digest(ref, files)
    except OSError as error:
        return f"its raw files cannot be read: {error.filename}: {error.strerror}"
    if raw.raw == item.entry.raw:
        return None
    parts = ", ".join(part for part, digest in raw.parts.items() if item.entry.parts.get(part) != digest)
    return f"its raw files in {ref.root} have changed since ({parts or 'which they are'}). To take them as they are: egodata ingest"


def _blocked(item: Judged, why: str) -> Judged:
    return replace(item, state=BLOCKED, blocked=why)
