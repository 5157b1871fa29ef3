"""Which episodes a path means: those of a store, or of a folder of old groups."""

from pathlib import Path

from egodata.episode import EpisodeStore
from egodata.formats import open_store
from egodata.schema.layout import open_root


def open_episodes(folder: Path, format: str) -> EpisodeStore:
    """Open a store in a format, or a folder of `<id>.zarr` groups of schema v3, read-only.

    Raises:
        NotFoundError: Neither.
    """
    if not (folder / "store.json").exists():
        from egodata.formats.zarr.legacy import LegacyStore

        old = LegacyStore(folder)
        if old.episode_ids():
            return old
    return open_store(open_root(folder), format)
