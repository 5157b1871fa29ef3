"""The Lance copy and the proof that it says the same as the zarr episodes."""

import dagster as dg

from egodata.catalog.rows import catalog_from_lance
from egodata.formats.lance import build_lance
from egodata.parity import check_parity
from egodata.schema.canonical import json_digest
from pipelines.assets.ingest import EPISODE_ANNOTATIONS, EPISODE_CALIBRATION, EPISODE_ZARR
from pipelines.metadata import catalog_table, parity_metadata
from pipelines.progress import log_progress
from pipelines.resources import StoreResource

LANCE_V2 = dg.AssetKey("lance_v2")
PARITY_REPORT = dg.AssetKey("parity_report")


@dg.asset(
    key=LANCE_V2,
    deps=[EPISODE_ZARR, EPISODE_ANNOTATIONS, EPISODE_CALIBRATION],
    group_name="tables",
    kinds={"lance"},
    code_version="1",
    description="Lance v2 tables episodes, frames, videos and annotations: an upsert of the episodes that changed, in one commit.",
)
def lance_v2(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
    """Bring the Lance tables up to the published zarr episodes."""
    paths = store.paths()
    build = build_lance(paths, progress=log_progress(context.log.info))
    rows = catalog_from_lance(paths)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(json_digest([[row.episode_id, row.content] for row in rows])),
        metadata={
            "episodes": len(rows),
            "frames": sum(row.n_frames for row in rows),
            "added": build.added,
            "changed": build.changed,
            "removed": build.removed,
            "unchanged": build.unchanged,
            "table_versions": dict(build.versions),
            "catalog": catalog_table(rows),
        },
    )


@dg.asset(
    key=PARITY_REPORT,
    deps=[LANCE_V2],
    group_name="parity",
    kinds={"lance"},
    code_version="1",
    description="Zarr against Lance at catalog and content level, over every episode. A dataset is only frozen from episodes that passed.",
)
def parity_report(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
    """Compare both formats and append the verdict to the parity table."""
    paths = store.paths()
    report = check_parity(paths, progress=log_progress(context.log.info))
    return dg.MaterializeResult(metadata=parity_metadata(report))
