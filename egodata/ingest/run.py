"""Ingest a delivery: recordings in parallel, each on its own."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from multiprocessing import active_children, get_context
from pathlib import Path

from egodata.errors import EgodataError, InputError, NotFoundError
from egodata.findings import Finding, Severity
from egodata.ingest.build import Job, look, set_aside, treat
from egodata.ingest.digests import RawDigests
from egodata.ingest.ledger import known_recordings, read_entry
from egodata.ingest.observe import vendor_options
from egodata.ingest.options import IngestOptions
from egodata.ingest.report import IngestReport, Outcome, write_report
from egodata.ingest.sources import get_source
from egodata.names import nearest
from egodata.progress import Progress, silent
from egodata.schema.layout import StorePaths, open_root, require_writable
from egodata.vendors import Discovery, RecordingRef, Refused

LABEL = "ingest"
_Pending = tuple[RecordingRef, RawDigests | None]


def _unheard(outcome: Outcome) -> None:
    """Tell nobody."""


Spread = Callable[[Sequence[_Pending], Job], Iterator[Outcome]]
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
    if options.store.resolve() == raw.resolve():
        raise InputError(f"store {options.store}: is the delivery itself, which is only read. Choose another --store.")
    filled = vendor_options(raw, dataset=options.dataset, delivery=options.delivery, config=options.config, declare=options.declare)
    settings = vendor.settings(filled)
    discovery = vendor.discover(raw.resolve(), filled)
    paths = open_root(options.store, create=True)
    require_writable(paths)
    selected = _select(_without_collisions(discovery, paths, unique=vendor.unique_ids), options)
    job = Job(paths, filled, options.settings, settings, options.force)
    total = len(selected.recordings) + len(selected.refused)
    outcomes = [set_aside(item.ref, paths, findings=item.findings) for item in selected.refused]
    for outcome in outcomes:
        on_outcome(outcome)
    progress(LABEL, len(outcomes), total)
    with closing(_treat_all(selected.recordings, job, _workers(options), spread)) as treated:
        for outcome in treated:
            outcomes.append(outcome)
            on_outcome(outcome)
            progress(LABEL, len(outcomes), total)
    ordered = tuple(sorted(outcomes, key=lambda outcome: outcome.recording.encode()))
    report = IngestReport(options.vendor, filled.dataset, filled.delivery, ordered, selected.absent, options.fail_on)
    return replace(report, path=write_report(paths, report, stamp=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")))


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


def _without_collisions(discovery: Discovery, paths: StorePaths, *, unique: bool) -> Discovery:
    """Refuse recordings whose id is another one's, ignoring case: twice in the delivery, or already in the store."""
    same = Counter(ref.id.lower() for ref in discovery.recordings)
    exact = Counter(ref.id for ref in discovery.recordings)
    stored = {recording.lower(): recording for recording in known_recordings(paths)}
    clear, refused = [], list(discovery.refused)
    for ref in discovery.recordings:
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


def _treat_all(recordings: Sequence[RecordingRef], job: Job, workers: int, spread: Spread | None) -> Generator[Outcome, None, None]:
    """Skip what did not change in this process, then treat the rest in as many as that is worth."""
    waiting: list[_Pending] = []
    for ref in recordings:
        outcome, raw = look(ref, job)
        if outcome is None:
            waiting.append((ref, raw))
        else:
            yield outcome
    if spread is not None:
        yield from spread(waiting, job)
        return
    if min(workers, len(waiting)) <= 1:
        yield from (treat(ref, job, raw=raw) for ref, raw in waiting)
        return
    lost = yield from _in_pool(waiting, job, min(workers, len(waiting)))
    for pending in lost:
        again = yield from _in_pool([pending], job, 1)
        for dead, raw in again:
            message = "its worker process died twice, as when memory runs out. Try --workers 1 on a machine with more memory."
            yield set_aside(dead, job.paths, findings=(Finding("worker-died", Severity.ERROR, dead.id, message),), raw=raw)


def _in_pool(waiting: Sequence[_Pending], job: Job, workers: int) -> Generator[Outcome, None, list[_Pending]]:
    """Treat recordings in spawned processes; return those whose process died, or that waited behind one that did."""
    lost: list[_Pending] = []
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        _require_alive(pool)
        futures: dict[Future[Outcome], _Pending] = {}
        with _interrupts_left_to_parent():
            for ref, raw in waiting:
                try:
                    futures[pool.submit(treat, ref, job, raw=raw)] = (ref, raw)
                except BrokenProcessPool:
                    lost.append((ref, raw))
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                lost.append(futures[future])
    except (KeyboardInterrupt, GeneratorExit):
        for process in set(active_children()) - others:  # publishing survives a kill, so nobody has to wait for the encoder
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return lost


@contextmanager
def _interrupts_left_to_parent() -> Iterator[None]:
    """Make processes started inside ignore Ctrl-C from their first instruction on; this process ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _require_alive(pool: ProcessPoolExecutor) -> None:
    with _interrupts_left_to_parent():
        alive = pool.submit(os.getpid)
    try:
        alive.result()
    except BrokenProcessPool as error:
        raise EgodataError(
            "ingest: worker processes do not start. In a script call ingest under `if __name__ == '__main__':`, or use workers=1."
        ) from error
