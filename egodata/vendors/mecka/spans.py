"""annotations.csv to spans: roles, the unit of time, what is clipped and what is refused."""

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from egodata.annotations import Annotations, Span, frame_at
from egodata.findings import Severity
from egodata.vendors.base import Notes
from egodata.vendors.frames import MAX_NS, RELATIVE, judge_unit, parse_decimal, to_ns
from egodata.vendors.mecka.clock import Clock
from egodata.vendors.mecka.config import MeckaConfig
from egodata.vendors.tables import TableError, TextTable, read_table


@dataclass(frozen=True, slots=True)
class _Row:
    text: str
    key: str
    start: Decimal
    end: Decimal


def read_annotations(path: Path | None, clock: Clock, *, config: MeckaConfig, notes: Notes) -> Annotations:
    """Read the spans of a recording.

    No file gives no key; a file with a header only gives the default key, empty.

    Raises:
        SetAside: The file is off the video's clock, and the config asks for that.
    """
    if path is None:
        return {}
    try:
        table = read_table(path)
        if not table.rows:
            table.require("label", "labels")
            return {config.annotation_key: ()}
        rows, refused = _rows(table, config)
    except TableError as error:
        notes.add(error.code, f"{error} Built without annotations.", stream=path.name)
        return {}
    unit = judge_unit([row.start for row in rows]) if rows else RELATIVE
    problem = _off_clock(rows, unit, clock, config)
    if unit is None or problem is not None:
        return _misaligned(problem or "starts are not of one unit of time, or beyond 64-bit nanoseconds", path, config, notes)
    out: dict[str, list[Span]] = {key: [] for key in sorted({row.key for row in rows})} or {config.annotation_key: []}
    for row in rows:
        span, verdict = _place(row, unit, clock)
        if verdict:
            refused[verdict] += 1
        if span is not None:
            out[row.key].append(span)
    if table.ragged:
        refused["refused: cells missing"] += table.ragged
    _report(refused, path, notes)
    return {key: tuple(spans) for key, spans in out.items()}


def _rows(table: TextTable, config: MeckaConfig) -> tuple[list[_Row], Counter[str]]:
    labels, starts, ends = table.require("label", "labels"), table.require("start_time"), table.require("end_time")
    roles = table.column("role") or ("",) * len(labels)
    rows, refused = [], Counter[str]()
    for label, start, end, role in zip(labels, starts, ends, roles, strict=True):
        text, key = label.replace("_", " "), config.roles.get(role.lower(), config.annotation_key if not role else None)
        first, last = (parse_decimal(cell if "." in cell else cell.replace(",", ".")) for cell in (start, end))
        if not text.strip():
            refused["refused: no text"] += 1
        elif key is None:
            refused["refused: unknown role"] += 1
        elif first is None or last is None:
            refused["refused: no time"] += 1
        else:
            rows.append(_Row(text, key, first, last))
    return rows, refused


def _off_clock(rows: list[_Row], unit: str | None, clock: Clock, config: MeckaConfig) -> str | None:
    if unit in (None, RELATIVE) or not rows:
        return None
    if clock.name != "unix":
        return "spans are in unix time, the video has no unix clock"
    slack = int(config.annotation_overlap_s * 1e9)
    start, end = min(to_ns(row.start, str(unit)) for row in rows), max(to_ns(row.end, str(unit)) for row in rows)
    first, last = int(clock.stamps_ns[0]), int(clock.stamps_ns[-1])
    if start > last + slack or end < first - slack:
        distance = (start - last if start > last else first - end) / 1e9
        return f"spans are {distance:.0f} s away from the video, allowed {config.annotation_overlap_s:g} s"
    return None


def _misaligned(problem: str, path: Path, config: MeckaConfig, notes: Notes) -> Annotations:
    if config.misaligned_annotations == "set_aside":
        notes.refuse("annotations-clock", f"{path.name}: {problem}. Ask for it on the video's clock.", stream=path.name)
    notes.add("annotations-clock", f"{path.name}: {problem}. Built without annotations; ask for it on the video's clock.", stream=path.name)
    return {}


def _place(row: _Row, unit: str, clock: Clock) -> tuple[Span | None, str]:
    offset = int(clock.stamps_ns[0]) if unit == RELATIVE else 0
    start_ns, end_ns = to_ns(row.start, unit) + offset, min(to_ns(row.end, unit) + offset, int(MAX_NS))
    if end_ns <= start_ns:
        return None, "refused: ends at or before its start"
    first, last = int(clock.stamps_ns[0]), int(clock.stamps_ns[-1])
    frame_ns = int(10**9 / clock.fps)
    start, end = frame_at(clock.stamps_ns, start_ns), frame_at(clock.stamps_ns, end_ns)
    if end_ns <= first or start_ns > last:
        return None, "refused: outside the video"
    if start >= end:
        return None, "refused: between two frames"
    clipped = start_ns < first - frame_ns or end_ns > last + 2 * frame_ns
    return Span(row.text, start, end), "clipped" if clipped else ""


def _report(counts: Counter[str], path: Path, notes: Notes) -> None:
    if not counts:
        return
    notes.counts["spans"] = dict(sorted(counts.items()))
    text = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    severity = Severity.WARNING if any(verdict != "clipped" for verdict in counts) else Severity.INFO
    notes.add("spans-adjusted", f"{path.name}: {text}", severity=severity, stream=path.name)
