"""One recording: skip it, attach what changed, or build it; whatever goes wrong is its own and is recorded."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from egodata.episode import EpisodeDraft
from egodata.errors import EgodataError, VideoError
from egodata.findings import Finding, Severity
from egodata.formats.zarr import ZarrStore, attach_annotations, attach_calibration, publish_draft
from egodata.ingest.digests import RawDigests, raw_digest
from egodata.ingest.ledger import LedgerEntry, clear_quarantine, findings_from_json, read_entry, write_entry, write_quarantine
from egodata.ingest.report import ATTACHED, BUILT, SET_ASIDE, SKIPPED, Outcome
from egodata.ingest.sources import get_source
from egodata.schema.canonical import json_digest
from egodata.schema.digests import EpisodeDigests
from egodata.schema.layout import StorePaths
from egodata.vendors import RecordingRef, SetAside, VendorOptions
from egodata.video import EncodeSettings


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a worker process needs to treat a recording.

    Attributes:
        settings: Encoder settings.
        vendor_settings: The vendor config in use, as JSON.
        force: Build even if nothing changed.
    """

    paths: StorePaths
    options: VendorOptions
    settings: EncodeSettings
    vendor_settings: Mapping[str, Any]
    force: bool = False

    @property
    def settings_digest(self) -> str:
        """Digest of everything that a person can set about a build."""
        return json_digest({"encode": self.settings.to_json(), "vendor": dict(self.vendor_settings)})


def converter(ref: RecordingRef) -> str:
    """Return vendor and converter version, such as ``mecka/1``."""
    return f"{ref.vendor}/{get_source(ref.vendor).version}"


def look(ref: RecordingRef, job: Job) -> tuple[Outcome | None, RawDigests | None]:
    """Digest a recording's files; return its outcome too where nothing changed. What goes wrong here is left for `treat` to say."""
    begun = time.monotonic()
    try:
        raw = raw_digest(ref)
    except OSError:
        return None, None
    try:
        skipped = _skip(ref, job, raw)
    except (EgodataError, OSError):
        return None, raw
    return (None if skipped is None else replace(skipped, raw=raw.raw, seconds=time.monotonic() - begun)), raw


def treat(ref: RecordingRef, job: Job, *, raw: RawDigests | None = None) -> Outcome:
    """Treat one recording; never raises for what is wrong with it.

    Args:
        ref: The recording.
        job: How.
        raw: Its digests, if they are known.
    """
    begun = time.monotonic()
    try:
        raw = raw or raw_digest(ref)
        return replace(_treat(ref, job, raw), raw=raw.raw, seconds=time.monotonic() - begun)
    except SetAside as error:
        found, evidence = error.findings, error.evidence
    except VideoError as error:
        found, evidence = (_error("video-unreadable", ref, str(error)),), {}
    except EgodataError as error:
        found, evidence = (_error("not-built", ref, f"{type(error).__name__}: {error}"),), {}
    except OSError as error:
        found, evidence = (
            (_error("io-error", ref, f"{error.strerror or error}: {error.filename or 'raw or store'}. Nothing was published."),),
            {},
        )
    except Exception as error:  # noqa: BLE001  one recording's surprise must not stop the others; it is recorded as what it is
        found, evidence = (_error("internal-error", ref, f"{type(error).__name__}: {error}. Report it with the raw files."),), {}
    return set_aside(ref, job.paths, findings=found, evidence=evidence, raw=raw, seconds=time.monotonic() - begun)


def _error(code: str, ref: RecordingRef, message: str) -> Finding:
    return Finding(code, Severity.ERROR, ref.id, message)


def set_aside(
    ref: RecordingRef,
    paths: StorePaths,
    *,
    findings: tuple[Finding, ...],
    evidence: Mapping[str, Any] | None = None,
    raw: RawDigests | None = None,
    seconds: float = 0.0,
) -> Outcome:
    """Write the quarantine record of a recording; an episode of it that was published before stays."""
    try:
        write_quarantine(paths, ref, findings=findings, evidence=evidence or {}, raw=raw, converter=converter(ref))
    except OSError as error:
        findings = (*findings, _error("quarantine-unwritten", ref, f"the quarantine record could not be written: {error.strerror}"))
    return Outcome(ref.id, SET_ASIDE, {}, findings, raw.raw if raw else "", 0, seconds)


