"""Checks that the UI shows beside the assets. What must block is read in the asset bodies (pipelines.gates)."""

import dagster as dg

from egodata.catalog.rows import catalog_from_lance
from egodata.formats.zarr import verify_episode
from egodata.parity import latest
from pipelines.assets.tables import LANCE_V2, PARITY_REPORT
from pipelines.metadata import findings_table
from pipelines.resources import StoreResource

VERIFIED_EPISODES = 20


@dg.asset_check(
    asset=LANCE_V2, name="zarr_bytes_verified", description="Digests of the newest episodes' files, up to 20, are what was published."
)
def zarr_bytes_verified(store: StoreResource) -> dg.AssetCheckResult:
    """Verify files and digests of some episodes."""
    paths = store.paths()
    ids = [row.episode_id for row in catalog_from_lance(paths)][-VERIFIED_EPISODES:]
    findings = [finding for episode_id in ids for finding in verify_episode(paths, episode_id)]
    return dg.AssetCheckResult(
        passed=not findings,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"episodes": len(ids), **({"findings": findings_table(findings)} if findings else {})},
    )


@dg.asset_check(asset=PARITY_REPORT, name="formats_agree", description="The newest catalog and content verdicts of the parity table.")
def formats_agree(store: StoreResource) -> dg.AssetCheckResult:
    """Show the newest verdicts."""
    rows = [row for level in ("catalog", "content") for row in latest(store.paths(), level) if not row["dataset"]]
    failed = [row["level"] for row in rows if not row["passed"]]
    return dg.AssetCheckResult(
        passed=bool(rows) and not failed,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"checked": [f"{row['created']} {row['level']}" for row in rows], "failed": failed},
    )


CHECKS = [zarr_bytes_verified, formats_agree]
