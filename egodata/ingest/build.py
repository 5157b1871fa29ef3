"""One recording: skip it, attach what changed, or build it; whatever goes wrong is its own and is recorded."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from egodata.episode import EpisodeDraft
from egodata.errors import EgodataError, VideoError
from egodata.findings import Finding, Severity, placed
from egodata.findings.waivers import Waiver, with_waivers
from egodata.formats.zarr import ZarrStore, attach_annotations, attach_calibration, publish_draft
from egodata.ingest.clips import ClipRule, cut_drafts
from egodata.ingest.damage import damage_seen
from egodata.ingest.declare import with_declared_frame
from egodata.ingest.digests import FileDigests, RawDigests, raw_digest
from egodata.ingest.ledger import LedgerEntry, clear_quarantine, findings_from_json, read_entry, write_entry, write_quarantine
from egodata.ingest.report import ATTACHED, BUILT, SET_ASIDE, SKIPPED, Outcome
from egodata.ingest.sources import get_source
from egodata.ingest.together import publish_together, withdraw_episode
from egodata.schema.canonical import json_digest
from egodata.schema.digests import EpisodeDigests
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import ALGORITHMS, StorePaths
from egodata.vendors import VENDORS, Drafts, RecordingRef, SetAside, VendorOptions
from egodata.video import EncodeSettings


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a worker process needs to treat a recording.

    Attributes:
        settings: Encoder settings.
        vendor_settings: The vendor config in use, as JSON.
        force: Build even if nothing changed.
        clips: How recordings are cut, or None.
        stall_s: How long a worker process may neither read nor write a byte before it is stopped.
        waivers: In force in the store, by finding id.
        known_raw: Recording by raw digest, of earlier builds of a vendor whose ids are not unique.
        forgotten: Hashes of what was forgotten and stays out.
        expected_raw: Raw digest by recording that its files must still have; others are set aside.
    """

    paths: StorePaths
    options: VendorOptions
    settings: EncodeSettings
    vendor_settings: Mapping[str, Any]
    force: bool = False
    clips: ClipRule | None = None
    stall_s: float = 300.0
    waivers: Mapping[str, Waiver] = field(default_factory=dict)
    known_raw: Mapping[str, str] = field(default_factory=dict)
    forgotten: frozenset[str] = frozenset()
    expected_raw: Mapping[str, str] = field(default_factory=dict)

    def choices(self, ref: RecordingRef) -> dict[str, Any]:
        """Return everything that a person can set about the build of one recording, and by what numbers it is hashed and encoded.

        Besides what `chosen_digest` covers: ``config`` (the vendor config as it was named, a path made absolute; null for the shipped
        one), ``x264`` (parameters that follow from the encoder settings) and ``digests`` (version of the digest algorithm).
        """
        found: dict[str, Any] = {"encode": self.settings.to_json(), "vendor": dict(self.vendor_settings), "config": None}
        if self.options.config is not None:
            own = self.options.config.endswith((".yaml", ".yml"))
            found["config"] = str(Path(self.options.config).absolute()) if own else self.options.config
        if self.options.declare is not None and ref.vendor in VENDORS:
            found["declare"] = self.options.declare
        if self.clips is not None and (clips := self.clips.settings(ref.id)) is not None:
            found["clips"] = clips
        return {**found, "x264": portable_x264(self.settings), "digests": ALGORITHMS["digests"]}

    def settings_digest(self, ref: RecordingRef) -> str:
        """Digest of everything that a person can set about the build of one recording."""
        return chosen_digest(self.choices(ref))

    def judged(self, findings: tuple[Finding, ...], raw: RawDigests | None) -> tuple[Finding, ...]:
        """Say in which bytes findings were seen, and which of them a person accepted."""
        return with_waivers(placed(findings, raw.raw if raw else ""), self.waivers)


def chosen_digest(choices: Mapping[str, Any]) -> str:
    """Digest of the values among `Job.choices` that decide whether a recording is built again."""
    return json_digest({name: choices[name] for name in ("encode", "vendor", "declare", "clips") if name in choices})


