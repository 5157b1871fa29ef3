"""The Lance copy and the proof that it says the same as the zarr episodes."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import dagster as dg

from egodata.catalog.recopy import recopy_datasets
from egodata.catalog.rows import catalog_from_lance
from egodata.formats.lance import build_lance, table_versions
from egodata.parity import Choice, check_parity, unproven
from egodata.schema.canonical import json_digest
from egodata.schema.layout import StorePaths
from pipelines.assets.ingest import EPISODE_ANNOTATIONS, EPISODE_CALIBRATION, EPISODE_ZARR
from pipelines.dataset_checks import parity_verdicts
from pipelines.history import keep_verdicts
from pipelines.metadata import catalog_table, episodes_columns, parity_metadata
from pipelines.progress import log_progress
from pipelines.resources import OWNER, StoreResource

WEEKLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(days=9), warn_window=timedelta(days=8))
"""A lab receives deliveries every week: tables and proof that were not made for longer are stale."""
LANCE_V2 = dg.AssetKey("lance_v2")
PARITY_REPORT = dg.AssetKey("parity_report")


class ParityScope(dg.Config):
    """Which episodes a parity check looks at.

    Attributes:
        which: ``all``; ``new`` for those not proven at their present content; ``sample`` for others every day.
        count: Size of the sample.
    """

    which: Literal["all", "new", "sample"] = "all"
    count: int = 50

    def choose(self, paths: StorePaths) -> list[str] | Choice | None:
        """Return what `check_parity` takes; where nothing is new it is a sample, so that a verdict is always of something."""
        if self.which == "all":
            return None
        rows = catalog_from_lance(paths)
        new = unproven(paths, [(row.episode_id, row.content) for row in rows]) if self.which == "new" else []
        return new or Choice(min(self.count, len(rows)), datetime.now(UTC).date())


@dg.asset(
    key=LANCE_V2,
    deps=[EPISODE_ZARR, EPISODE_ANNOTATIONS, EPISODE_CALIBRATION],
    group_name="tables",
    kinds={"lance"},
    owners=[OWNER],
    freshness_policy=WEEKLY,
    code_version="1",
    description="Lance v2 tables episodes, frames, videos and annotations: an upsert of the episodes that changed, in one commit.",
)
def lance_v2(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
    """Bring the Lance tables up to the published zarr episodes."""
    paths, progress = store.paths(), log_progress(context.log.info)
    build = build_lance(paths, progress=progress)
    recopied = recopy_datasets(paths, progress=progress)
    if recopied.restored:
        build_lance(paths, progress=progress)  # the newest commit shows what is published, not what was brought back
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
            "table_versions": table_versions(paths),
            "catalog": catalog_table(rows),
            "dagster/column_schema": episodes_columns(),
            "datasets_restored": list(recopied.restored),
            "datasets_without_lance_copy": list(recopied.lost),
        },
    )


@dg.asset(
    key=PARITY_REPORT,
    deps=[LANCE_V2],
    group_name="parity",
    kinds={"lance"},
    owners=[OWNER],
    freshness_policy=WEEKLY,
    code_version="1",
    description="Zarr against Lance at catalog and content level, over every episode. A dataset is only frozen from episodes that passed.",
)
def parity_report(context: dg.AssetExecutionContext, config: ParityScope, store: StoreResource) -> dg.MaterializeResult[None]:
    """Compare both formats and append the verdict to the parity table."""
    paths = store.paths()
    report = check_parity(paths, episode_ids=config.choose(paths), progress=log_progress(context.log.info))
    keep_verdicts(paths, {"": parity_verdicts(report)}, asset="parity_report", run_id=context.run.run_id)
    return dg.MaterializeResult(metadata={"which": config.which, **parity_metadata(report)})
