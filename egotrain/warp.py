"""Dynamic time warping: how far two paths are apart when one may run ahead of the other."""

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1024


def warped_distance(predicted: NDArray[np.floating], truth: NDArray[np.floating], *, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the cost of the cheapest alignment of two paths, over the number of recorded steps.

    Both paths are walked from their first to their last recorded step, one or both moving on at a time; the cost is the sum of
    distances between the two on the way (Sakoe and Chiba 1978). Dividing by the steps makes it a length, never larger than the mean
    paired distance.

    Args:
        predicted: (m, S, 3), metres.
        truth: (m, S, 3), metres.
        mask: (m, S), recorded steps; the others are left out of both paths.

    Returns:
        (m,) metres; NaN where nothing was recorded.
    """
    out = np.full(len(truth), np.nan)
    for start in range(0, len(truth), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        out[part] = _block(np.asarray(predicted[part], np.float64), np.asarray(truth[part], np.float64), mask[part])
    return out


def _block(predicted: NDArray[np.float64], truth: NDArray[np.float64], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Fill the table of costs diagonal by diagonal, for all paths at once; entry i + 1 of a diagonal belongs to step i of `predicted`."""
    order = np.argsort(~mask, axis=1, kind="stable")[..., None]
    first, second = (np.take_along_axis(np.nan_to_num(path), order, axis=1) for path in (predicted, truth))
    count, steps = mask.shape
    length = mask.sum(1)
    out = np.full(count, np.nan)
    before = np.full((count, steps + 1), np.inf)
    last = before.copy()
    for diagonal in range(2 * steps - 1):
        i = np.arange(max(0, diagonal - steps + 1), min(diagonal, steps - 1) + 1)
        cost = np.linalg.norm(first[:, i] - second[:, diagonal - i], axis=-1)
        least = np.minimum(np.minimum(last[:, i], last[:, i + 1]), before[:, i]) if diagonal else np.zeros((count, 1))
        now = np.full((count, steps + 1), np.inf)
        now[:, i + 1] = cost + least
        ends = np.flatnonzero(2 * (length - 1) == diagonal)
        out[ends] = now[ends, length[ends]] / length[ends]
        before, last = last, now
    return out
