"""The ingest ledger: per recording, which bytes were built how; and the quarantine beside it. One JSON file each, replaced whole."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from egodata.errors import InputError
from egodata.findings import Finding
from egodata.ingest.digests import RawDigests
from egodata.schema.ids import check_episode_id
from egodata.schema.layout import StorePaths, write_atomic
from egodata.vendors import RecordingRef


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What the last good build of a recording was made from.

    Attributes:
        parts: Raw digest by part.
        raw: Raw digest over all files.
        uri: Where the files were.
        converter: Vendor and version of its converter.
        settings: Digest of encoder settings and vendor config.
        episodes: Content digest by episode id, as published.
        findings: Of that build, as JSON.
        choices: What `settings` is the digest of, and where its vendor config came from (`egodata.ingest.build.Job.choices`); empty in
            entries of an egodata that did not keep it.
    """

    recording: str
    vendor: str
    dataset: str
    delivery: str
    parts: Mapping[str, str]
    raw: str
    uri: str
    converter: str
    settings: str
    episodes: Mapping[str, str]
    findings: tuple[Mapping[str, Any], ...] = field(default=())
    choices: Mapping[str, Any] = field(default_factory=dict)


def _folder(paths: StorePaths) -> Path:
    return paths.ledger / "ingest"


def read_entry(paths: StorePaths, recording: str) -> LedgerEntry | None:
    """Return a recording's entry, or None if it was never built.

    Raises:
        InputError: The file is damaged.
    """
    path = _folder(paths) / f"{check_episode_id(recording)}.json"
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text())
        return LedgerEntry(**{**value, "findings": tuple(value["findings"])})
    except (json.JSONDecodeError, TypeError, KeyError) as error:
        raise InputError(f"ledger {path.name}: damaged ({error}). Remove the file, the recording is built again.") from error


def write_entry(paths: StorePaths, entry: LedgerEntry) -> None:
    """Write a recording's entry; a reader sees the old one or the new one."""
    body = json.dumps(asdict(entry), indent=1, sort_keys=True, ensure_ascii=False)
    write_atomic(_folder(paths) / f"{check_episode_id(entry.recording)}.json", body.encode() + b"\n")


def known_recordings(paths: StorePaths) -> list[str]:
    """Return the ids of every recording that was built, sorted."""
    return sorted(path.stem for path in _folder(paths).glob("*.json") if not path.name.startswith("."))


def known_raw(paths: StorePaths, vendor: str) -> dict[str, str]:
    """Return the recordings of a vendor that were built, by raw digest. Damaged entries are left to the recordings that they are of."""
    found = {}
    for recording in known_recordings(paths):
        try:
            entry = read_entry(paths, recording)
        except InputError:
            continue
        if entry is not None and entry.vendor == vendor:
            found[entry.raw] = recording
    return found


def findings_from_json(values: tuple[Mapping[str, Any], ...]) -> tuple[Finding, ...]:
    """Read findings back from their JSON form."""
    return tuple(Finding.from_json(value) for value in values)


def write_quarantine(
    paths: StorePaths,
    ref: RecordingRef,
    *,
    findings: tuple[Finding, ...],
    evidence: Mapping[str, Any],
    raw: RawDigests | None,
    converter: str,
) -> None:
    """Record why a recording is set aside, with sizes and digests of what was delivered."""
    body = {
        "recording": ref.id,
        "vendor": ref.vendor,
        "dataset": ref.dataset,
        "delivery": ref.delivery,
        "uri": ref.root.as_uri(),
        "converter": converter,
        "findings": [finding.to_json() for finding in findings],
        "evidence": dict(evidence),
        "files": [asdict(file) for file in raw.files] if raw else [],
        "raw": raw.raw if raw else None,
    }
    text = json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False, default=str)
    write_atomic(paths.quarantine(ref.vendor, ref.delivery, ref.id), text.encode("utf-8", "backslashreplace") + b"\n")


def clear_quarantine(paths: StorePaths, ref: RecordingRef, *, everywhere: bool) -> None:
    """Remove the record of a recording that is good now: that of its own delivery, or of every delivery once it is built from new bytes."""
    folder = paths.root / "quarantine" / ref.vendor
    for path in sorted(folder.glob(f"{'*' if everywhere else ref.delivery}/{ref.id}.json")):
        path.unlink(missing_ok=True)
