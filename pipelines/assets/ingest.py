"""Episodes from recordings: built in batches, one event per finished partition."""

import warnings
from collections.abc import Callable, Iterator, Sequence

import dagster as dg

from pipelines.assets.raw import RAW_EPISODE
from pipelines.building import attach, build, open_batch
from pipelines.episode_checks import EPISODE_CHECKS
from pipelines.partitions import RECORDINGS
from pipelines.resources import OWNER, VIDEO_POOL, StoreResource

EPISODE_ZARR = dg.AssetKey("episode_zarr")
EPISODE_ANNOTATIONS = dg.AssetKey("episode_annotations")
EPISODE_CALIBRATION = dg.AssetKey("episode_calibration")
Body = Callable[[dg.AssetExecutionContext, StoreResource], Iterator[None]]


def _recording_asset(
    key: dg.AssetKey, *, deps: Sequence[dg.AssetKey], description: str, pool: str | None = None
) -> Callable[[Body], dg.AssetsDefinition]:
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
            owners=[OWNER],
            pool=pool,
            code_version="1",
            description=description,
        )


@_recording_asset(
    EPISODE_ZARR,
    deps=[RAW_EPISODE],
    pool=VIDEO_POOL,
    description="Train-ready zarr episodes with chunk-keyframed H.264, published in versions. What cannot be built is set aside.",
)
def episode_zarr(context: dg.AssetExecutionContext, store: StoreResource) -> Iterator[None]:
    """Ingest the recordings of the run; exactly those that are set aside fail."""
    checks = {name: (severity, blocking) for name, (severity, blocking, _) in EPISODE_CHECKS.items()}
    build(open_batch(context, store.paths(), upstream=[RAW_EPISODE], checks=checks), store)
    yield from ()


@_recording_asset(
    EPISODE_ANNOTATIONS,
    deps=[RAW_EPISODE, EPISODE_ZARR],
    description="Annotations with the role in the key name, attached as a new version that shares the media. Equal ones change nothing.",
)
def episode_annotations(context: dg.AssetExecutionContext, store: StoreResource) -> Iterator[None]:
    """Attach the delivered annotations of the recordings of the run."""
    attach(open_batch(context, store.paths(), upstream=[RAW_EPISODE, EPISODE_ZARR]), "annotations")
    yield from ()


@_recording_asset(
    EPISODE_CALIBRATION,
    deps=[RAW_EPISODE, EPISODE_ZARR],
    description="Intrinsics scaled to the stored image, attached as a new version that shares the media. Unknown stays unknown.",
)
def episode_calibration(context: dg.AssetExecutionContext, store: StoreResource) -> Iterator[None]:
    """Attach the delivered calibration of the recordings of the run."""
    attach(open_batch(context, store.paths(), upstream=[RAW_EPISODE, EPISODE_ZARR]), "calibration")
    yield from ()
