"""Where each episode's rows lie in a table at one version. Derived from the table, never stored: deletions and compaction move rows."""

from collections.abc import Mapping

import lance
import numpy as np
import pyarrow as pa

from egodata.errors import CorruptEpisodeError
from egodata.formats.lance.tables import REBUILD, reading


def episode_rows(dataset: lance.LanceDataset) -> Mapping[str, tuple[int, int]]:
    """Return the half-open range of row positions of every episode.

    Args:
        dataset: A table with a column `episode_id`, at a fixed version.

    Raises:
        CorruptEpisodeError: An episode's rows are not side by side, so it was written twice or by something else.
    """
    with reading(dataset):
        found = dataset.to_table(columns=["episode_id"])["episode_id"]
    if found.length() == 0:
        return {}
    if not pa.types.is_dictionary(found.type):
        found = found.dictionary_encode()
    column = found.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    codes = column.indices.to_numpy(zero_copy_only=False)
    names = column.dictionary.to_pylist()
    starts = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1])
    ends = np.append(starts[1:], len(codes))
    rows: dict[str, tuple[int, int]] = {}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        name = names[codes[start]]
        if name in rows:
            raise CorruptEpisodeError(
                f"Lance table {dataset.uri}: episode {name} has rows at {rows[name][0]} and again at {start}. {REBUILD}"
            )
        rows[name] = (start, end)
    return rows
