"""Ingest a delivery: recordings in parallel, each on its own."""

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from egodata.errors import InputError, NotFoundError
from egodata.findings import Finding, Severity
from egodata.findings.waivers import read_waivers
from egodata.ingest.belongings import Subject, belongings
from egodata.ingest.build import Job, look, set_aside, treat
from egodata.ingest.changes import compare, last_report
from egodata.ingest.clips import load_clips
from egodata.ingest.declare import check_declared
from egodata.ingest.digests import FileDigests
from egodata.ingest.forgotten import forgotten_finding, forgotten_hashes
from egodata.ingest.keep import Kept, keep_delivery
from egodata.ingest.ledger import known_raw, known_recordings, read_entry
from egodata.ingest.observe import vendor_options
from egodata.ingest.options import IngestOptions
from egodata.ingest.pool import Pending, run_guarded
from egodata.ingest.report import SKIPPED, IngestReport, Outcome, write_report
from egodata.ingest.sources import get_source
from egodata.names import nearest
from egodata.progress import Progress, silent
from egodata.schema.layout import StorePaths, open_root, require_writable
from egodata.vendors import Discovery, RecordingRef, Refused, Vendor, VendorOptions

LABEL = "ingest"


def _unheard(outcome: Outcome) -> None:
    """Tell nobody."""


Spread = Callable[[Sequence[Pending], Job], Iterator[Outcome]]
"""Treats recordings elsewhere, as on a cluster: given what did not turn out to be unchanged, it gives each outcome as it completes."""


