"""Short gaps of a hand filled by Akima's interpolation, where a person asks for it.

Akima 1970, "A new method of interpolation and smooth curve fitting based on local procedures".
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from egodata.vendors.scale.config import FillConfig


def runs(mask: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges in which a mask (T,) is True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    yield from ((int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True))


def akima(x: NDArray[np.float64], y: NDArray[np.float64], *, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Interpolate with Akima's piecewise cubics.

    Args:
        x: (N,) increasing, N at least 3.
        y: (N, D).
        at: (M,) within [x[0], x[-1]].

    Returns:
        (M, D).
    """
    slope = np.diff(y, axis=0) / np.diff(x)[:, None]
    first, last = 2 * slope[0] - slope[1], 2 * slope[-1] - slope[-2]
    m = np.concatenate([[2 * first - slope[0]], [first], slope, [last], [2 * last - slope[-1]]])
    change = np.abs(np.diff(m, axis=0))
    ahead, behind = change[2:], change[:-2]
    total = ahead + behind
    flat = total < 1e-9 * max(float(total.max()), 1e-300)
    with np.errstate(invalid="ignore", divide="ignore"):
        tangent = np.where(flat, (m[1:-2] + m[2:-1]) / 2, (ahead * m[1:-2] + behind * m[2:-1]) / total)
    left = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    width = (x[left + 1] - x[left])[:, None]
    t = (at - x[left])[:, None]
    second = (3 * slope[left] - 2 * tangent[left] - tangent[left + 1]) / width
    third = (tangent[left] + tangent[left + 1] - 2 * slope[left]) / width**2
    out: NDArray[np.float64] = y[left] + t * (tangent[left] + t * (second + t * third))
    return out


def fill_gaps(
    points_m: NDArray[np.float64], times_s: NDArray[np.float64], *, config: FillConfig
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Fill the short gaps of one hand.

    A gap is a run of frames in which not all 21 points are there. It is filled from the frames with all points: `anchors` of them on
    each side, within `reach_frames`; where one is lacking, or where a filled point moves by more than `max_step_m` from one frame to
    the next, it stays open. Measured points inside a gap are kept.

    Args:
        points_m: (T, 21, 3), NaN where missing.
        times_s: (T,) seconds.
        config: The bounds.

    Returns:
        Points (T, 21, 3), which frames hold filled ones (T,), and how many gaps were short enough but stayed open.
    """
    out, filled, left_open = points_m.copy(), np.zeros(len(points_m), bool), 0
    whole = np.asarray(np.isfinite(points_m).all((1, 2)), np.bool_)
    for start, end in runs(~whole):
        if end - start > config.max_frames or start == 0 or end == len(whole):
            continue
        before = np.flatnonzero(whole[max(0, start - config.reach_frames) : start]) + max(0, start - config.reach_frames)
        after = np.flatnonzero(whole[end : end + config.reach_frames]) + end
        if min(len(before), len(after)) < config.anchors:
            left_open += 1
            continue
        rows = np.concatenate([before[-config.anchors :], after[: config.anchors]])
        flat = points_m[rows].reshape(len(rows), -1)
        made = akima(times_s[rows], flat, at=times_s[start:end]).reshape(end - start, *points_m.shape[1:])
        gap = np.where(np.isfinite(points_m[start:end]), points_m[start:end], made)
        path = np.concatenate([points_m[start - 1 : start], gap, points_m[end : end + 1]])
        if np.linalg.norm(np.diff(path, axis=0), axis=-1).max() > config.max_step_m:
            left_open += 1
            continue
        out[start:end], filled[start:end] = gap, True
    return out, filled, left_open
