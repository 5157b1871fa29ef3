"""Zeros, 1e9 and NaN of old stores as masks: what is valid is said by a mask, and what is not is NaN."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.schema.features import HAND_PALM_POINTS

SENTINEL = 9.9e8
NORM_TOLERANCE = 1e-2
_POINTS = 21

Rows = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Masked:
    """One float feature with its mask.

    Attributes:
        rows: (T, D) float64; NaN where invalid.
        valid: (T,) rows that may be used.
        points: (T, 21) for keypoints, else None.
        renormalised: Rows whose quaternion was not of length 1 within 1e-4 and was made so.
    """

    rows: Rows
    valid: Bools
    points: Bools | None = None
    renormalised: int = 0


def _missing(rows: Rows) -> Bools:
    with np.errstate(invalid="ignore"):
        return np.asarray(~np.isfinite(rows) | (np.abs(rows) >= SENTINEL), np.bool_)


def mask_keypoints(rows: Rows) -> Masked:
    """Mask hands of 21 points: a point with NaN, 1e9 or three zeros is missing; a row counts if all points are there.

    Args:
        rows: (T, 63).
    """
    points = rows.reshape(-1, _POINTS, 3).copy()
    bad = _missing(points).any(-1) | (points == 0).all(-1)
    points[bad] = np.nan
    return Masked(points.reshape(rows.shape), np.asarray(~bad.any(1)), np.asarray(~bad))


def mask_poses(rows: Rows) -> Masked:
    """Mask poses: NaN, 1e9, all zeros, or a quaternion that is none (length off by more than 1e-2) is invalid.

    Args:
        rows: (T, 7), quaternion w first.

    Returns:
        Rows with quaternions of length 1.
    """
    out = rows.copy()
    length = np.linalg.norm(np.where(_missing(rows), 0, rows)[:, 3:], axis=1)
    valid = ~_missing(rows).any(1) & (np.abs(length - 1) <= NORM_TOLERANCE)
    off = valid & (np.abs(length - 1) > 1e-4)
    out[off, 3:] /= length[off, None]
    out[~valid] = np.nan
    return Masked(out, np.asarray(valid), renormalised=int(off.sum()))


def mask_other(rows: Rows) -> Masked:
    """Mask joints, grippers and the like, for which zero is a value: only NaN and 1e9 are missing.

    Args:
        rows: (T, ...).
    """
    bad = _missing(rows).reshape(len(rows), -1).any(1)
    out = rows.copy()
    out[bad] = np.nan
    return Masked(out, np.asarray(~bad))


def mask_feature(key: str, rows: NDArray[np.floating]) -> Masked:
    """Mask a feature by its name and width."""
    wide = np.asarray(rows, np.float64)
    if key.endswith("keypoints") and wide.ndim == 2 and wide.shape[1] == 3 * _POINTS:
        return mask_keypoints(wide)
    if key.endswith("pose") and wide.ndim == 2 and wide.shape[1] == 7:
        return mask_poses(wide)
    return mask_other(wide)


def palm_valid(points: Bools) -> Bools:
    """Rows of hands (T, 21) at which a hand pose may exist: points 0, 5, 9, 13 and 17 are there."""
    return np.asarray(points[:, list(HAND_PALM_POINTS)].all(1))
