"""Statistics in the form that LeRobot keeps them: per feature min, max, mean, std, count and five quantiles, exact, from finite rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
Summary = Mapping[str, list[Any]]


def numeric_summary(rows: NDArray[Any]) -> Summary | None:
    """Summarise rows (T, ...) per channel over what is finite; None if some channel has no finite value."""
    flat = np.asarray(rows, np.float64).reshape(len(rows), -1)
    finite = np.isfinite(flat)
    if not len(flat) or not finite.any(axis=0).all():
        return None
    if not finite.all():
        flat = np.where(finite, flat, np.nan)
    values = {
        "min": np.nanmin(flat, axis=0),
        "max": np.nanmax(flat, axis=0),
        "mean": np.nanmean(flat, axis=0),
        "std": np.nanstd(flat, axis=0),
        **dict(zip(QUANTILES, np.nanquantile(flat, list(QUANTILES.values()), axis=0), strict=True)),
    }
    return {**{name: value.tolist() for name, value in values.items()}, "count": [len(flat)]}


def image_summary(frames: NDArray[np.uint8]) -> Summary:
    """Summarise frames (N, H, W, 3) per colour in [0, 1], shape (3, 1, 1), as that library does."""
    pixels = frames.reshape(-1, 3) / 255.0
    values = {
        "min": pixels.min(axis=0),
        "max": pixels.max(axis=0),
        "mean": pixels.mean(axis=0),
        "std": pixels.std(axis=0),
        **dict(zip(QUANTILES, np.quantile(pixels, list(QUANTILES.values()), axis=0), strict=True)),
    }
    return {**{name: value.reshape(3, 1, 1).tolist() for name, value in values.items()}, "count": [len(frames)]}