def _skip(ref: RecordingRef, job: Job, raw: RawDigests) -> Outcome | None:
    entry = None if job.force else read_entry(job.paths, ref.id)
    if entry is None or _changed(entry, ref, job, raw):
        return None
    clear_quarantine(job.paths, ref, everywhere=False)
    return Outcome(ref.id, SKIPPED, entry.episodes, findings_from_json(entry.findings))


def _treat(ref: RecordingRef, job: Job, raw: RawDigests) -> Outcome:
    if (skipped := _skip(ref, job, raw)) is not None:
        return skipped
    entry = None if job.force else read_entry(job.paths, ref.id)
    drafts = get_source(ref.vendor).read(ref, job.options)
    findings = (*drafts.findings, *(finding for draft in drafts.episodes for finding in draft.findings))
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise SetAside(findings)
    attach = "media" not in _changed(entry, ref, job, raw)
    contents = {}
    for draft in drafts.episodes:
        digests = _attach(draft, job.paths) if attach else publish_draft(job.paths, _stamped(draft, ref, job, raw), settings=job.settings)
        contents[draft.meta.episode_id] = digests.content
    _record(ref, job, raw, contents=contents, findings=findings)
    clear_quarantine(job.paths, ref, everywhere=True)
    frames = sum(draft.meta.total_frames for draft in drafts.episodes)
    return Outcome(ref.id, ATTACHED if attach else BUILT, contents, findings, frames=frames)


def _changed(entry: LedgerEntry | None, ref: RecordingRef, job: Job, raw: RawDigests) -> set[str]:
    """Return the parts whose bytes changed; a new converter, new settings or a lost episode count as changed media."""
    if entry is None:
        return {"media"}
    if (entry.converter, entry.settings, entry.vendor) != (converter(ref), job.settings_digest, ref.vendor):
        return {"media"}
    if not entry.episodes or not all(job.paths.episode_link(episode_id).exists() for episode_id in entry.episodes):
        return {"media"}
    return {part for part, digest in raw.parts.items() if entry.parts.get(part) != digest}


def _record(ref: RecordingRef, job: Job, raw: RawDigests, *, contents: Mapping[str, str], findings: tuple[Finding, ...]) -> None:
    """Write the ledger entry of a good build."""
    entry = LedgerEntry(
        ref.id,
        ref.vendor,
        ref.dataset,
        ref.delivery,
        raw.parts,
        raw.raw,
        ref.root.as_uri(),
        converter(ref),
        job.settings_digest,
        contents,
        tuple(finding.to_json() for finding in findings),
    )
    write_entry(job.paths, entry)


def _stamped(draft: EpisodeDraft, ref: RecordingRef, job: Job, raw: RawDigests) -> EpisodeDraft:
    """Add what only ingest knows: where the bytes came from, and by what they were converted."""
    source = {"uri": ref.root.as_uri(), "raw": raw.raw, "parts": dict(raw.parts)}
    vendor = get_source(ref.vendor)
    processing = {"converter": vendor.name, "version": vendor.version, "settings": dict(job.vendor_settings)}
    meta = replace(draft.meta, provenance={**draft.meta.provenance, "source": source}, processing={**draft.meta.processing, **processing})
    return replace(draft, meta=meta)


def _attach(draft: EpisodeDraft, paths: StorePaths) -> EpisodeDigests:
    """Give a published episode the draft's annotations and calibration; equal ones change nothing."""
    episode_id = draft.meta.episode_id
    digests = attach_annotations(
        paths, episode_id, draft.annotations, expected=published_content(paths, episode_id), structure=draft.structure
    )
    return attach_calibration(paths, episode_id, draft.calibration, expected=digests.content)


def published_content(paths: StorePaths, episode_id: str) -> str:
    """Return the content digest of the newest published version."""
    reader = ZarrStore(paths).open(episode_id)
    try:
        return reader.digests.content
    finally:
        reader.close()
