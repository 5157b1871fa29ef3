"""Examine a store: every check on its published episodes, what ingest noted about them, and what is set aside."""

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from egodata.doctor.delivery import NO_PICTURES
from egodata.doctor.report import FOLDER, DoctorReport, Examined, merged, with_twins
from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import EgodataError, EpisodeNotFoundError, InputError
from egodata.findings import Finding, Severity
from egodata.findings.waivers import read_waivers, with_waivers
from egodata.ingest.damage import damage_seen
from egodata.ingest.ledger import findings_from_json, known_recordings, read_entry
from egodata.names import nearest, shell_word
from egodata.progress import Progress, silent, tracked
from egodata.reports.limits import Checks
from egodata.reports.pictures import check_pictures, measure, stored_pictures
from egodata.reports.quality import check_quality
from egodata.reports.validate import validate_episode
from egodata.schema.digests import array_digest, combined_digest
from egodata.schema.layout import SCHEMA_VERSION, StorePaths

LABEL = "doctor"


def examine_store(
    episodes: EpisodeStore,
    paths: StorePaths,
    *,
    checks: Checks,
    only: Collection[str] = (),
    progress: Progress = silent,
) -> DoctorReport:
    """Examine the episodes of a store, or of a folder of old groups; nothing of it is written.

    Args:
        episodes: Its episodes.
        paths: Its root.
        checks: Which, and from where on something is a finding.
        only: Episode ids; all, and what is set aside, by default.
        progress: Told after every episode.

    Raises:
        EpisodeNotFoundError: No such episode.
        InputError: The waivers are damaged.
    """
    known = episodes.episode_ids()
    for missing in sorted(set(only) - set(known)):
        raise EpisodeNotFoundError(f"episode {missing}: not in {paths.root}; {nearest(missing, known)}")
    noted, waivers = _noted(paths), read_waivers(paths.ledger)
    ids = [one for one in known if not only or one in only]
    examined = [
        _examine(episodes, paths, one, checks=checks, noted=noted.get(one, ()))
        for one in tracked(ids, label=LABEL, progress=progress)
    ]
    if not only:
        examined += list(set_aside_records(paths))
    ordered = with_twins(sorted(examined, key=lambda item: item.subject.encode()))
    judged = tuple(replace(item, findings=with_waivers(item.findings, waivers)) for item in ordered)
    return DoctorReport(paths.root, "store", "", judged, (), () if checks.pictures else (NO_PICTURES,))


def _noted(paths: StorePaths) -> dict[str, tuple[Finding, ...]]:
    """Return what ingest noted, by episode; what concerns a whole recording is given to its first episode."""
    found: dict[str, tuple[Finding, ...]] = {}
    for recording in known_recordings(paths):
        try:
            entry = read_entry(paths, recording)
        except InputError as error:
            found[recording] = (Finding("ledger-damaged", Severity.ERROR, recording, str(error)),)
            continue
        for finding in findings_from_json(entry.findings) if entry is not None else ():
            owners = list(entry.episodes) if entry is not None else []
            owner = finding.episode if finding.episode in owners else (owners[0] if owners else recording)
            found[owner] = (*found.get(owner, ()), finding)
    return found


def set_aside_records(paths: StorePaths) -> Iterator[Examined]:
    """Yield what is in quarantine."""
    for path in sorted((paths.root / "quarantine").glob("*/*/*.json")):
        try:
            value = json.loads(path.read_text("utf-8"))
            found = findings_from_json(tuple(value["findings"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            found = (Finding("quarantine-damaged", Severity.ERROR, path.stem, f"{path}: not readable ({error!r}). Ingest it again."),)
        yield Examined(f"{path.stem} (set aside)", found, look_at=str(path))


def _examine(
    episodes: EpisodeStore, paths: StorePaths, one: str, *, checks: Checks, noted: tuple[Finding, ...]
) -> Examined:
    look_at = f"egodata preview {shell_word(paths.root)} {shell_word(one)}"
    damage = damage_seen(paths, one) if paths.episode_versions(one).is_dir() else None
    found = [Finding("files-damaged", Severity.ERROR, one, f"{damage}. Build it again from its delivery.")] if damage else []
    try:
        reader = episodes.open(one)
        try:
            return _checked(reader, found, look_at, checks=checks, noted=noted)
        finally:
            reader.close()
    except EgodataError as error:
        found.append(Finding("episode-unreadable", Severity.ERROR, one, str(error)))
        return Examined(one, merged(found, noted), look_at=look_at)


def _checked(
    reader: EpisodeReader, found: list[Finding], look_at: str, *, checks: Checks, noted: tuple[Finding, ...]
) -> Examined:
    one = reader.meta.episode_id
    content = reader.digests.content if reader.meta.schema_version == SCHEMA_VERSION else ""
    own = [*found, *validate_episode(reader, limits=checks.limits, content=content)]
    quality = check_quality(reader, limits=checks.limits, content=content)
    own += quality.findings
    for camera in reader.meta.cameras if checks.pictures else ():
        levels = measure(stored_pictures(reader, camera))
        own += check_pictures(reader, camera, levels=levels, limits=checks.limits, content=content)
    floats = [key for key in reader.meta.numeric_keys if reader.meta.features[key].dtype.startswith("float")]
    rows = reader.rows(floats, [(0, reader.meta.total_frames)] * len(floats))
    numbers = {one: combined_digest({key: array_digest(key, rows[key]) for key in floats})} if floats else {}
    return Examined(one, merged(own, noted), {one: quality.figures}, numbers, {}, look_at)


def known_findings(paths: StorePaths) -> dict[str, Finding]:
    """Return every finding that the store knows by id: of ingest, of quarantine, of the doctor's reports, and of gates that were closed.

    What only `egodata validate` has said is not among them; the doctor says it too.
    """
    found: dict[str, Finding] = {}
    for path in sorted((paths.reports / FOLDER).glob("*.json")):
        found |= {finding.id: finding for finding in _reported(path)}
    for path in sorted((paths.reports / "gates").glob("*.json")):
        found |= {finding.id: finding for finding in _gate(path)}
    for noted in _noted(paths).values():
        found |= {finding.id: finding for finding in noted}
    for item in set_aside_records(paths):
        found |= {finding.id: finding for finding in item.findings}
    return found


def _gate(path: Path) -> tuple[Finding, ...]:
    """Read the finding for which a freeze or a training run was refused."""
    try:
        return findings_from_json((json.loads(path.read_text("utf-8")),))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _reported(path: Path) -> tuple[Finding, ...]:
    try:
        return findings_from_json(tuple(json.loads(path.read_text("utf-8"))["findings"]))
    except (OSError, ValueError, KeyError, TypeError):
        return ()  # a report that cannot be read explains no id; the doctor writes another
