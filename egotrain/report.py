"""Scores as a table, and a run as the plain values that a pipeline is told."""

from collections.abc import Mapping, Sequence
from typing import Any

from egotrain.runs import RunResult

HEADLINE = ("xyz_mse_m2", "rotation_deg", "joint.mse")
Scores = Mapping[str, Mapping[str, Mapping[str, float | None]]]


def result_rows(heads: Scores) -> tuple[Sequence[str], list[list[str]]]:
    """Return column names and rows: one row per head and metric, one column per who acted.

    Distances and angles are the same in the wrist's and in the head's coordinate frame, so rows that repeat another frame's are left out.
    """
    actors = list(dict.fromkeys(who for scores in heads.values() for who in scores))
    rows: list[list[str]] = []
    for head, scores in heads.items():
        for metric in dict.fromkeys(name for found in scores.values() for name in found):
            values = [scores.get(who, {}).get(metric) for who in actors]
            row = [head, metric, *("" if value is None else f"{value:.4g}" for value in values)]
            if not any(_same(row, other) for other in rows):
                rows.append(row)
    return ["head", "metric", *actors], rows


def _same(row: Sequence[str], other: Sequence[str]) -> bool:
    """Say whether two rows are one metric of one head, in two coordinate frames, with equal values."""
    return row[0] == other[0] and row[1].partition(".")[2] == other[1].partition(".")[2] and list(row[2:]) == list(other[2:])


def operator_rows(heads: Mapping[str, Mapping[str, Any]]) -> tuple[Sequence[str], list[list[str]]]:
    """Return column names and rows of the main metrics of every operator, from `HeadScores.to_json`."""
    parts = {
        f"{head} / {name} ({found['frames']} frames)": found["scores"]
        for head, scores in heads.items()
        for name, found in scores["operators"].items()
    }
    columns, rows = result_rows(parts)
    return ["head / operator", *columns[1:]], [row for row in rows if row[1].endswith(HEADLINE)]


def run_report(done: RunResult) -> dict[str, Any]:
    """Return what a finished run tells whoever launched it: what it was made from, what came out, and where it lies."""
    result = done.result
    told: dict[str, Any] = {
        name: result[name] for name in ("run", "dataset", "dataset_digest", "format", "recipe", "seed", "steps", "stats_key")
    }
    told["co_train"] = [f"{one['dataset']} {one['digest']}" for one in result.get("co_train", ())]
    told.update(train_loss=done.train_loss, checkpoint=str(done.path / "checkpoints" / result["checkpoint"]), folder=str(done.path))
    for head, found in result["heads"].items():
        told[f"{head}/loss"] = found["loss"]
        policy = found["scores"]["policy"]
        told.update({f"{head}/{name}": value for name, value in policy.items() if value is not None and name.endswith(HEADLINE)})
    return told
