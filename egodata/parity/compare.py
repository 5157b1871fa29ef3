"""Comparing two arrays cell by cell, down to the bits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class ArrayDifference:
    """Where two arrays differ.

    Attributes:
        cells: How many cells differ beyond the tolerance.
        first: First row with such a cell, or None.
        largest: Largest absolute difference of any cell; infinity where one side is NaN; 0 for the two zeros.
        row: Row of the largest difference.
        expected: First array's value there, as text.
        got: Second array's value there.
        decades: How many cells differ by how much: counts by power of ten, ``inf`` where one side is no number.
    """

    cells: int
    first: int | None
    largest: float
    row: int
    expected: str
    got: str
    decades: Mapping[str, int] = field(default_factory=dict)


def compare_arrays(expected: NDArray[Any], got: NDArray[Any], *, tolerance: float | None = None) -> ArrayDifference | None:
    """Compare two arrays of one shape and dtype.

    Args:
        expected: (T, ...).
        got: Same shape and dtype.
        tolerance: Largest absolute difference of floats; None asks for equal bits, where all NaN are equal.

    Returns:
        None if every bit is equal (NaN aside); else the differences, of which none may be beyond the tolerance.
    """
    differs = _different_bits(expected, got)
    if not differs.any():
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(expected.astype(np.float64) - got.astype(np.float64))
    distance = np.where(differs, np.where(np.isnan(distance), np.inf, distance), 0.0)
    beyond = differs if tolerance is None or expected.dtype.kind != "f" else differs & (distance > tolerance)
    rows = np.flatnonzero(beyond.reshape(len(expected), -1).any(1))
    # where only the sign of a zero differs the largest distance is 0; show a cell that differs all the same
    place = np.unravel_index(int(np.argmax(np.where(differs, distance, -1.0))), distance.shape)
    return ArrayDifference(
        cells=int(beyond.sum()),
        first=int(rows[0]) if len(rows) else None,
        largest=float(distance[place]),
        row=int(place[0]),
        expected=str(expected[place]),
        got=str(got[place]),
        decades=_decades(distance[differs]),
    )


def _decades(distances: NDArray[np.float64]) -> dict[str, int]:
    with np.errstate(divide="ignore"):
        powers = np.floor(np.log10(distances))
    names = ["inf" if power == np.inf else "0" if power == -np.inf else f"1e{int(power)}" for power in np.unique(powers)]
    return dict(zip(names, [int((powers == power).sum()) for power in np.unique(powers)], strict=True))


def _different_bits(expected: NDArray[Any], got: NDArray[Any]) -> NDArray[np.bool_]:
    if expected.dtype.kind != "f":
        return np.asarray(expected != got)
    bits = _BITS[expected.dtype.itemsize]
    same = np.ascontiguousarray(expected).view(bits) == np.ascontiguousarray(got).view(bits)
    return np.asarray(~(same | (np.isnan(expected) & np.isnan(got))))