def ingest(
    raw: Path,
    *,
    options: IngestOptions,
    progress: Progress = silent,
    on_outcome: Callable[[Outcome], None] = _unheard,
    spread: Spread | None = None,
) -> IngestReport:
    """Turn a delivery into published episodes; what did not change is skipped, what cannot be built is set aside.

    Every recording is listed once in the report: inputs = built + set aside + skipped + absent.
    Without `options.dataset`, a recording that was built before keeps the dataset that it had then: a new delivery of it in another
    folder changes nothing. Skipped episodes are looked at by the sizes of their files; one that lost some is built again.

    Args:
        raw: The delivery's folder; it is only read.
        options: What and how.
        progress: Told after every recording.
        on_outcome: Told of every recording as it finishes, in this process, so that a killed caller knows what was done.
        spread: Treats the recordings instead of processes of this machine; `options.workers` is not used then.

    Raises:
        InputError: The store cannot be written to, or RAW is not such a delivery.
        NotFoundError: No such vendor, config or recording.
    """
    vendor = get_source(options.vendor)
    _check_apart(raw, options.store)
    filled = vendor_options(raw, dataset=options.dataset, delivery=options.delivery, config=options.config, declare=options.declare)
    settings, workers = vendor.settings(filled), _workers(options)
    check_declared(options.declare)
    clips = load_clips(options.clips)
    discovery = vendor.discover(raw.resolve(), filled)
    paths = open_root(options.store, create=True)
    require_writable(paths)
    hashes = frozenset() if options.include_forgotten else forgotten_hashes(paths)
    kept = None
    if options.copy:
        kept, discovery = _kept(discovery, vendor, filled, raw=raw, options=options, hashes=hashes, progress=progress)
    selected = _select(_without_collisions(_named(discovery, paths, options), paths, options, unique=vendor.unique_ids), options)
    twins = {} if vendor.unique_ids else known_raw(paths, vendor.name)
    waivers = read_waivers(paths.ledger)
    job = Job(
        paths, filled, options.settings, settings, options.force, clips, options.stall_s, waivers, twins, hashes, options.expected_raw
    )
    treat_them = partial(_treat_all, workers=workers, spread=spread)
    outcomes = _outcomes(selected, job, treat_them, progress=progress, on_outcome=on_outcome)
    report = IngestReport(
        options.vendor,
        filled.dataset,
        filled.delivery,
        outcomes,
        selected.absent,
        options.fail_on,
        copied=None if kept is None else kept.to_json(),
    )
    report = replace(
        report, changes=compare(last_report(paths, report), report, partial=options.only is not None or options.limit is not None)
    )
    return replace(report, path=write_report(paths, report, stamp=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")))


def _check_apart(raw: Path, store: Path) -> None:
    """Refuse a store that lies in the delivery."""
    if store.resolve() == raw.resolve():
        raise InputError(f"store {store}: is the delivery itself, which is only read. Choose another --store.")
    if raw.resolve() in store.resolve().parents:
        raise InputError(f"store {store}: lies in the delivery {raw}, which is only read. Choose another --store.")


def _outcomes(
    selected: Discovery,
    job: Job,
    treat_them: Callable[..., Generator[Outcome, None, None]],
    *,
    progress: Progress,
    on_outcome: Callable[[Outcome], None],
) -> tuple[Outcome, ...]:
    """Treat everything and return one outcome per recording, sorted by id."""
    total = len(selected.recordings) + len(selected.refused)
    left_out = {ref.id: found for ref in selected.recordings if (found := forgotten_finding(ref, job.forgotten)) is not None}
    outcomes = [set_aside(item.ref, job, findings=item.findings) for item in selected.refused]
    outcomes += [Outcome(ref.id, SKIPPED, findings=(left_out[ref.id],)) for ref in selected.recordings if ref.id in left_out]
    for outcome in outcomes:
        on_outcome(outcome)
    progress(LABEL, len(outcomes), total)
    with closing(treat_them([ref for ref in selected.recordings if ref.id not in left_out], job)) as treated:
        for outcome in treated:
            outcomes.append(outcome)
            on_outcome(outcome)
            progress(LABEL, len(outcomes), total)
    return tuple(sorted(outcomes, key=lambda outcome: outcome.recording.encode()))


def _kept(
    discovery: Discovery,
    vendor: Vendor,
    filled: VendorOptions,
    *,
    raw: Path,
    options: IngestOptions,
    hashes: frozenset[str],
    progress: Progress,
) -> tuple[Kept, Discovery]:
    """Copy what is asked for, and was not forgotten, into the store and look at the copy instead.

    Of the others nothing goes in that is theirs alone, as `forget` would take it out.
    """
    wanted = {ref.id for ref in _select(discovery, options).recordings if forgotten_finding(ref, hashes) is None}
    others = frozenset((ref.vendor, ref.id) for ref in discovery.recordings if ref.id not in wanted)
    without = belongings(raw.resolve(), [discovery], subject=Subject(others)).own
    paths = StorePaths(options.store)
    kept = keep_delivery(raw, paths, vendor=vendor.name, delivery=filled.delivery, without=without, progress=progress)
    return kept, vendor.discover(kept.folder.resolve(), filled)


def _named(discovery: Discovery, paths: StorePaths, options: IngestOptions) -> Discovery:
    """Give recordings that were built before the dataset that they had then, unless the person names one."""
    if options.dataset is not None:
        return discovery
    stored = set(known_recordings(paths))
    if options.only is not None:
        stored &= set(options.only)  # nothing is read of those that are not asked for: a run over one shard of many stays as long as it is
    refs = []
    for ref in discovery.recordings:
        entry = read_entry(paths, ref.id) if ref.id in stored else None
        refs.append(replace(ref, dataset=entry.dataset) if entry is not None and entry.vendor == ref.vendor else ref)
    return replace(discovery, recordings=tuple(refs))


def _select(discovery: Discovery, options: IngestOptions) -> Discovery:
    """Keep what `only` and `limit` ask for; a refused recording goes by the id that the vendor gave it."""
    if options.only is None and options.limit is None:
        return discovery
    given = {item.findings[0].episode for item in discovery.refused}
    known = {ref.id for ref in discovery.recordings} | given | set(discovery.absent)
    wanted = known if options.only is None else set(options.only)
    for missing in sorted(wanted - known):
        raise NotFoundError(f"recording {missing}: not in the delivery; {nearest(missing, known)}")
    recordings = [ref for ref in discovery.recordings if ref.id in wanted][: options.limit]
    refused = [item for item in discovery.refused if item.findings[0].episode in wanted]
    return Discovery(tuple(recordings), tuple(item for item in discovery.absent if item in wanted), tuple(refused))


def _without_collisions(discovery: Discovery, paths: StorePaths, options: IngestOptions, *, unique: bool) -> Discovery:
    """Refuse recordings whose id is another one's, ignoring case: twice in the delivery, or already in the store.

    With `options.only`, the others are left as they are: they are not treated, so what the store has of them does not matter.
    """
    same = Counter(ref.id.lower() for ref in discovery.recordings)
    exact = Counter(ref.id for ref in discovery.recordings)
    stored = {recording.lower(): recording for recording in known_recordings(paths)}
    clear, refused = [], list(discovery.refused)
    only = None if options.only is None else frozenset(options.only)
    for ref in discovery.recordings:
        if only is not None and ref.id not in only:
            clear.append(ref)
            continue
        known = stored.get(ref.id.lower())
        other = _other_owner(ref, known, paths, unique=unique)
        if other is None and same[ref.id.lower()] > 1 and (known is None or exact[ref.id] > 1):
            other = f"{same[ref.id.lower()]} recordings of this delivery have it"
        if other is None:
            clear.append(ref)
            continue
        message = f"id {ref.id}: {other}, ignoring case. Ask the vendor for another id; nothing is renamed."
        refused.append(Refused(_marked(ref), (Finding("id-collision", Severity.ERROR, ref.id, message),)))
    return Discovery(tuple(clear), discovery.absent, tuple(refused))


def _other_owner(ref: RecordingRef, known: str | None, paths: StorePaths, *, unique: bool) -> str | None:
    if known is not None and known != ref.id:
        return f"recording {known} is in the store"
    entry = read_entry(paths, ref.id) if known is not None else None
    if entry is not None and (entry.vendor != ref.vendor or (not unique and entry.dataset != ref.dataset)):
        return f"the store has it from {entry.vendor}, dataset {entry.dataset}"
    return None


def _marked(ref: RecordingRef) -> RecordingRef:
    """Give a colliding recording a name of its own for its quarantine record."""
    where = sorted(path.as_posix() for paths in ref.files.values() for path in paths)
    return replace(ref, id=f"{ref.id[:80]}-x{sha256(''.join(where).encode()).hexdigest()[:8]}")


def _workers(options: IngestOptions) -> int:
    wanted = min(2, os.cpu_count() or 1) if options.workers is None else options.workers
    if wanted < 0:
        raise InputError(f"workers {wanted}: expected 0 or more")
    return wanted


def _treat_all(
    recordings: Sequence[RecordingRef], job: Job, *, workers: int, spread: Spread | None = None
) -> Generator[Outcome, None, None]:
    """Skip what did not change in this process, then treat the rest in as many as that is worth."""
    waiting: list[Pending] = []
    files = FileDigests(recordings)
    for ref in recordings:
        outcome, raw = look(ref, job, files=files)
        if outcome is None:
            waiting.append((ref, raw))
        else:
            yield outcome
    if not waiting:
        return
    if spread is not None:
        yield from spread(waiting, job)
        return
    if workers == 0:
        yield from (treat(ref, job, raw=raw) for ref, raw in waiting)
        return
    give_up = partial(_given_up, job=job)
    yield from run_guarded(waiting, partial(_treat_pending, job=job), give_up=give_up, workers=workers, stall_s=job.stall_s)


def _treat_pending(pending: Pending, *, job: Job) -> Outcome:
    return treat(pending[0], job, raw=pending[1])


def _given_up(pending: Pending, finding: Finding, *, job: Job) -> Outcome:
    return set_aside(pending[0], job, findings=(finding,), raw=pending[1])
