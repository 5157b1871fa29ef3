"""The numbers that are kept of a channel, exactly, from all its values."""

import math

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"median": 0.5, "q01": 0.01, "q99": 0.99, "q0001": 0.0001, "q9999": 0.9999}
"""Levels by field: q0001 is 0.01 %, q9999 is 99.99 %."""
FIELDS = ("count", "mean", "std", "min", "max", *QUANTILES)
_PIECE = 1 << 16
"""Values that are widened to float64 at once: they stay in the processor's cache, and memory stays flat."""


def summarise(columns: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """Return every field of each channel, in float64, independent of the order of the values.

    Equal to numpy's mean, std (of the population), min, max and quantile (linear) on the counted values in float64.
    Sorting float32 in place is both the exact and the fastest way here: numpy sorts a column in fewer cycles than it selects ten
    order statistics, and a sorted column makes sums that do not depend on the order of episodes.

    Args:
        columns: (C, n) float32, NaN where a cell does not count. Sorted in place, so that no second copy is needed.

    Returns:
        Field -> (C,); NaN where a channel has no value, and `count` 0.
    """
    columns.sort(axis=1)  # NaN goes to the end
    out = {name: np.full(len(columns), np.nan) for name in FIELDS}
    for channel, column in enumerate(columns):
        count = int(np.searchsorted(column, np.float32(np.nan)))  # NaN sorts as the largest
        out["count"][channel] = count
        if count:
            values = column[:count]
            out["mean"][channel], out["std"][channel] = _moments(values)
            out["min"][channel], out["max"][channel] = values[0], values[-1]
            for name, level in QUANTILES.items():
                out[name][channel] = sorted_quantile(values, level)
    return out


def _moments(values: NDArray[np.float32]) -> tuple[float, float]:
    """Mean and standard deviation (of the population) of values (n,), in two passes over pieces; the pieces' sums are added exactly."""
    pieces = range(0, len(values), _PIECE)
    mean = math.fsum(float(values[start : start + _PIECE].astype(np.float64).sum()) for start in pieces) / len(values)
    squares = []
    for start in pieces:
        off = values[start : start + _PIECE].astype(np.float64)
        off -= mean
        np.multiply(off, off, out=off)
        squares.append(float(off.sum()))
    return mean, math.sqrt(math.fsum(squares) / len(values))


def sorted_quantile(values: NDArray[np.floating], level: float) -> float:
    """Return one quantile of sorted values (n,), n at least 1, linear between neighbours, in float64.

    >>> sorted_quantile(np.array([0.0, 1.0, 2.0, 4.0]), 0.5)
    1.5
    """
    position = level * (len(values) - 1)
    lower = int(position)
    upper = min(lower + 1, len(values) - 1)
    share = position - lower
    low, high = float(values[lower]), float(values[upper])
    return high - (high - low) * (1 - share) if share >= 0.5 else low + (high - low) * share
