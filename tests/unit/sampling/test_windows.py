"""Which frames a window reads: written out by hand, and against a slow restatement of the rule."""

from fractions import Fraction

import numpy as np
import pytest

from egodata.annotations import Span
from egodata.errors import WindowError
from egodata.sampling.windows import cutoff_ends, frames_in, history_frames, resampling, window_frames

BORDERS = (0, 1, 3, 60, 79, 80, 130, 157, 159)
TOTAL = 160


@pytest.mark.parametrize(
    ("seconds", "fps", "frames"),
    [
        (1.0, Fraction(30), 30),
        (1.0, Fraction(30000, 1001), 30),
        (1.0, Fraction(10), 10),
        (1.0, Fraction(25), 25),
        (0.1, Fraction(30), 3),
        (0.1, Fraction(25), 2),  # 2.5, half to even
        (0.1, Fraction(4), 1),  # at least one
        (0.5, Fraction(20), 10),
    ],
)
def test_seconds_become_source_frames(seconds, fps, frames):
    assert frames_in(seconds, fps) == frames


@pytest.mark.parametrize("fps", [10, 20, 25, 30])
def test_a_window_repeats_the_last_frame_past_the_end(fps):
    frames, real = window_frames(np.array(BORDERS), frames=fps, ends=np.full(len(BORDERS), TOTAL))
    for row, start in enumerate(BORDERS):
        expected = [start + k if start + k < TOTAL else TOTAL - 1 for k in range(fps)]
        assert frames[row].tolist() == expected
        assert real[row].tolist() == [start + k < TOTAL for k in range(fps)]


def test_a_start_outside_the_episode_is_refused():
    with pytest.raises(WindowError, match=r"window start 160: expected a frame in \[0, 160\)"):
        window_frames(np.array([0, 160]), frames=30, ends=np.array([160, 160]))


@pytest.mark.parametrize(
    ("start", "count", "stride", "frames", "real"),
    [
        (7, 3, 5, [2, 2, 7], [False, True, True]),
        (0, 3, 5, [0, 0, 0], [False, False, True]),
        (3, 3, 5, [3, 3, 3], [False, False, True]),
        (5, 3, 5, [0, 0, 5], [False, True, True]),
        (10, 3, 5, [0, 5, 10], [True, True, True]),
        (159, 3, 5, [149, 154, 159], [True, True, True]),
        (4, 2, 3, [1, 4], [True, True]),
        (2, 2, 3, [2, 2], [False, True]),
        (80, 1, 5, [80], [True]),
    ],
)
def test_history_stays_on_its_stride_grid(start, count, stride, frames, real):
    found, mask = history_frames(np.array([start]), count=count, stride=stride)
    assert (found[0].tolist(), mask[0].tolist()) == (frames, real)


def test_a_history_may_fall_back_to_the_first_frame():
    found, mask = history_frames(np.array([2, 7, 20]), count=3, stride=5, before_start="first")
    assert found.tolist() == [[0, 0, 2], [0, 2, 7], [10, 15, 20]]
    assert mask.tolist() == [[False, False, True], [False, True, True], [True, True, True]]


@pytest.mark.parametrize(("frames", "steps"), [(30, 100), (10, 100), (25, 100), (20, 7), (30, 30), (1, 100), (30, 1), (2, 3)])
def test_resampling_keeps_both_ends_and_lands_where_fractions_say(frames, steps):
    plan = resampling(frames, steps)
    for step in range(steps):
        exact = Fraction(step * (frames - 1), max(steps - 1, 1))
        assert plan.lower[step] == int(exact)
        assert plan.upper[step] == int(exact) + (exact.denominator > 1)
        assert plan.share[step] == float(exact - int(exact))
    assert plan.lower[0] == 0
    if steps > 1:
        assert plan.upper[-1] == frames - 1


def test_span_cutoff_ends_windows_at_the_earliest_end_of_the_spans_that_hold_the_start():
    spans = [Span("a", 10, 20), Span("b", 15, 40), Span("c", 50, 500)]
    starts = np.array([0, 10, 15, 19, 20, 39, 40, 50, 99])
    assert cutoff_ends(spans, starts, total=100).tolist() == [100, 20, 20, 20, 40, 40, 100, 100, 100]
    assert cutoff_ends(None, starts, total=100).tolist() == [100] * 9
    assert cutoff_ends([], starts, total=100).tolist() == [100] * 9
