"""Frames and time shared by vendors: exact stamps, standard rates, stored size, the tail rule."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

STANDARD_RATES = tuple(
    Fraction(*rate)
    for rate in (
        (5, 1),
        (10, 1),
        (12, 1),
        (25, 2),
        (15, 1),
        (20, 1),
        (24000, 1001),
        (24, 1),
        (25, 1),
        (30000, 1001),
        (30, 1),
        (48, 1),
        (50, 1),
        (60000, 1001),
        (60, 1),
        (90, 1),
        (100, 1),
        (120, 1),
    )
)
RATE_TOLERANCE = 0.005
TIE_NS = 1000
UNIX_UNITS = ((Decimal(10) ** 17, "ns", 0), (Decimal(10) ** 14, "us", 3), (Decimal(10) ** 11, "ms", 6), (Decimal(10) ** 8, "s", 9))
RELATIVE = "s from the first frame"
MAX_NS = Decimal(2**63 - 1)
MAX_DIGITS = 30


def parse_decimal(text: str) -> Decimal | None:
    """Read a decimal number exactly; None if it is not a finite number, or one of more digits than any time has."""
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() and value.adjusted() < MAX_DIGITS else None


def judge_unit(values: Sequence[Decimal]) -> str | None:
    """Judge the unit of a file's time stamps once, over all of them.

    At least 1e8 are unix seconds, 1e11 milliseconds, 1e14 microseconds, 1e17 nanoseconds; smaller ones are seconds from the first frame.

    Args:
        values: Every start stamp in the file, at least one.

    Returns:
        ``s``, ``ms``, ``us``, ``ns`` for unix time, `RELATIVE`, or None if the rows disagree or are beyond the nanoseconds of int64.
    """
    units = {_unit_of(value) for value in values}
    unit = units.pop() if len(units) == 1 else None
    return None if unit is None or max(map(abs, values)) > MAX_NS.scaleb(-_power(unit)) else unit


def _unit_of(value: Decimal) -> str:
    for least, unit, _ in UNIX_UNITS:
        if value >= least:
            return unit
    return RELATIVE


def to_ns(value: Decimal, unit: str) -> int:
    """Turn a stamp into integer nanoseconds without passing through floats; a half rounds to even."""
    return int(value.scaleb(_power(unit)).to_integral_value())


def _power(unit: str) -> int:
    return {name: power for _, name, power in UNIX_UNITS}.get(unit, 9)


def standard_rate(hz: Fraction) -> Fraction:
    """Return the standard rate within 0.5 % of a measured one (the nearest), else the measured one with a small denominator."""
    best = min(STANDARD_RATES, key=lambda rate: abs(rate - hz))
    return best if abs(best - hz) <= best * Fraction(RATE_TOLERANCE) else hz.limit_denominator(1001)


def measured_rate(stamps_ns: NDArray[np.int64]) -> Fraction | None:
    """Measure frames per second over all steps but gaps (over 1.5 times the median); None for fewer than two frames."""
    steps = np.diff(stamps_ns)
    if not len(steps) or np.median(steps) <= 0:
        return None
    kept = steps[steps <= 1.5 * np.median(steps)]
    return Fraction(len(kept) * 10**9, int(kept.sum()))


def frame_times_ns(frames: NDArray[np.int64], fps: Fraction) -> NDArray[np.int64]:
    """Return the time of frames from frame 0, rounded once from the exact fraction."""
    num, den = fps.numerator, fps.denominator * 10**9
    return np.array([(int(frame) * den + num // 2) // num for frame in frames], np.int64)


def stored_size(width_px: int, height_px: int, *, limit: tuple[int, int]) -> tuple[int, int]:
    """Return the size to store: as delivered, shrunk to fit a box with its aspect kept, each side even.

    >>> stored_size(1920, 1080, limit=(640, 360)), stored_size(641, 481, limit=(640, 480)), stored_size(320, 180, limit=(640, 360))
    ((640, 360), (640, 480), (320, 180))
    """
    scale = min(Fraction(limit[0], width_px), Fraction(limit[1], height_px), Fraction(1))
    even = (max(2, 2 * round(width_px * scale / 2)), max(2, 2 * round(height_px * scale / 2)))
    return min(even[0], limit[0]), min(even[1], limit[1])


def nearest_rows(wanted_ns: NDArray[np.int64], have_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Match times to the nearest of a camera's frames.

    Args:
        wanted_ns: (T,), ascending.
        have_ns: (N,), ascending, N at least 1, on the same clock.

    Returns:
        Indices into `have_ns` (T,), non-decreasing, the earlier of two that are equally near to a microsecond, and the absolute
        distance (T,) in nanoseconds.
    """
    right = np.clip(np.searchsorted(have_ns, wanted_ns), 1, max(1, len(have_ns) - 1))
    left = right - 1
    right = np.minimum(right, len(have_ns) - 1)
    closer = np.abs(have_ns[left] - wanted_ns) - np.abs(have_ns[right] - wanted_ns) > TIE_NS
    rows = np.where(closer, right, left).astype(np.int64)
    return rows, np.abs(have_ns[rows] - wanted_ns)


def cast_float32(values: NDArray[np.floating]) -> tuple[NDArray[np.float32], float]:
    """Cast once to float32 and return the largest absolute error over finite values; what float32 cannot hold is NaN."""
    with np.errstate(over="ignore"):
        out = np.asarray(values).astype(np.float32)
    out[~np.isfinite(out)] = np.nan
    error = np.abs(out.astype(np.float64) - np.asarray(values, np.float64))
    return out, float(np.nanmax(error)) if np.isfinite(error).any() else 0.0
