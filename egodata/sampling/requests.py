"""Windows of a sample, planned: every key is asked for once, and windows merge where no untouched chunk lies between them."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from egodata.episode import EpisodeReader
from egodata.schema.features import NUMERIC_CHUNK_ROWS

Windows = Mapping[str, Sequence[tuple[int, int]]]


def merge_windows(windows: Sequence[tuple[int, int]], *, chunk_rows: int = NUMERIC_CHUNK_ROWS) -> list[tuple[int, int]]:
    """Merge half-open row ranges of one key.

    Two ranges become one when every chunk between them is read anyway: the chunk of the first one's last row and that of the
    second one's first row are the same or neighbours. With one row per chunk only touching or overlapping ranges merge.

    Args:
        windows: Ranges [start, end); empty ones are left out.
        chunk_rows: Rows per stored chunk.

    Returns:
        Ranges that hold all of them, sorted.

    >>> merge_windows([(57, 61), (60, 160)])
    [(57, 160)]
    >>> merge_windows([(0, 1), (150, 151)]), merge_windows([(0, 1), (250, 251)])
    ([(0, 151)], [(0, 1), (250, 251)])
    >>> merge_windows([(57, 58), (60, 61)], chunk_rows=1)
    [(57, 58), (60, 61)]
    """
    merged: list[tuple[int, int]] = []
    for start, end in sorted(window for window in windows if window[0] < window[1]):
        if merged and start // chunk_rows <= (merged[-1][1] - 1) // chunk_rows + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def read_windows(reader: EpisodeReader, windows: Windows, *, chunk_rows: int = NUMERIC_CHUNK_ROWS) -> dict[str, list[NDArray[Any]]]:
    """Read many windows of many keys of any format, each chunk once.

    Args:
        reader: The episode.
        windows: Half-open row ranges by key.
        chunk_rows: Rows per stored chunk.

    Returns:
        For every key its windows in the order asked for, each an array of its own.

    Raises:
        FeatureNotFoundError: No such key.
        WindowError: A range outside [0, T]; the message names key and episode.
        CorruptEpisodeError: A chunk is missing or changed; the message names key, episode and frames.
    """
    for key, ranges in windows.items():
        _check(reader, key, ranges)
    plans = {key: merge_windows(ranges, chunk_rows=chunk_rows) for key, ranges in windows.items()}
    parts: dict[str, list[tuple[int, NDArray[Any]]]] = {key: [] for key in windows}
    for turn in range(max(map(len, plans.values()), default=0)):
        asked = {key: plan[turn] for key, plan in plans.items() if turn < len(plan)}
        for key, rows in reader.rows(list(asked), list(asked.values())).items():
            parts[key].append((asked[key][0], rows))
    return {
        key: [_cut(parts[key], window) for window in ranges] if plans[key] else _nothing(reader, key, ranges)
        for key, ranges in windows.items()
    }


def _check(reader: EpisodeReader, key: str, ranges: Sequence[tuple[int, int]]) -> None:
    """Let the reader refuse what is outside before it is merged with what is inside."""
    total = reader.meta.total_frames
    for start, end in ranges:
        if not 0 <= start <= end <= total:
            reader.rows([key], [(start, end)])


def _cut(parts: Sequence[tuple[int, NDArray[Any]]], window: tuple[int, int]) -> NDArray[Any]:
    start, end = window
    for first, rows in parts:
        if first <= start and end <= first + len(rows):
            return rows[start - first : end - first].copy()
    return parts[0][1][:0].copy()  # an empty window between merged ones


def _nothing(reader: EpisodeReader, key: str, ranges: Sequence[tuple[int, int]]) -> list[NDArray[Any]]:
    empty = reader.rows([key], [(0, 0)])[key]
    return [empty.copy() for _ in ranges]
