"""Exact stamps, units, rates, stored size, nearest rows; delimited text."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from egodata.vendors.files import entry_name
from egodata.vendors.frames import RELATIVE, frame_times_ns, judge_unit, measured_rate, nearest_rows, standard_rate, stored_size, to_ns
from egodata.vendors.tables import EmptyTableError, TableError, integers, numbers, read_table


@given(st.integers(0, 4 * 10**18))
def test_decimal_seconds_come_back_exactly(ns):
    text = f"{ns // 10**9}.{ns % 10**9:09d}"
    assert to_ns(Decimal(text), "s") == ns


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (["1e8", "2e8"], "s"), (["99999999"], RELATIVE), (["100000000000"], "ms"), (["1e14"], "us"), (["1e17"], "ns"),
        (["0.0", "3.5"], RELATIVE), (["0.0", "1750000000"], None), (["-1"], RELATIVE),
        (["1e19"], None), (["1e16"], None), (["-1e20"], None),
    ],
)  # fmt: skip
def test_units_are_judged_over_all_rows(values, unit):
    assert judge_unit([Decimal(value) for value in values]) == unit


def test_frame_times_round_each_frame_once():
    fps = Fraction(30000, 1001)
    times = frame_times_ns(np.arange(300_000), fps)
    assert times[1] == 33_366_667 and times[299_999] == round(299_999 * 10**9 / fps)
    assert np.gcd.reduce(np.diff(times)) == 1


@pytest.mark.parametrize(
    ("hz", "rate"), [(29.97, Fraction(30000, 1001)), (30.0001, Fraction(30)), (25.0, Fraction(25)), (17.0, Fraction(17))]
)
def test_rates_snap_to_standard_ones(hz, rate):
    assert standard_rate(Fraction(hz)) == rate


def test_a_gap_does_not_bend_the_measured_rate():
    stamps = np.arange(200, dtype=np.int64) * 40_000_000
    stamps[100:] += 266_000_000
    assert measured_rate(stamps) == 25
    assert measured_rate(stamps[:1]) is None


@given(st.integers(16, 5000), st.integers(16, 5000))
def test_stored_size_fits_is_even_and_never_grows(width, height):
    w, h = stored_size(width, height, limit=(640, 360))
    assert w % 2 == h % 2 == 0 and w <= 640 and h <= 360 and w <= width + 1 and h <= height + 1
    scale = min(640 / width, 360 / height, 1)
    assert abs(w - width * scale) <= 2 and abs(h - height * scale) <= 2


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_nearest_rows_are_nearest_and_never_go_back(wanted, have):
    wanted, have = np.sort(np.array(wanted)) * 1000, np.sort(np.array(have)) * 1000
    rows, distance = nearest_rows(wanted, have)
    assert (np.diff(rows) >= 0).all()
    assert (distance - np.abs(have[None] - wanted[:, None]).min(axis=1) <= 1000).all()


@pytest.mark.parametrize(
    ("url", "name"), [("https://h/a/b.mp4?x=/c", "b.mp4"), ("b.mp4", "b.mp4"), ("https://h/..", None), ("a\\..\\b", None), ("", None)]
)
def test_the_last_part_of_a_url(url, name):
    assert entry_name(url) == name


def test_tables(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a , b\n1,2\n\n3\n4,5\n")
    table = read_table(path)
    assert table.header == ("a", "b") and table.rows == (("1", "2"), ("4", "5")) and table.ragged == 1
    path.write_text(" \n")
    with pytest.raises(EmptyTableError, match="without any text"):
        read_table(path)
    path.write_bytes(b"a,b\n\xff\xfe\xfd,1\n")
    with pytest.raises(TableError, match="not UTF-8"):
        read_table(path)


def test_numbers():
    np.testing.assert_array_equal(numbers(("1,5", "2.5", "", "inf", "1e3"), where="x"), [1.5, 2.5, np.nan, np.nan, 1000.0])
    assert integers(("12.0", "3"), where="x").tolist() == [12, 3]
    for cell in ("1.5", "", "1e30"):
        with pytest.raises(TableError, match="whole number"):
            integers((cell,), where="x")
