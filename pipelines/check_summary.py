"""One verdict over the newest verdicts of all partitions: what Dagster shows beside an asset, where it keeps a single verdict per check."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.history import ERROR

SHOWN = 50


def summed_up(newest: pa.Table, check: str, *, severity: str, blocking: bool) -> dict[str, Any]:
    """Sum up the newest verdicts of one check.

    Args:
        newest: Of all checks, as `pipelines.history.newest_table` gives it.
        check: Name of the check.
        severity: `ERROR` or `WARN` of `pipelines.history`.
        blocking: Whether a failure stops something.

    Returns:
        `passed`, `severity` and `metadata` of a check's result. Nothing looked at is no pass.
    """
    rows = newest.filter(pc.equal(newest["check"], check))
    failed = rows.filter(pc.invert(rows["passed"]))
    metadata: dict[str, Any] = {"looked_at": len(rows), "failed": len(failed), "blocking": blocking}
    if len(failed):
        metadata["failures"] = _failures(failed.slice(0, SHOWN))
    level = dg.AssetCheckSeverity.ERROR if severity == ERROR else dg.AssetCheckSeverity.WARN
    return {"passed": bool(len(rows)) and not len(failed), "severity": level, "metadata": metadata}


def _failures(rows: pa.Table) -> dg.TableMetadataValue:
    records = [
        dg.TableRecord({"partition": row["partition"], "episode": row["episode_id"], "seen": row["value"], "created": row["created"]})
        for row in rows.to_pylist()
    ]
    return dg.MetadataValue.table(records=records)