def portable_x264(settings: EncodeSettings) -> str:
    """Return the x264 parameters that follow from encoder settings, without the one that follows from the machine."""
    return ":".join(item for item in settings.x264_options()["x264-params"].split(":") if not item.startswith("asm="))


def converter(ref: RecordingRef) -> str:
    """Return vendor and converter version, such as ``mecka/1``."""
    return f"{ref.vendor}/{get_source(ref.vendor).version}"


def look(ref: RecordingRef, job: Job, *, files: FileDigests) -> tuple[Outcome | None, RawDigests | None]:
    """Digest a recording's files; return its outcome too where nothing changed. What goes wrong here is left for `treat` to say."""
    begun = time.monotonic()
    try:
        raw = raw_digest(ref, files)
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
    except Exception as error:  # noqa: BLE001  one recording's surprise must not stop the others; it is recorded as what it is
        found, evidence = failure(ref, error)
    return set_aside(ref, job, findings=found, evidence=evidence, raw=raw, seconds=time.monotonic() - begun)


def failure(ref: RecordingRef, error: Exception) -> tuple[tuple[Finding, ...], dict[str, Any]]:
    """Say as findings why a recording could not be read or built, with evidence where the reader gave some."""
    if isinstance(error, SetAside):
        return error.findings, error.evidence
    if isinstance(error, VideoError):
        code, message = "video-unreadable", str(error)
    elif isinstance(error, EgodataError):
        code, message = "not-built", f"{type(error).__name__}: {error}"
    elif isinstance(error, OSError):
        code, message = "io-error", f"{error.strerror or error}: {error.filename or 'raw or store'}. Nothing was published."
    else:
        code, message = "internal-error", f"{type(error).__name__}: {error}. Report it with the raw files."
    return (_error(code, ref, message),), {}


def _error(code: str, ref: RecordingRef, message: str) -> Finding:
    return Finding(code, Severity.ERROR, ref.id, message)


def set_aside(
    ref: RecordingRef,
    job: Job,
    *,
    findings: tuple[Finding, ...],
    evidence: Mapping[str, Any] | None = None,
    raw: RawDigests | None = None,
    seconds: float = 0.0,
) -> Outcome:
    """Write the quarantine record of a recording; an episode of it that was published before stays."""
    findings = job.judged(findings, raw)
    try:
        write_quarantine(job.paths, ref, findings=findings, evidence=evidence or {}, raw=raw, converter=converter(ref))
    except OSError as error:
        findings = (*findings, _error("quarantine-unwritten", ref, f"the quarantine record could not be written: {error.strerror}"))
    return Outcome(ref.id, SET_ASIDE, {}, findings, raw.raw if raw else "", 0, seconds, ref.operator)


def _skip(ref: RecordingRef, job: Job, raw: RawDigests) -> Outcome | None:
    entry = None if job.force else read_entry(job.paths, ref.id)
    if entry is None or _changed(entry, ref, job, raw) or _damage(entry, job):
        return None
    clear_quarantine(job.paths, ref, everywhere=False)
    if not entry.choices:
        write_entry(job.paths, replace(entry, choices=job.choices(ref)))  # of an egodata that did not keep them: equal by their digest
    found = with_waivers(findings_from_json(entry.findings), job.waivers)
    return Outcome(ref.id, SKIPPED, entry.episodes, found, operator=ref.operator)


