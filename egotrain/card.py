"""The card of a run: one Markdown page with what it was, what came out, curves and pictures, in the run's own folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from egodata.schema.layout import write_atomic
from egotrain.curves import line_plot
from egotrain.report import result_rows
from egotrain.runs import CONFIG, DATASET, ENVIRONMENT, METRICS, VIDEOS, MetricsFile

CARD = "card.md"
CURVES = "curves"
PLOTTED = ("loss", "head.xyz_mse_m2", "world.xyz_mse_m2", "joint.mse")
SHOWN_PICTURES = 6


def write_card(folder: Path, result: Mapping[str, Any]) -> Path:
    """Write ``card.md`` and its curves from what the run has written so far.

    Args:
        folder: Of the run.
        result: What result.json will hold.
    """
    curves = _write_curves(folder)
    lines = [f"# Run {result['run']}", "", *_facts(folder, result), "", *_scores(result), "", *_operators(result)]
    lines += ["", "## Curves", "", *(f"![{path.stem}]({path.relative_to(folder).as_posix()})" for path in curves)]
    pictures = _pictures(folder)
    if pictures:
        lines += ["", "## Pinned episodes", "", "The middle frame of each; the video lies beside it.", ""]
        lines += [f"![{path.stem}]({path.relative_to(folder).as_posix()})" for path in pictures]
    write_atomic(folder / CARD, ("\n".join(lines) + "\n").encode())
    return folder / CARD


def _facts(folder: Path, result: Mapping[str, Any]) -> list[str]:
    config = yaml.safe_load((folder / CONFIG).read_text())
    dataset = json.loads((folder / DATASET).read_text())
    environment = json.loads((folder / ENVIRONMENT).read_text())
    git = environment.get("git") or {}
    rows = [
        *(("dataset", _dataset({"recipe": result["recipe"], "weight": 1.0, **one})) for one in (dataset, *dataset.get("co_train", ()))),
        ("format", str(result["format"])),
        ("policy", str(config["policy"]["name"])),
        ("steps", f"{result['steps']} of {config['data']['batch_size']} samples on {result['ranks']} rank(s), seed {result['seed']}"),
        ("train loss", f"{result['train_loss']:.5g}"),
        ("speed", f"{result['samples_per_s']:.0f} samples/s, {result['data_wait_share']:.0%} of the time waiting for data"),
        ("checkpoint", f"checkpoints/{result['checkpoint']}"),
        ("code", f"`{str(git.get('revision', 'unknown'))[:12]}`{' with changes' if git.get('changed') else ''}"),
        ("machine", f"{environment['cpu_capability']}, {environment['threads']} threads, GPU {environment['gpu'] or 'none'}"),
    ]
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]


def _dataset(one: Mapping[str, Any]) -> str:
    heads = ", ".join(f"{head} {found['episodes']} episodes" for head, found in one["heads"].items())
    how = f"recipe {one['recipe']}, weight {one['weight']:g}, statistics `{one['stats_key'][:16]}`"
    return f"{one['dataset']} `{one['digest'][:16]}`: {heads}; {how}"


def _scores(result: Mapping[str, Any]) -> list[str]:
    columns, rows = result_rows({head: found["scores"] for head, found in result["heads"].items()})
    return ["## Scores", "", "Un-normalised; lower is better.", "", *markdown_table(columns, rows)]


def _operators(result: Mapping[str, Any]) -> list[str]:
    scores = {
        f"{head} / {name}": found["scores"] for head, of_head in result["heads"].items() for name, found in of_head["operators"].items()
    }
    columns, rows = result_rows(scores)
    wanted = [row for row in rows if str(row[1]).endswith(("xyz_mse_m2", "rotation_deg", "joint.mse"))]
    return ["## By operator", "", *markdown_table(["head / operator", *columns[1:]], wanted)] if wanted else []


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table."""
    body = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *body]


def _write_curves(folder: Path) -> list[Path]:
    rows = MetricsFile(folder / METRICS).rows()
    written = []
    for metric in PLOTTED:
        series: dict[str, list[tuple[int, float]]] = {}
        for row in rows:
            if row.metric == metric and "/" not in row.head:
                series.setdefault(row.head if row.who == "policy" else f"{row.head}, {row.who}", []).append((row.step, row.value))
        if series:
            path = folder / CURVES / f"{metric}.svg"
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, line_plot(metric, series, log=True).encode())
            written.append(path)
    return written


def _pictures(folder: Path) -> list[Path]:
    steps = sorted((folder / VIDEOS).glob("step-*"))
    return sorted(steps[-1].rglob("*.png"))[:SHOWN_PICTURES] if steps else []
