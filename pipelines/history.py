"""What every check said about every partition, for ever: Dagster keeps only a check's last verdict.

One small parquet file per run in ``reports/checks/``, written whole; nothing is rewritten, so a killed run leaves no damage.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from egodata.schema.layout import StorePaths, write_atomic

ERROR, WARN = "error", "warn"
SCHEMA = pa.schema(
    [
        ("created", pa.string()),
        ("run_id", pa.string()),
        ("asset", pa.string()),
        ("partition", pa.string()),
        ("episode_id", pa.string()),
        ("content", pa.string()),
        ("check", pa.string()),
        ("passed", pa.bool_()),
        ("severity", pa.string()),
        ("blocking", pa.bool_()),
        ("value", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check of one episode, dataset or table.

    Attributes:
        check: Name of the check.
        passed: What it said.
        value: What was seen, as text.
        severity: ``error``, or ``warn`` where a failure is worth a look and stops nothing.
        blocking: Whether a failure keeps the partition, the freeze or the training from going on.
        episode_id: Empty where it is about no single episode.
        content: Content digest that was looked at.
    """

    check: str
    passed: bool
    value: str = ""
    severity: str = ERROR
    blocking: bool = False
    episode_id: str = ""
    content: str = ""


def _folder(paths: StorePaths) -> Path:
    return paths.reports / "checks"


def keep_verdicts(paths: StorePaths, verdicts: Mapping[str, Sequence[Verdict]], *, asset: str, run_id: str) -> Path | None:
    """Keep the verdicts of a run, by partition; no file where there are none."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    rows = [
        {
            "created": now,
            "run_id": run_id,
            "asset": asset,
            "partition": partition,
            **{name: getattr(one, name) for name in ("episode_id", "content", "check", "passed", "severity", "blocking", "value")},
        }
        for partition, found in verdicts.items()
        for one in found
    ]
    if not rows:
        return None
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink)
    stamp = now.partition("+")[0].replace("-", "").replace(":", "")
    path = _folder(paths) / f"{stamp}-{asset}-{run_id[:8]}.parquet"
    write_atomic(path, sink.getvalue().to_pybytes())
    return path


def newest_table(paths: StorePaths, *, asset: str) -> pa.Table:
    """Return the last verdict of every partition, episode and check of an asset, as a table: quick where the history is long.

    Returns:
        Columns partition, episode_id, check, passed, value and created.
    """
    keys, last = ["partition", "episode_id", "check"], ["passed", "value", "created"]
    files = sorted(_folder(paths).glob(f"*-{asset}-*.parquet"))
    found = [pq.ParquetFile(path).read(columns=[*keys, *last]) for path in files]
    every = pa.concat_tables([pa.schema([SCHEMA.field(name) for name in (*keys, *last)]).empty_table(), *found])
    grouped = every.group_by(keys, use_threads=False).aggregate([(name, "last") for name in last])
    return grouped.select([*keys, *(f"{name}_last" for name in last)]).rename_columns([*keys, *last])


def read_history(
    paths: StorePaths, *, asset: str | None = None, partition: str | None = None, check: str | None = None
) -> list[dict[str, Any]]:
    """Return all verdicts, oldest first, of one asset, one partition or one check where asked."""
    wanted = [(name, "=", value) for name, value in (("partition", partition), ("check", check)) if value is not None]
    rows: list[dict[str, Any]] = []
    for path in sorted(_folder(paths).glob("*.parquet" if asset is None else f"*-{asset}-*.parquet")):
        rows += pq.read_table(path, filters=wanted or None).to_pylist()
    return rows


def newest(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the last verdict of every (asset, partition, episode, check)."""
    last = {(row["asset"], row["partition"], row["episode_id"], row["check"]): row for row in rows}
    return list(last.values())
