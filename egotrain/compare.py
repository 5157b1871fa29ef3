"""Runs side by side: a table over heads and metrics, and plots of losses and errors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egodata.errors import InputError
from egodata.schema.layout import write_atomic
from egotrain.card import markdown_table
from egotrain.curves import bar_plot, line_plot
from egotrain.runs import METRICS, MetricsFile, finished, open_run

MAIN = ("xyz_mse_m2", "xyz_l2_late_m", "rotation_deg", "joint.mse")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Finished runs beside each other.

    Attributes:
        names: Of the runs, in the order given.
        rows: (head, metric, one value per run or None); lower is better in all.
        notes: What makes the runs hard to compare, such as different datasets.
        losses: Training loss over steps, by run.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[float | None, ...]], ...]
    notes: tuple[str, ...]
    losses: Mapping[str, Sequence[tuple[int, float]]]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return column names and rows of text; the best value of a row carries a star."""
        out = []
        for head, metric, values in self.rows:
            known = [value for value in values if value is not None]
            best = min(known) if len(known) > 1 and min(known) < max(known) else None
            out.append([head, metric, *("" if value is None else f"{value:.4g}{' *' if value == best else ''}" for value in values)])
        return ["head", "metric", *self.names], out


def compare(runs: Sequence[Path]) -> Comparison:
    """Read finished runs.

    Args:
        runs: Their folders, at least two.

    Raises:
        InputError: Fewer than two, or one that is not finished.
        NotFoundError: One that is not a run.
    """
    if len(runs) < 2:
        raise InputError(f"compare: expected at least two runs, got {len(runs)}")
    results: dict[str, dict[str, Any]] = {}
    losses: dict[str, list[tuple[int, float]]] = {}
    for run in runs:
        folder = open_run(run)
        result = finished(folder)
        if result is None:
            raise InputError(f"run {folder}: not finished. Finish it with resume=true, or leave it out.")
        name = folder.name if folder.name not in results else str(folder)
        results[name] = result
        rows = MetricsFile(folder / METRICS).rows()
        losses[name] = [(row.step, row.value) for row in rows if (row.head, row.who, row.metric) == ("train", "policy", "loss")]
    several = len({result["dataset"] for result in results.values()}) > 1
    values = [_values(result, qualified=several) for result in results.values()]
    keys = dict.fromkeys(key for found in values for key in found)
    rows_of = tuple((head, metric, tuple(found.get((head, metric)) for found in values)) for head, metric in keys)
    return Comparison(tuple(results), rows_of, tuple(_notes(results)), losses)


def _values(result: Mapping[str, Any], *, qualified: bool) -> dict[tuple[str, str], float | None]:
    """Return values by head and metric; `qualified` names every head with its dataset, for runs that are named for different ones."""
    out: dict[tuple[str, str], float | None] = {}
    for name, found in result["heads"].items():
        head = f"{result['dataset']}:{name}" if qualified and ":" not in name else name
        out[head, "loss"] = found["loss"]
        out.update({(head, metric): value for metric, value in found["scores"]["policy"].items()})
    return out


def _notes(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    notes = []
    for key, why in (
        ("dataset_digest", "they were trained and scored on different datasets"),
        ("co_train", "they were trained beside different datasets"),
        ("recipe", "their recipes differ, so coordinate frames may"),
        ("stats_key", "their losses are in differently normalised units"),
    ):
        if len({json.dumps(result.get(key, []), sort_keys=True) for result in results.values()}) > 1:
            notes.append(f"{key} differs: {why}")
    frames = {tuple(sorted((head, found["frames"]) for head, found in result["heads"].items())) for result in results.values()}
    if len(frames) > 1:
        notes.append("the frames that were scored differ: heads or samples_per_head are not the same")
    return notes


def write_comparison(out: Path, found: Comparison) -> Path:
    """Write ``compare.md`` with its plots into a folder, and return the page."""
    out.mkdir(parents=True, exist_ok=True)
    plots = {"loss.svg": line_plot("training loss", found.losses, log=True)}
    for wanted in MAIN:
        groups: dict[str, dict[str, float]] = {}
        for head, metric, values in found.rows:
            if metric.endswith(wanted):
                known = {name: value for name, value in zip(found.names, values, strict=True) if value is not None}
                groups.setdefault(f"{head} {metric.partition('.')[0]}" if "." in metric else head, {}).update(known)
        if groups:
            plots[f"{wanted}.svg"] = bar_plot(wanted, groups)
    for name, svg in plots.items():
        write_atomic(out / name, svg.encode())
    columns, rows = found.table()
    lines = [f"# {' and '.join(found.names)}", "", *(f"- {note}" for note in found.notes), "", "Lower is better; * marks the best.", ""]
    lines += [*markdown_table(columns, rows), "", *(f"![{name}]({name})" for name in plots)]
    write_atomic(out / "compare.md", ("\n".join(lines) + "\n").encode())
    return out / "compare.md"
