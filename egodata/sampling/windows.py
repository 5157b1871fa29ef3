"""Which source frames a sample reads, and how the action window becomes a fixed number of steps.

Every function takes many starts of one episode at once; one start is an array of length 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Span
from egodata.errors import WindowError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def frames_in(seconds: float, fps: Fraction) -> int:
    """Number of source frames of a time span: round(fps x seconds), half to even, at least 1.

    >>> frames_in(1.0, Fraction(30000, 1001))
    30
    """
    return max(1, round(fps * Fraction(seconds).limit_denominator(1_000_000)))


def window_frames(starts: Ints, *, frames: int, ends: Ints) -> tuple[Ints, Bools]:
    """Frames of the windows [start, start + frames); past the end the last frame repeats and is not real.

    Args:
        starts: (n,) start frames.
        frames: Window length in source frames, at least 1.
        ends: (n,) frame after the last usable one of each start: the episode's length, or where a span ends.

    Returns:
        Source frames (n, frames), and which of them are real, same shape.

    Raises:
        WindowError: A start is not before its end.
    """
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    if np.any(starts < 0) or np.any(starts >= ends):
        bad = int(np.flatnonzero((starts < 0) | (starts >= ends))[0])
        raise WindowError(f"window start {starts[bad]}: expected a frame in [0, {ends[bad]})")
    wanted = starts[:, None] + np.arange(frames)
    return np.minimum(wanted, ends[:, None] - 1), wanted < ends[:, None]


def history_frames(starts: Ints, *, count: int, stride: int, before_start: str = "grid") -> tuple[Ints, Bools]:
    """Frames of the history start - (count - 1) stride .. start, the current one last.

    Steps before frame 0 take the oldest step of the same stride grid (`grid`), or frame 0 (`first`), and are not real.

    >>> history_frames(np.array([7]), count=3, stride=5)
    (array([[2, 2, 7]]), array([[False,  True,  True]]))
    """
    starts = np.asarray(starts, np.int64)
    wanted = starts[:, None] - stride * np.arange(count - 1, -1, -1)
    oldest = starts[:, None] % stride if before_start == "grid" else np.int64(0)
    return np.where(wanted >= 0, wanted, oldest), wanted >= 0


@dataclass(frozen=True, slots=True)
class Resampling:
    """Where each step lies between the frames of a window; exact, since it is made of integers.

    Attributes:
        lower: (S,) position of the neighbour before, or of the step itself where it falls on a frame.
        upper: (S,) the neighbour after; equal to `lower` where the step falls on a frame.
        share: (S,) float64 in [0, 1): 0 at `lower`.
    """

    lower: Ints
    upper: Ints
    share: NDArray[np.float64]


@lru_cache(maxsize=64)
def resampling(frames: int, steps: int) -> Resampling:
    """Spread `steps` evenly over the frames 0 .. frames - 1, both ends kept; a single step takes frame 0."""
    if steps == 1:
        return Resampling(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1))
    scaled = np.arange(steps, dtype=np.int64) * (frames - 1)
    lower, rest = scaled // (steps - 1), scaled % (steps - 1)
    return Resampling(lower, lower + (rest > 0), rest / (steps - 1))


def cutoff_ends(spans: Sequence[Span] | None, starts: Ints, *, total: int) -> Ints:
    """Frame after the last usable one of each start, where windows stop at the end of the span that holds their start.

    Of several spans that hold a start the earliest end counts; a start outside every span is cut by nothing.

    Args:
        spans: Of the cut-off key; None where the episode has no such key.
        starts: (n,) start frames.
        total: Frames of the episode; spans are clipped to it.
    """
    starts = np.asarray(starts, np.int64)
    ends = np.full(starts.shape, total, np.int64)
    for span in spans or ():
        inside = (starts >= span.start) & (starts < span.end)
        ends[inside] = np.minimum(ends[inside], span.end)
    return ends
