"""Scores as a table."""

from collections.abc import Mapping, Sequence

Scores = Mapping[str, Mapping[str, Mapping[str, float | None]]]


def result_rows(heads: Scores) -> tuple[Sequence[str], list[list[str]]]:
    """Return column names and rows: one row per head and metric, one column per who acted."""
    actors = list(dict.fromkeys(who for scores in heads.values() for who in scores))
    rows = []
    for head, scores in heads.items():
        for metric in dict.fromkeys(name for found in scores.values() for name in found):
            values = [scores.get(who, {}).get(metric) for who in actors]
            rows.append([head, metric, *("" if value is None else f"{value:.4g}" for value in values)])
    return ["head", "metric", *actors], rows
