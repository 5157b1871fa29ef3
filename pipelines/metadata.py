"""What a materialisation shows to a person."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from egodata.catalog import Frozen
from egodata.catalog.rows import CatalogRow
from egodata.findings import Finding
from egodata.formats import open_store
from egodata.formats.lance.tables import EPISODES, SCHEMAS
from egodata.ingest import AttachReport, Outcome
from egodata.parity import ParityReport
from egodata.reports.overlay import contact_sheet
from egodata.schema.layout import StorePaths
from egodata.stats import NormStats
from pipelines.history import Verdict

Metadata = dict[str, Any]

TABLE_ROWS = 200
REASONS = 100
"""Recordings that the failure of a batch names: the log of a run stays readable."""
PREVIEW_TILE_PX = 380
FINDING_COLUMNS = ("episode", "severity", "code", "stream", "frames", "message", "id", "waived")
CHECK_COLUMNS = ("episode", "check", "verdict", "severity", "blocking", "seen")


def png_preview(png: bytes) -> dg.MarkdownMetadataValue:
    """Return a picture as metadata that the UI shows in place."""
    return dg.MetadataValue.md(f"![preview](data:image/png;base64,{base64.b64encode(png).decode()})")


def findings_table(findings: Sequence[Finding]) -> dg.TableMetadataValue:
    """Return findings as a table: episode, severity, code, stream, frames, message, id, and why a person accepted it."""
    records = [
        dg.TableRecord(
            {
                "episode": item.episode,
                "severity": item.severity.name.lower(),
                "code": item.code,
                "stream": item.stream,
                "frames": "" if item.frames is None else f"[{item.frames[0]}, {item.frames[1]})",
                "message": item.message,
                "id": item.id,
                "waived": item.waived or "",
            }
        )
        for item in findings[:TABLE_ROWS]
    ]
    columns = [dg.TableColumn(name, "string") for name in FINDING_COLUMNS]
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns=columns))


def catalog_table(rows: Sequence[CatalogRow]) -> dg.TableMetadataValue:
    """Return the first episodes of the catalog as a table."""
    records = [
        dg.TableRecord(
            {
                "episode_id": row.episode_id,
                "vendor": row.vendor,
                "operator": row.operator or "",
                "task": row.task_name,
                "frames": row.n_frames,
                "content": row.content[:16],
            }
        )
        for row in rows[:TABLE_ROWS]
    ]
    columns = [
        dg.TableColumn(name, "int" if name == "frames" else "string")
        for name in ("episode_id", "vendor", "operator", "task", "frames", "content")
    ]
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns=columns))


def episodes_columns() -> dg.TableSchemaMetadataValue:
    """Return the columns of the Lance table `episodes`, as the UI shows them."""
    columns = [dg.TableColumn(field.name, str(field.type)) for field in SCHEMAS[EPISODES]]
    return dg.MetadataValue.table_schema(dg.TableSchema(columns=columns))


def checks_table(verdicts: Sequence[Verdict]) -> dg.TableMetadataValue:
    """Return verdicts as a table: episode, check, verdict, severity, blocking, what was seen."""
    records = [
        dg.TableRecord(
            {
                "episode": one.episode_id,
                "check": one.check,
                "verdict": "passed" if one.passed else "FAILED",
                "severity": one.severity,
                "blocking": one.blocking,
                "seen": one.value,
            }
        )
        for one in verdicts[:TABLE_ROWS]
    ]
    columns = [dg.TableColumn(name, "bool" if name == "blocking" else "string") for name in CHECK_COLUMNS]
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns=columns))


def findings_text(findings: Sequence[Finding]) -> str:
    """Return up to five findings as lines, with a count of the rest."""
    lines = [f"{item.episode}: {item.code}: {item.message}" for item in findings[:5]]
    if len(findings) > 5:
        lines.append(f"and {len(findings) - 5} more")
    return "\n".join(lines)


def reasons_text(findings: Sequence[Finding]) -> str:
    """Return a line per recording with the gravest of its findings, up to `REASONS` recordings, and a count of the rest."""
    gravest: dict[str, Finding] = {}
    for item in findings:
        if item.episode not in gravest or item.severity > gravest[item.episode].severity:
            gravest[item.episode] = item
    lines = [f"{item.episode}: {item.code}: {item.message}" for item in list(gravest.values())[:REASONS]]
    if len(gravest) > REASONS:
        lines.append(f"and {len(gravest) - REASONS} more; `egopipe status` names all")
    return "\n".join(lines)


def episode_metadata(paths: StorePaths, outcome: Outcome, *, preview: bool = True) -> Metadata:
    """Return counts, bytes, digests, findings and a contact sheet of what ingest made of one recording.

    Args:
        paths: The store.
        outcome: What ingest did.
        preview: Whether to make the contact sheet, which costs a few decoded frames; shards go without.
    """
    found: Metadata = {
        **({"preview": "no episode"} if preview else {}),
        "status": outcome.status,
        "frames": outcome.frames,
        "seconds": round(outcome.seconds, 2),
        "raw_sha256": outcome.raw,
        "content": dict(outcome.episodes),
        "findings_count": len(outcome.findings),
    }
    if outcome.findings:
        found["findings"] = findings_table(outcome.findings)
    store = open_store(paths, "zarr")
    for episode_id in list(outcome.episodes)[:1]:
        reader = store.open(episode_id)
        try:
            if preview:
                found["preview"] = png_preview(contact_sheet(reader, tile_width_px=PREVIEW_TILE_PX))
            found["bytes"] = sum(file.stat().st_size for file in paths.episode_link(episode_id).resolve().rglob("*") if file.is_file())
            found["operator"] = reader.meta.operator or "unknown"
            found["task"] = reader.meta.task_name
            found["frames"] = reader.meta.total_frames
        finally:
            reader.close()
    return found


def attach_metadata(paths: StorePaths, report: AttachReport) -> Metadata:
    """Return what an attachment changed, and the spans per role or the cameras with intrinsics."""
    found: Metadata = {"changed": len(report.changed), "content": dict(report.contents), "findings_count": len(report.findings)}
    store = open_store(paths, "zarr")
    spans: Counter[str] = Counter()
    cameras: set[str] = set()
    for episode_id in report.contents:
        reader = store.open(episode_id)
        try:
            spans.update({key: len(reader.spans(key) or ()) for key in reader.annotation_keys})
            cameras.update(reader.calibration.cameras if reader.calibration else ())
        finally:
            reader.close()
    if report.part == "annotations":
        found["spans"] = dict(spans) if spans else "none delivered"
    else:
        found["cameras"] = sorted(cameras) if cameras else "unknown: no intrinsics delivered"
    if report.findings:
        found["findings"] = findings_table(report.findings)
    return found


def dataset_metadata(frozen: Frozen) -> Metadata:
    """Return digest, heads with counts, pins and whether anything new was frozen."""
    manifest = frozen.manifest
    heads = [
        dg.TableRecord(
            {
                "head": head,
                "episodes": len(episodes),
                "frames": sum(episode.frames for episode in episodes),
                "operators": len({episode.operator for episode in episodes}),
                "pins": ", ".join(manifest.pins.get(head, ())),
            }
        )
        for head, episodes in manifest.heads.items()
    ]
    return {
        "digest": manifest.digest,
        "created": frozen.created,
        "heads": dg.MetadataValue.table(records=heads),
        "manifest": dg.MetadataValue.path(frozen.path),
        "held_out_operators": list(manifest.held_out_operators),
    }


def stats_metadata(stats: NormStats) -> Metadata:
    """Return key, counts, channels without scale and whether it came from the cache."""
    return plain(
        {
            "key": stats.key,
            "from_cache": stats.cached,
            "episodes": stats.episodes,
            "windows": stats.windows,
            "file": None if stats.path is None else dg.MetadataValue.path(stats.path),
        }
    )


def parity_metadata(report: ParityReport) -> Metadata:
    """Return the verdict per level with the largest differences, and the findings."""
    levels = [
        dg.TableRecord(
            {
                "level": level.level,
                "verdict": "passed" if level.passed else "failed",
                "compared": ", ".join(f"{count} {name}" for name, count in level.outcome.counts.items()),
                "largest numeric": str(level.outcome.numeric or 0),
                "largest pixel": str(level.outcome.pixel or 0),
            }
        )
        for level in report.levels
    ]
    findings = [finding for level in report.levels for finding in level.outcome.findings]
    found: Metadata = {"verdict": report.verdict, "levels": dg.MetadataValue.table(records=levels), "findings_count": len(findings)}
    if findings:
        found["findings"] = findings_table(findings)
    return found


def run_metadata(folder: Path, result: Mapping[str, Any]) -> Metadata:
    """Return what a training run was made from and how it ended."""
    scores = [
        dg.TableRecord({"head": head, "metric": metric, "who": who, "value": float(value)})
        for head, found in result["heads"].items()
        for who, metrics in found["scores"].items()
        for metric, value in metrics.items()
        if value is not None
    ]
    losses = {f"{head}_loss": float(found["loss"]) for head, found in result["heads"].items()}
    return plain(
        {
            "run": dg.MetadataValue.path(folder),
            "checkpoint": dg.MetadataValue.path(folder / "checkpoints" / "last.ckpt"),
            "train_loss": float(result["train_loss"]),
            **losses,
            "steps": int(result["steps"]),
            "dataset_digest": result.get("dataset_digest"),
            "stats_key": result.get("stats_key"),
            "co_train": dg.MetadataValue.json(result["co_train"]) if result.get("co_train") else None,
            "scores": dg.MetadataValue.table(records=scores) if scores else None,
        }
    )


def plain(values: Mapping[str, Any]) -> Metadata:
    """Return metadata without the entries that are None, which Dagster shows as noise."""
    return {key: value for key, value in values.items() if value is not None}
