"""Examine a raw delivery before ingest: everything that its reader says, and every check on what it would give."""

import hashlib
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from egodata.doctor.draft_reader import DraftReader
from egodata.doctor.report import DoctorReport, Examined, merged, with_twins
from egodata.episode import EpisodeDraft, VideoSource
from egodata.errors import InputError
from egodata.findings import Finding, Severity, placed
from egodata.findings.waivers import read_waivers, with_waivers
from egodata.ingest.build import Job, failure, read_drafts
from egodata.ingest.declare import check_declared
from egodata.ingest.digests import FileDigests, RawDigests, raw_digest
from egodata.ingest.observe import vendor_options
from egodata.ingest.pool import Pending, run_guarded
from egodata.ingest.sources import get_source
from egodata.names import nearest
from egodata.progress import Progress, silent
from egodata.reports.limits import Checks
from egodata.reports.pictures import check_pictures, raw_levels
from egodata.reports.quality import check_quality
from egodata.reports.validate import validate_episode
from egodata.schema.digests import array_digest, combined_digest
from egodata.schema.features import TIMESTAMPS, camera_key
from egodata.schema.layout import StorePaths
from egodata.vendors import Discovery, RecordingRef
from egodata.video import DEFAULT_SETTINGS

LABEL = "doctor"
SHOWN_SUFFIXES = (".mp4", ".mov", ".mkv", ".avi", ".webm", ".vrs")
NO_PICTURES = "pictures: frozen and black stretches"


@dataclass(frozen=True, slots=True)
class _Examination:
    """What a worker process needs."""

    job: Job
    checks: Checks


def job_for(
    raw: Path,
    *,
    vendor: str,
    store: StorePaths | None = None,
    dataset: str | None = None,
    config: str | None = None,
    declare: str | None = None,
) -> Job:
    """Make the job that says how a delivery is read, as ingest would.

    Args:
        raw: The delivery's folder.
        vendor: Whose layout it is in.
        store: Whose waivers count; None for none.
        dataset: As for ingest.
        config: Vendor config by name or path.
        declare: Hand frame convention of data that carries none.

    Raises:
        ConfigError: A config or a declaration that is not known.
        NotFoundError: No such vendor or config.
    """
    options = vendor_options(raw, dataset=dataset, config=config, declare=declare)
    check_declared(declare)
    settings = get_source(vendor).settings(options)
    paths = store or StorePaths(raw / "no-store")
    return Job(paths, options, DEFAULT_SETTINGS, settings, waivers=read_waivers(paths.ledger))


def examine_delivery(
    raw: Path,
    *,
    job: Job,
    vendor: str,
    checks: Checks,
    workers: int | None = None,
    only: tuple[str, ...] = (),
    progress: Progress = silent,
) -> DoctorReport:
    """Examine a delivery's recordings, each in a process that can be stopped; nothing is written.

    Args:
        raw: The delivery's folder.
        job: Options, waivers and clip rule as for ingest; its store need not exist.
        vendor: Whose layout it is in.
        checks: Which, and from where on something is a finding.
        workers: Processes; 0 works in this one.
        only: Recording ids; all by default.
        progress: Told after every recording.

    Raises:
        InputError: Not such a delivery, or it has no such recording.
    """
    discovery = get_source(vendor).discover(raw.resolve(), job.options)
    refs = _wanted(discovery, only)
    examination = _Examination(job, checks)
    examined = [
        Examined(item.ref.id, with_waivers(item.findings, job.waivers), look_at=str(item.ref.root))
        for item in discovery.refused
        if not only
    ]
    total = len(refs) + len(examined)
    progress(LABEL, len(examined), total)
    with closing(_examine_all(refs, examination, workers)) as results:
        for result in results:
            examined.append(result)
            progress(LABEL, len(examined), total)
    ordered = with_twins(sorted(examined, key=lambda item: item.subject.encode()))
    judged = tuple(replace(item, findings=with_waivers(item.findings, job.waivers)) for item in ordered)
    return DoctorReport(raw, "delivery", vendor, judged, discovery.absent, () if checks.pictures else (NO_PICTURES,))


def _wanted(discovery: Discovery, only: tuple[str, ...]) -> list[RecordingRef]:
    known = {ref.id: ref for ref in discovery.recordings}
    for missing in sorted(set(only) - set(known)):
        raise InputError(f"recording {missing}: not in the delivery; {nearest(missing, known)}")
    return [ref for ref in discovery.recordings if not only or ref.id in only]


