"""Cells, down to the bits."""

import numpy as np
import pytest

from egodata.parity.compare import compare_arrays


def test_equal_bits_and_every_nan_are_equal():
    quiet = np.array([[1.0, np.nan], [-0.0, np.inf]], np.float32)
    other = quiet.copy()
    other.view(np.uint32)[0, 1] ^= 1 << 31  # another NaN
    assert compare_arrays(quiet, other) is None
    assert compare_arrays(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)) is None


def test_the_largest_is_named_with_row_and_values():
    one = np.zeros((5, 2), np.float32)
    other = one.copy()
    other[1, 0], other[3, 1] = 0.25, -2.0
    found = compare_arrays(one, other)
    assert (found.cells, found.first, found.largest, found.row, found.expected, found.got) == (2, 1, 2.0, 3, "0.0", "-2.0")
    within = compare_arrays(one, other, tolerance=0.5)
    assert (within.cells, within.first, within.largest) == (1, 3, 2.0)
    assert compare_arrays(one, other, tolerance=2.0).cells == 0


@pytest.mark.parametrize("other", [np.nan, np.inf, -np.inf])
def test_not_a_number_is_infinitely_far(other):
    found = compare_arrays(np.array([1.0], np.float32), np.array([other], np.float32), tolerance=1e9)
    assert found.largest == np.inf and found.cells == 1


def test_zeros_of_both_signs_differ_by_nothing_but_differ():
    found = compare_arrays(np.array([0.0], np.float32), np.array([-0.0], np.float32))
    assert found.cells == 1 and found.largest == 0.0 and found.row == 0
    assert compare_arrays(np.array([0.0]), np.array([-0.0]), tolerance=0.0).cells == 0


def test_large_integers_differ_exactly():
    one = np.array([1_700_000_000_123_456_789], np.int64)
    assert compare_arrays(one, one + 1).cells == 1
    assert compare_arrays(np.array([True]), np.array([False]), tolerance=5.0).cells == 1
