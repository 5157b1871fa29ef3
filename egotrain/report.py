"""Scores as a table."""

from collections.abc import Mapping, Sequence

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
