"""A recording cut into episodes: where frames are left out, and how long a piece may be."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Span, frame_at
from egodata.vendors.base import Notes
from egodata.vendors.scale.annotation import TextClip
from egodata.vendors.scale.config import ScaleConfig
from egodata.vendors.scale.fill import runs

GAP_STEPS = 1.5


def span_of(clip: TextClip, frames_ns: NDArray[np.int64]) -> tuple[int, int]:
    """Return the half-open frames [start, end) of a clip: the first frames with t >= its start and t >= its end."""
    return frame_at(frames_ns, clip.start_ns), frame_at(frames_ns, clip.end_ns)


def covered(clips: Sequence[TextClip], frames_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which frames (T,) any of the clips covers."""
    mask = np.zeros(len(frames_ns), bool)
    for clip in clips:
        start, end = span_of(clip, frames_ns)
        mask[start:end] = True
    return mask


def cut(
    inactive: NDArray[np.bool_], hands: NDArray[np.bool_], *, frames_ns: NDArray[np.int64], config: ScaleConfig, notes: Notes
) -> list[tuple[int, int]]:
    """Cut a recording into pieces of `piece_frames`.

    Left out are inactive frames and runs of more than `gap_frames` frames without any hand; a piece ends there, and where time
    jumps by more than 1.5 frames. What is left is cut every longest piece; a rest that is too short takes frames from the piece before.

    Args:
        inactive: (T,).
        hands: (T,), whether any hand is there.
        frames_ns: (T,).
        config: The bounds.
        notes: Told how many frames were left out, and why.

    Returns:
        Half-open frame ranges in order.
    """
    empty = np.zeros(len(hands), bool)
    for start, end in runs(~hands):
        empty[start:end] = end - start > config.gap_frames
    kept = ~(inactive | empty)
    least, most = config.piece_frames
    pieces: list[tuple[int, int]] = []
    short = 0
    for start, end in _at_jumps(list(runs(kept)), frames_ns):
        if end - start < least:
            short += end - start
            continue
        pieces.extend(_divide(start, end, least=least, most=most))
    counts = {
        "inactive": int(inactive.sum()),
        f"over {config.gap_frames} frames without a hand": int((empty & ~inactive).sum()),
        f"shorter than {least} frames": short,
    }
    notes.counts["frames_left_out"] = {name: count for name, count in counts.items() if count}
    if any(counts.values()):
        said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        notes.add("frames-left-out", f"{sum(counts.values())} of {len(hands)} frames are in no episode: {said}")
    return pieces


def _at_jumps(ranges: list[tuple[int, int]], frames_ns: NDArray[np.int64]) -> list[tuple[int, int]]:
    steps = np.diff(frames_ns)
    jumps = np.flatnonzero(steps > GAP_STEPS * np.median(steps)) + 1 if len(steps) else np.zeros(0, np.int64)
    out: list[tuple[int, int]] = []
    for start, end in ranges:
        edges = [start, *(int(at) for at in jumps if start < at < end), end]
        out.extend(pairwise(edges))
    return out


def _divide(start: int, end: int, *, least: int, most: int) -> list[tuple[int, int]]:
    edges = [*range(start, end, most), end]
    if len(edges) > 2 and edges[-1] - edges[-2] < least:
        edges[-2] = end - least
    return list(pairwise(edges))


def inside(spans: Sequence[Span], piece: tuple[int, int]) -> tuple[Span, ...]:
    """Return the spans of a recording as they lie in a piece, a half-open range of its frames, counted from its first."""
    start, end = piece
    cuts = ((span.text, max(span.start, start) - start, min(span.end, end) - start) for span in spans)
    return tuple(Span(text, first, last) for text, first, last in cuts if first < last)
