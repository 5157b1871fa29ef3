"""Checks that the UI shows beside the assets, read from the history and the parity table.

Dagster keeps one verdict per check; these therefore sum up the newest verdict of every partition, and the history keeps all of them.
In the run of a batch Dagster skips these steps, so the batch gives the same verdicts itself (pipelines.batches).
What must block does so in the asset bodies: a blocking check of an episode fails its partition, parity closes the gates.
"""

import dagster as dg

from egodata.parity import latest
from pipelines.assets.datasets import DATASET, LOADER_PARITY, NORM_STATS
from pipelines.assets.ingest import EPISODE_ZARR
from pipelines.assets.tables import PARITY_REPORT
from pipelines.check_summary import summed_up
from pipelines.episode_checks import EPISODE_CHECKS
from pipelines.history import ERROR, newest_table
from pipelines.resources import StoreResource


def _check(key: dg.AssetKey, name: str, *, severity: str, blocking: bool, what: str) -> dg.AssetChecksDefinition:
    says = f"{what[0].upper()}{what[1:]}. Severity {severity}; {'a failure blocks' if blocking else 'blocks nothing'}."

    @dg.asset_check(asset=key, name=name, description=f"{says} The newest verdict of every partition.")
    def summed(store: StoreResource) -> dg.AssetCheckResult:
        newest = newest_table(store.paths(), asset=key.to_python_identifier())
        return dg.AssetCheckResult(**summed_up(newest, name, severity=severity, blocking=blocking))

    return summed


@dg.asset_check(
    asset=PARITY_REPORT,
    name="formats_agree",
    description="The newest catalog and content verdicts of the parity table. Severity error; a failure blocks freezing what failed.",
)
def formats_agree(store: StoreResource) -> dg.AssetCheckResult:
    """Show the newest verdicts."""
    rows = [row for level in ("catalog", "content") for row in latest(store.paths(), level) if not row["dataset"]]
    failed = [row["level"] for row in rows if not row["passed"]]
    return dg.AssetCheckResult(
        passed=bool(rows) and not failed,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"checked": [f"{row['created']} {row['level']}" for row in rows], "failed": failed},
    )


CHECKS = [
    *(_check(EPISODE_ZARR, name, severity=severity, blocking=block, what=what) for name, (severity, block, what) in EPISODE_CHECKS.items()),
    _check(DATASET, "leakage_gates", severity=ERROR, blocking=True, what="heads are disjoint, pins inside their heads, no head empty"),
    _check(NORM_STATS, "finite_statistics", severity=ERROR, blocking=True, what="every number of the statistics is finite"),
    _check(LOADER_PARITY, "parity_loader", severity=ERROR, blocking=True, what="the same index gives the same sample on both formats"),
    formats_agree,
]
