"""The statistics report as a page and as JSON."""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path

from egodata.reports.page import HEAD_COLOURS, Raw, band, colour_key, facts, outlines, page, table
from egodata.schema.layout import StorePaths, write_atomic
from egodata.stats.norm import NormStats
from egodata.stats.report import BINS_HIGH, BINS_LOW, ChannelRange, StatsReport

SHOWN = 60


def report_folder(paths: StorePaths, stats: NormStats, *, dataset: str) -> Path:
    """Return where the report of some statistics goes, without suffix: ``reports/stats/<name>/<version>/<key>``."""
    name, version = dataset.split("@", 1)
    return paths.reports / "stats" / name / version / stats.key[:16]


def write_report(path: Path, report: StatsReport, *, stats: NormStats) -> tuple[Path, Path]:
    """Write a report as `path` with the suffixes .html and .json.

    Raises:
        OSError: The disk cannot be written.
    """
    html, plain = path.with_suffix(".html"), path.with_suffix(".json")
    write_atomic(plain, json.dumps(report.to_json(), sort_keys=True, indent=1, allow_nan=False).encode() + b"\n")
    write_atomic(html, report_page(report, stats=stats).encode())
    return html, plain


def report_page(report: StatsReport, *, stats: NormStats) -> str:
    """Return the page of a report."""
    return page(f"Statistics of {report.dataset}", _parts(report, stats))


def _parts(report: StatsReport, stats: NormStats) -> Iterator[str]:
    drifting = [found for found in report.drift if found.drifts]
    apart = [found for found in report.operators if found.stands_out]
    yield f"<h1>Statistics of {escape(report.dataset)}</h1>"
    yield f"<p>Recipe {escape(report.recipe)}, key <code>{report.key}</code></p>"
    yield facts(
        [
            (f"{stats.episodes:,}", "training episodes"),
            (f"{stats.windows:,}", "windows used"),
            (str(len([c for c in report.channels if c.constant_steps and not c.kept])), "channels constant somewhere"),
            (str(len(drifting)), "channels that drift"),
            (str(len(apart)), "operators that stand out"),
        ]
    )
    looked = ", ".join(f"{head} {count:,}" for head, count in report.windows.items())
    yield f"<p>Ranges are exact, over all windows of the training head; distributions, drift and operators over even ones ({looked}).</p>"
    yield from _channels(report)
    yield from _flat(report.channels, steps=bool(report.steps))
    yield from _drift(report)
    yield from _operators(report)
    if report.steps:
        yield "<h2>Action over the horizon</h2><p>q01 to q99 and median of every step, in the recipe's own units.</p>"
        pictures = (
            f"<figure>{band(found['q01'], found['median'], high=found['q99'])}<figcaption>{escape(name)}</figcaption></figure>"
            for name, found in report.steps.items()
        )
        yield f'<div class="grid">{"".join(pictures)}</div>'


def _channels(report: StatsReport) -> Iterator[str]:
    yield "<h2>Channels</h2><p>Extremes over all steps. Distribution: cells scaled by their step's q01 and q99 (the two lines).</p>"
    yield colour_key(report.windows)
    marks = [(edge - BINS_LOW) / (BINS_HIGH - BINS_LOW) for edge in (0.0, 1.0)]
    rows = []
    for found in report.channels:
        name = f"{found.feature} {found.channel}"
        lines = [(HEAD_COLOURS[head], shares[name]) for head, shares in report.histograms.items() if any(shares[name])]
        numbers = (found.count, found.mean, found.std, found.min, found.q01, found.q99, found.max)
        outside = None if found.outside is None else f"{found.outside:.2%}"
        rows.append((name, "kept" if found.kept else "", *numbers, outside, outlines(lines, marks=marks) if lines else Raw("")))
    yield table(("channel", "", "cells", "mean", "std", "min", "q01", "q99", "max", "outside", "distribution"), rows)


def _flat(channels: tuple[ChannelRange, ...], *, steps: bool) -> Iterator[str]:
    yield "<h2>Constant channels</h2>"
    yield "<p>Range below 0.0001: they normalise to 0 and come back as their centre. Nearly: all but 2 % of the cells.</p>"
    rows = [
        (
            f"{found.feature} {found.channel}",
            "kept as it is" if found.kept else "",
            _some(found.constant_steps, stepless=not steps or found.feature == "proprio"),
            _some(found.nearly_constant_steps, stepless=not steps or found.feature == "proprio"),
        )
        for found in channels
        if found.constant_steps or found.nearly_constant_steps
    ]
    yield table(("channel", "", "constant at steps", "nearly constant at steps"), rows) if rows else "<p>None.</p>"


def _some(steps: tuple[int, ...], *, stepless: bool) -> str:
    if stepless:
        return "always" if steps else ""
    if len(steps) > 6 and steps == tuple(range(steps[0], steps[-1] + 1)):
        return f"{steps[0]} to {steps[-1]}"
    return ", ".join(str(step) for step in steps[:6]) + (f" and {len(steps) - 6} more" if len(steps) > 6 else "")


def _drift(report: StatsReport) -> Iterator[str]:
    yield (
        "<h2>Drift against training</h2><p>Distance: largest difference of the cumulative shares; marked above 0.15; "
        "a head of few episodes differs by chance. Shift: of the mean, in ranges q01 to q99.</p>"
    )
    found = sorted(report.drift, key=lambda one: (-one.distance, one.head, one.feature, one.channel))
    rows = [(f"{one.feature} {one.channel}", one.head, one.distance, one.shift, f"{one.outside:.2%}") for one in found[:SHOWN]]
    marked = [at for at, one in enumerate(found[:SHOWN]) if one.drifts]
    yield table(("channel", "head", "distance", "shift", "outside"), rows, bad=marked) if rows else "<p>There is no other head.</p>"
    if len(found) > SHOWN:
        yield f"<p>{len(found) - SHOWN} more in the JSON file.</p>"


def _operators(report: StatsReport) -> Iterator[str]:
    yield "<h2>Operators</h2>"
    yield "<p>Share of an operator's cells outside q01 to q99 (2 % is to be expected; marked above 6 %), and its farthest cell.</p>"
    found = sorted(report.operators, key=lambda one: (-one.outside, one.operator))
    rows = [
        (
            *(one.operator or "unknown", one.head, one.episodes, f"{one.outside:.2%}", one.worst_channel),
            *(one.episode_id, one.frame, one.channel, one.distance),
        )
        for one in found[:SHOWN]
    ]
    columns = ("operator", "head", "episodes", "outside", "most outside in", "farthest: episode", "frame", "channel", "ranges outside")
    yield table(columns, rows, bad=[at for at, one in enumerate(found[:SHOWN]) if one.stands_out])
    if len(found) > SHOWN:
        yield f"<p>{len(found) - SHOWN} more in the JSON file.</p>"
