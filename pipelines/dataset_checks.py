"""Verdicts about datasets, statistics and parity, for the history."""

from collections.abc import Sequence

import dagster as dg
import numpy as np

from egodata.catalog import Manifest, check_gates
from egodata.errors import GateError
from egodata.parity import ParityReport
from egodata.stats import NormStats
from pipelines.history import Verdict


def leakage_verdicts(manifest: Manifest) -> list[Verdict]:
    """Run the gates of a dataset once more on what was frozen: heads disjoint, pins inside, no empty head."""
    try:
        check_gates(manifest)
    except GateError as error:
        return [Verdict("leakage_gates", False, str(error), blocking=True, content=manifest.digest)]
    heads = ", ".join(f"{head} {len(members)}" for head, members in manifest.heads.items())
    return [Verdict("leakage_gates", True, heads, blocking=True, content=manifest.digest)]


def finite_verdicts(stats: NormStats) -> list[Verdict]:
    """Say whether every number of some statistics is finite where the channel has rows at all."""
    wrong = [
        f"{feature} {name}"
        for feature, found in stats.features.items()
        for name, values in found.fields.items()
        if not np.isfinite(np.asarray(values, dtype=np.float64)[np.asarray(found.fields["count"]) > 0]).all()
    ]
    value = f"not finite: {', '.join(wrong[:5])}" if wrong else f"{stats.windows} windows of {stats.episodes} episodes"
    return [Verdict("finite_statistics", not wrong, value, blocking=True, content=stats.key)]


def parity_verdicts(report: ParityReport) -> list[Verdict]:
    """Return the verdict of every level; each blocks what rests on it (pipelines.gates)."""
    return [
        Verdict(
            f"parity_{level.level}",
            level.passed,
            f"{len(level.passed_episodes)} passed, {len(level.failed)} failed",
            blocking=True,
            content=report.dataset_digest,
        )
        for level in report.levels
    ]


def require_passed(context: dg.AssetExecutionContext, verdicts: Sequence[Verdict], *, what: str) -> None:
    """Fail an asset whose own blocking check says no; the verdict is in the history before, and in the check's record now.

    Raises:
        Failure: Naming the check and what was seen.
    """
    for one in verdicts:
        if one.blocking and not one.passed:
            # Dagster skips the check's own step once the asset has failed.
            seen = {"seen": one.value}
            context.log_event(dg.AssetCheckEvaluation(asset_key=context.asset_key, check_name=one.check, passed=False, metadata=seen))
            raise dg.Failure(description=f"{what}: check {one.check} failed: {one.value}", allow_retries=False)
