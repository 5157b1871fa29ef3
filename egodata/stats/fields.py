"""The numbers that are kept of a channel, exactly, from all its values."""

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"median": 0.5, "q01": 0.01, "q99": 0.99, "q0001": 0.0001, "q9999": 0.9999}
"""Levels by field: q0001 is 0.01 %, q9999 is 99.99 %."""
FIELDS = ("count", "mean", "std", "min", "max", *QUANTILES)


def summarise(columns: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """Return every field of each channel, in float64, independent of the order of the values.

    Equal to numpy's mean, std (of the population), min, max and quantile (linear) on the counted values in float64.

    Args:
        columns: (C, n) float32, NaN where a cell does not count. Sorted in place, so that no second copy is needed.

    Returns:
        Field -> (C,); NaN where a channel has no value, and `count` 0.
    """
    columns.sort(axis=1)  # NaN goes to the end
    out = {name: np.full(len(columns), np.nan) for name in FIELDS}
    out["count"] = (~np.isnan(columns)).sum(axis=1).astype(np.float64)
    for channel, count in enumerate(out["count"].astype(int)):
        if count:
            values = columns[channel, :count].astype(np.float64)
            out["mean"][channel] = values.mean()
            out["std"][channel] = values.std()
            out["min"][channel], out["max"][channel] = values[0], values[-1]
            for name, level in QUANTILES.items():
                out[name][channel] = sorted_quantile(values, level)
    return out


def sorted_quantile(values: NDArray[np.float64], level: float) -> float:
    """Return one quantile of sorted values (n,), n at least 1, linear between neighbours.

    >>> sorted_quantile(np.array([0.0, 1.0, 2.0, 4.0]), 0.5)
    1.5
    """
    position = level * (len(values) - 1)
    lower = int(position)
    upper = min(lower + 1, len(values) - 1)
    share = position - lower
    low, high = float(values[lower]), float(values[upper])
    return high - (high - low) * (1 - share) if share >= 0.5 else low + (high - low) * share
