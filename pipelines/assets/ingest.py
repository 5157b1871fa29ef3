"""Episodes from recordings: built in batches, one event per finished partition."""

import warnings
from collections.abc import Callable, Iterator, Sequence

import dagster as dg

from egodata.ingest import attach_recording, ingest
from egodata.vendors import SetAside, VendorOptions
from pipelines.assets.raw import RAW_EPISODE
from pipelines.batches import Batch
from pipelines.deliveries import by_delivery
from pipelines.metadata import attach_metadata
from pipelines.partitions import RECORDINGS
from pipelines.progress import log_progress
from pipelines.resources import StoreResource

EPISODE_ZARR = dg.AssetKey("episode_zarr")
EPISODE_ANNOTATIONS = dg.AssetKey("episode_annotations")
EPISODE_CALIBRATION = dg.AssetKey("episode_calibration")
Body = Callable[[dg.AssetExecutionContext, StoreResource], Iterator[None]]


def _recording_asset(key: dg.AssetKey, *, deps: Sequence[dg.AssetKey], description: str) -> Callable[[Body], dg.AssetsDefinition]:
    """Declare an asset that treats many recordings in one run and reports each partition itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # backfills in a single run are marked beta
        return dg.asset(
            key=key,
            deps=deps,
            partitions_def=RECORDINGS,
            backfill_policy=dg.BackfillPolicy.single_run(),
            output_required=False,
            group_name="ingest",
            kinds={"zarr"},
            code_version="1",
            description=description,
        )


@_recording_asset(
    EPISODE_ZARR,
    deps=[RAW_EPISODE],
    description="Train-ready zarr episodes with chunk-keyframed H.264, published in versions. What cannot be built is set aside.",
)
def episode_zarr(context: dg.AssetExecutionContext, store: StoreResource) -> Iterator[None]:
    """Ingest the recordings of the run; exactly those that are set aside fail."""
    paths = store.paths()
    batch = Batch(context, paths, [RAW_EPISODE])
    for delivery, recordings in by_delivery(paths, context.partition_keys).items():
        options = delivery.options(paths, only=tuple(recordings), workers=store.workers)
        ingest(delivery.folder, options=options, progress=log_progress(context.log.info), on_outcome=batch.outcome)
    batch.finish()
    yield from ()


def _attach(context: dg.AssetExecutionContext, store: StoreResource, part: str) -> None:
    paths = store.paths()
    batch = Batch(context, paths, [RAW_EPISODE, EPISODE_ZARR])
    report_progress, total, done = log_progress(context.log.info), len(context.partition_keys), 0
    for delivery, recordings in by_delivery(paths, context.partition_keys).items():
        refs = {ref.id: ref for ref in delivery.discover().recordings}
        for recording in recordings:
            ref = refs[recording]
            try:
                report = attach_recording(paths, ref, part=part, options=VendorOptions(ref.dataset, ref.delivery))
                batch.done(recording, contents=report.contents, metadata=attach_metadata(paths, report))
            except SetAside as reason:
                batch.failed[recording] = reason.findings
            done += 1
            report_progress(part, done, total)
    batch.finish()


@_recording_asset(
    EPISODE_ANNOTATIONS,
    deps=[RAW_EPISODE, EPISODE_ZARR],
    description="Annotations with the role in the key name, attached as a new version that shares the media. Equal ones change nothing.",
)
def episode_annotations(context: dg.AssetExecutionContext, store: StoreResource) -> Iterator[None]:
    """Attach the delivered annotations of the recordings of the run."""
    _attach(context, store, "annotations")
    yield from ()


@_recording_asset(
    EPISODE_CALIBRATION,
    deps=[RAW_EPISODE, EPISODE_ZARR],
    description="Intrinsics scaled to the stored image, attached as a new version that shares the media. Unknown stays unknown.",
)
def episode_calibration(context: dg.AssetExecutionContext, store: StoreResource) -> Iterator[None]:
    """Attach the delivered calibration of the recordings of the run."""
    _attach(context, store, "calibration")
    yield from ()