def _examine_all(refs: list[RecordingRef], examination: _Examination, workers: int | None) -> Generator[Examined, None, None]:
    work = partial(_examine, examination=examination)
    waiting: list[Pending] = list(_digested(refs))
    wanted = min(2, os.cpu_count() or 1) if workers is None else workers
    if wanted == 0 or not waiting:
        return (work(pending) for pending in waiting)
    return run_guarded(waiting, work, give_up=_given_up, workers=wanted, stall_s=examination.job.stall_s)


def _digested(refs: list[RecordingRef]) -> Iterator[Pending]:
    """Read files that several recordings share here, once; the others are read where their recording is examined."""
    files = FileDigests(refs)
    for ref in refs:
        try:
            yield ref, raw_digest(ref, files) if files.shares(ref) else None
        except OSError:
            yield ref, None  # the examination meets it again and says so


def _given_up(pending: Pending, finding: Finding) -> Examined:
    return Examined(pending[0].id, (finding,), look_at=_file_of(pending[0]))


def _file_of(ref: RecordingRef) -> str:
    """Name the file that a person looks at: the recording's first video, else the first of its files."""
    files = ref.files.get("media", ())
    shown = [path for path in files if path.suffix.lower() in SHOWN_SUFFIXES]
    return str(next(iter((*shown, *files)), ref.root))


def _examine(pending: Pending, *, examination: _Examination) -> Examined:
    """Examine one recording; what goes wrong is a finding, as in ingest."""
    ref, raw = pending
    try:
        raw = raw or raw_digest(ref)
        drafts = read_drafts(ref, examination.job)
        given = (*drafts.findings, *(finding for draft in drafts.episodes for finding in draft.findings))
        own: list[Finding] = []
        figures = {}
        for draft in drafts.episodes:
            quality = check_quality(DraftReader(draft), limits=examination.checks.limits, content=raw.raw)
            figures[draft.meta.episode_id] = quality.figures
            own += [*_check(draft, raw, examination), *quality.findings]
        findings = merged(own, placed(given, raw.raw))
    except Exception as error:  # noqa: BLE001  one recording's surprise must not stop the others; it is a finding of its own
        return Examined(ref.id, placed(failure(ref, error)[0], raw.raw if raw else ""), look_at=_file_of(ref))
    numbers = {draft.meta.episode_id: digest for draft in drafts.episodes if (digest := _numbers(draft))}
    pictures = {draft.meta.episode_id: digest for draft in drafts.episodes if (digest := _pictures(draft, raw, ref))}
    return Examined(ref.id, findings, figures, numbers, pictures, _file_of(ref))


def _check(draft: EpisodeDraft, raw: RawDigests, examination: _Examination) -> Iterator[Finding]:
    reader, limits = DraftReader(draft), examination.checks.limits
    yield from validate_episode(reader, limits=limits, content=raw.raw)
    for camera, source in draft.videos.items() if examination.checks.pictures else ():
        if isinstance(source, VideoSource):
            yield from check_pictures(reader, camera, levels=raw_levels(source), limits=limits, content=raw.raw)
        else:
            message = f"{camera_key(camera)}: stored pictures were not looked at; examine the store after ingest."
            yield Finding("pictures-unseen", Severity.INFO, draft.meta.episode_id, message, stream=camera_key(camera), content=raw.raw)


def _numbers(draft: EpisodeDraft) -> str:
    """Digest what moves: all floats; empty where there are none."""
    parts = {key: array_digest(key, values) for key, values in draft.arrays.items() if values.dtype.kind == "f" and key != TIMESTAMPS}
    return combined_digest(parts) if parts else ""


def _pictures(draft: EpisodeDraft, raw: RawDigests, ref: RecordingRef) -> str:
    """Digest the vendor's video files and the rows of them that are shown; empty where the pictures come from elsewhere."""
    known = {file.path: file.sha256 for file in raw.files}
    parts = hashlib.sha256()
    for _, source in sorted(draft.videos.items()):
        if not isinstance(source, VideoSource) or not source.path.is_relative_to(ref.root):
            return ""
        parts.update(known.get(source.path.relative_to(ref.root).as_posix(), str(source.path)).encode() + source.rows.tobytes())
    return parts.hexdigest() if draft.videos else ""