def _treat(ref: RecordingRef, job: Job, raw: RawDigests) -> Outcome:
    if (skipped := _skip(ref, job, raw)) is not None:
        return skipped
    if job.expected_raw.get(ref.id, raw.raw) != raw.raw:
        message = f"recording {ref.id}: its raw files are not those that it was built from. To take them as they are: egodata ingest."
        raise SetAside((Finding("raw-changed", Severity.ERROR, ref.id, message, expected=job.expected_raw[ref.id], got=raw.raw),))
    before = read_entry(job.paths, ref.id)
    entry = None if job.force else before
    drafts = read_drafts(ref, job)
    made = [draft.meta.episode_id for draft in drafts.episodes]
    found = [*drafts.findings, *(finding for draft in drafts.episodes for finding in draft.findings)]
    findings = job.judged((*found, *_noticed(before, ref, job, raw, made=made)), raw)
    if any(finding.severity is Severity.ERROR and not finding.waived for finding in findings):
        raise SetAside(findings)
    attach = (
        entry is not None
        and set(made) == set(entry.episodes)  # new annotations can cut it differently
        and "media" not in _changed(entry, ref, job, raw)
        and not _damage(entry, job)
    )

    def make(draft: EpisodeDraft) -> EpisodeDigests:
        if attach:
            return _attach(draft, job.paths)
        return publish_draft(job.paths, _stamped(draft, ref, job, raw), settings=job.settings)

    contents = publish_together(job.paths, drafts.episodes, make=make)
    for gone in _no_longer_made(before, job, made):
        withdraw_episode(job.paths, gone)
    _record(ref, job, raw, contents=contents, findings=findings)
    clear_quarantine(job.paths, ref, everywhere=True)
    frames = sum(draft.meta.total_frames for draft in drafts.episodes)
    operator = next((draft.meta.operator for draft in drafts.episodes if draft.meta.operator), ref.operator)
    return Outcome(ref.id, ATTACHED if attach else BUILT, contents, findings, frames=frames, operator=operator)


def read_drafts(ref: RecordingRef, job: Job) -> Drafts:
    """Read a recording, with its hand frame declared and cut as the person asked for.

    Raises:
        SetAside: It cannot become episodes.
        VideoError: Its video cannot be read.
    """
    drafts = get_source(ref.vendor).read(ref, replace(job.options, dataset=ref.dataset))
    if ref.vendor in VENDORS:
        drafts = replace(drafts, episodes=tuple(with_declared_frame(draft, job.options.declare) for draft in drafts.episodes))
    return drafts if job.clips is None else cut_drafts(drafts, job.clips, recording=ref.id)


def _noticed(before: LedgerEntry | None, ref: RecordingRef, job: Job, raw: RawDigests, *, made: Sequence[str]) -> Iterator[Finding]:
    """Note what only the store's history can tell."""
    damage = _damage(before, job)
    if damage:
        yield Finding("damage-repaired", Severity.WARNING, ref.id, f"{damage}: built again from the delivery.")
    for gone in _no_longer_made(before, job, made):
        message = (
            f"episode {gone} is not among today's clips and is no longer published; datasets that hold it still open it, else gc frees it"
        )
        yield Finding("clip-withdrawn", Severity.WARNING, ref.id, message, stream=gone)
    other = job.known_raw.get(raw.raw, ref.id)
    if other != ref.id:
        message = f"the same bytes as recording {other}. For a new delivery of one dataset give its name with --dataset, or ids multiply."
        yield Finding("content-twice", Severity.WARNING, ref.id, message, expected=ref.id, got=other)


def _no_longer_made(before: LedgerEntry | None, job: Job, made: Sequence[str]) -> list[str]:
    """Return the published episodes of an earlier build that this one does not make, sorted."""
    gone = set(before.episodes if before else ()) - set(made)
    return sorted_ids(episode_id for episode_id in gone if job.paths.episode_link(episode_id).is_symlink())


def _damage(entry: LedgerEntry | None, job: Job) -> str | None:
    """Say what is wrong with the sizes of a recording's published files; a lost episode is none of that."""
    there = [episode_id for episode_id in (entry.episodes if entry else ()) if job.paths.episode_link(episode_id).exists()]
    return next((damage for episode_id in there if (damage := damage_seen(job.paths, episode_id))), None)


def _changed(entry: LedgerEntry | None, ref: RecordingRef, job: Job, raw: RawDigests) -> set[str]:
    """Return the parts whose bytes changed; a new converter, settings or dataset, or a lost episode, count as changed media."""
    if entry is None:
        return {"media"}
    made = (entry.converter, entry.settings, entry.vendor, entry.dataset)
    if made != (converter(ref), job.settings_digest(ref), ref.vendor, ref.dataset):
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
        job.settings_digest(ref),
        contents,
        tuple(finding.to_json() for finding in findings),
        job.choices(ref),
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
