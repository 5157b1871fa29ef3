"""What changed in a delivery since its last ingest: compared with the last report of the same vendor, delivery and dataset."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from egodata.ingest.report import IngestReport, Outcome
from egodata.schema.layout import StorePaths

SEQUENCE, PARTIAL = "sequence", "partial"


def last_report(paths: StorePaths, report: IngestReport) -> tuple[Path, dict[str, Any]] | None:
    """Find the report before this one: the highest sequence number of the same vendor and delivery; clocks do not count.

    Reports of runs that were told to treat only some recordings are passed over, as they say nothing of the others; so are those that
    cannot be read.
    """
    best: tuple[Path, dict[str, Any]] | None = None
    for path in (paths.reports / "ingest").glob(f"{report.delivery}-*.json"):
        try:
            value = json.loads(path.read_text("utf-8"))
            same = value["vendor"] == report.vendor and value["delivery"] == report.delivery
            whole = isinstance(value["recordings"], list) and isinstance(value["absent"], list) and not value["changes"][PARTIAL]
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if same and whole and (best is None or _order(path, value) > _order(*best)):
            best = path, value
    return best


def _order(path: Path, value: Mapping[str, Any]) -> tuple[int, str]:
    return int(value["changes"][SEQUENCE]), path.name


def compare(before: tuple[Path, dict[str, Any]] | None, report: IngestReport, *, partial: bool) -> dict[str, Any]:
    """Compare a report with the last one.

    Args:
        before: From `last_report`; None where this is the first.
        report: The new one.
        partial: Only some recordings were asked for (`--only`, `--limit`): none counts as gone.

    Returns:
        ``sequence``, ``partial``; ``since`` (file name) or None; and recording ids: ``new``, ``gone``, ``bytes_changed``, ``now_built``
        (set aside or absent before), ``now_set_aside``, ``now_absent``; and ``findings_new``, ``findings_gone`` as counts by code.
    """
    if before is None:
        return {SEQUENCE: 1, PARTIAL: partial, "since": None}
    path, value = before
    old = {item["recording"]: item for item in value["recordings"]}
    now = {outcome.recording: outcome for outcome in report.outcomes}
    was_absent, is_absent = set(value["absent"]), set(report.absent)
    both = sorted(set(old) & set(now))
    return {
        SEQUENCE: _order(path, value)[0] + 1,
        PARTIAL: partial,
        "since": path.name,
        "new": sorted(set(now) - set(old) - was_absent),
        "gone": [] if partial else sorted((set(old) | was_absent) - set(now) - is_absent),
        "bytes_changed": [key for key in both if old[key]["raw"] and now[key].raw and old[key]["raw"] != now[key].raw],
        "now_built": sorted(key for key, outcome in now.items() if outcome.episodes and (key in was_absent or _set_aside(old.get(key)))),
        "now_set_aside": [key for key in both if now[key].status == "set_aside" and not _set_aside(old[key])],
        "now_absent": sorted(is_absent & set(old)),
        **_finding_changes(old.values(), now.values()),
    }


def _set_aside(item: Mapping[str, Any] | None) -> bool:
    return item is not None and item["status"] == "set_aside"


def _finding_changes(old: Iterable[Mapping[str, Any]], now: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    known = {outcome.recording: outcome for outcome in now}
    before = {_key(item) for recording in old if recording["recording"] in known for item in recording["findings"]}
    after = {_key(finding.to_json()) for outcome in known.values() for finding in outcome.findings}
    return {"findings_new": _by_code(after - before), "findings_gone": _by_code(before - after)}


def _key(item: Mapping[str, Any]) -> tuple[str, ...]:
    return str(item["code"]), str(item["episode"]), str(item.get("stream") or ""), str(item.get("frames"))


def _by_code(keys: Iterable[tuple[str, ...]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key in sorted(keys):
        counts[key[0]] = counts.get(key[0], 0) + 1
    return counts
