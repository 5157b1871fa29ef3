"""Indexes kept on disk, mapped by every process that reads the same head, so that a second start reads no masks and workers share one copy.

Keyed by what an index depends on: the episodes' contents in order, the numbers that the recipe asks for, and the version of the rules.
It is a cache: removing it loses nothing, a file that does not fit is made again, and where it cannot be written the index stays in memory.
"""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from egodata.catalog.manifest import HeadEpisode
from egodata.sampling.index import HeadIndex
from egodata.sampling.recipe import Recipe
from egodata.schema.canonical import json_digest
from egodata.schema.layout import write_atomic

RULES_VERSION = 1


def index_key(episodes: Sequence[HeadEpisode], recipe: Recipe) -> str:
    """Return the key of a head's index under a recipe."""
    return json_digest({"rules": RULES_VERSION, "numbers": recipe.numbers_digest, "contents": [episode.content for episode in episodes]})


def cached_index(folder: Path | None, key: str, *, build: Callable[[], HeadIndex]) -> HeadIndex:
    """Return an index from its file, or build it and keep it.

    Args:
        folder: Where indexes are kept, or None.
        key: Of `index_key`.
        build: Makes it from the episodes' masks.
    """
    if folder is None:
        return build()
    arrays, facts = folder / f"{key}.frames.npy", folder / f"{key}.json"
    found = _read(arrays, facts)
    if found is not None:
        return found
    index = build()
    buffer = io.BytesIO()
    np.save(buffer, index.frames)
    body = {"offsets": index.offsets.tolist(), "excluded": dict(index.excluded)}
    try:
        write_atomic(arrays, buffer.getvalue())
        write_atomic(facts, json.dumps(body).encode())  # last: it says that the other one is whole
    except OSError:  # a store that this user may only read, or a full disk
        return index
    return _read(arrays, facts) or index


def _read(arrays: Path, facts: Path) -> HeadIndex | None:
    try:
        body = json.loads(facts.read_bytes())
        frames = np.load(arrays, mmap_mode="r")
        offsets = np.array(body["offsets"], np.int64)
        whole = frames.ndim == 1 and frames.dtype == np.int32 and len(offsets) > 0 and offsets[-1] == len(frames)
        return HeadIndex(offsets, frames, {str(name): int(count) for name, count in body["excluded"].items()}) if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
