"""The work of the recording assets: the same for single recordings and for shards, in this process, in spawned ones, or on a cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import dagster as dg

from egodata.errors import EgodataError
from egodata.findings import Finding, Severity
from egodata.formats import open_store
from egodata.ingest import IngestReport, Outcome, attach_recording, ingest
from egodata.reports.ingest_page import write_ingest_page
from egodata.schema.layout import StorePaths
from egodata.vendors import Discovery, RecordingRef, SetAside, VendorOptions
from pipelines.batches import Batch, Made
from pipelines.deliveries import Delivery
from pipelines.executors import executor_name, spread_for, workers_for
from pipelines.metadata import attach_metadata, episode_metadata
from pipelines.progress import log_progress
from pipelines.resources import StoreResource
from pipelines.units import Unit, is_shard, units_for


def open_batch(
    context: dg.AssetExecutionContext,
    paths: StorePaths,
    *,
    upstream: Sequence[dg.AssetKey],
    checks: Mapping[str, tuple[str, bool]] | None = None,
) -> Batch:
    """Start a batch over the partitions of a run; what no delivery holds any more has failed already."""
    found, gone = units_for(paths, context.partition_keys)
    batch = Batch(context, paths, upstream, found, checks or {})
    batch.gone(gone)
    return batch


def _deliveries(batch: Batch) -> Iterator[tuple[Delivery, list[Unit]]]:
    groups: dict[Delivery, list[Unit]] = {}
    for unit in batch.units:
        groups.setdefault(unit.delivery, []).append(unit)
    yield from groups.items()


def build(batch: Batch, store: StoreResource) -> None:
    """Ingest the recordings of a batch, a delivery at a time; exactly the partitions with a recording that was set aside fail."""
    name = executor_name(store.executor)
    report = log_progress(batch.context.log.info)
    for delivery, group in _deliveries(batch):
        recordings = tuple(recording for unit in group for recording in unit.recordings)
        options = delivery.options(batch.paths, only=recordings, workers=workers_for(name, store.workers))
        heard = _listener(batch, previews=not any(is_shard(unit.key) for unit in group))
        try:
            done = ingest(delivery.folder, options=options, progress=report, on_outcome=heard, spread=spread_for(name))
        except (EgodataError, OSError) as error:
            batch.unfinished(recordings, error=error)
            continue
        _write_page(batch, done)
    batch.finish()


def _write_page(batch: Batch, report: IngestReport) -> None:
    """Write the report's page beside it, as the command does; every recording is reported already, so a page that fails fails none."""
    if report.path is None:
        return
    try:
        page = write_ingest_page(report.to_json(), open_store(batch.paths, "zarr"), out=report.path.with_suffix(".html"))
    except (EgodataError, OSError) as error:
        batch.context.log.warning(f"ingest report {report.path}: its page could not be written ({error})")
    else:
        batch.context.log.info(f"ingest report: {page}")


def _listener(batch: Batch, *, previews: bool) -> Callable[[Outcome], None]:
    def heard(outcome: Outcome) -> None:
        batch.outcome(outcome, metadata=episode_metadata(batch.paths, outcome, preview=previews))

    return heard


def attach(batch: Batch, part: str) -> None:
    """Attach delivered annotations or calibration to the episodes of a batch; whatever goes wrong is one recording's own."""
    report, total, done = log_progress(batch.context.log.info), len(batch.recordings()), 0
    for delivery, group in _deliveries(batch):
        recordings = [recording for unit in group for recording in unit.recordings]
        try:
            found = delivery.discover()
        except (EgodataError, OSError) as error:
            batch.unfinished(recordings, error=error)
            continue
        refs, refused = {ref.id: ref for ref in found.recordings}, _refused(found)
        for recording in recordings:
            if recording in refs:
                made = _attached(batch.paths, refs[recording], part)
            else:
                made = Made({}, refused.get(recording, _vanished(recording)), failed=True)
            batch.made(recording, made)
            done += 1
            report(part, done, total)
    batch.finish()


def _attached(paths: StorePaths, ref: RecordingRef, part: str) -> Made:
    try:
        report = attach_recording(paths, ref, part=part, options=VendorOptions(ref.dataset, ref.delivery))
        return Made(report.contents, report.findings, attach_metadata(paths, report))
    except SetAside as reason:
        findings = reason.findings
    except (EgodataError, OSError) as error:
        findings = (Finding(f"{part}-not-attached", Severity.ERROR, ref.id, f"{type(error).__name__}: {error}"),)
    return Made({}, findings, failed=True)


def _refused(found: Discovery) -> Mapping[str, tuple[Finding, ...]]:
    return {item.findings[0].episode: item.findings for item in found.refused if item.findings}


def _vanished(recording: str) -> tuple[Finding, ...]:
    message = f"recording {recording}: its delivery does not hold it any more. Deliver it again."
    return (Finding("not-delivered", Severity.ERROR, recording, message),)
