"""Storage formats behind one door. Each is imported when it is opened."""

from collections.abc import Mapping
from importlib import import_module

from egodata.episode import EpisodeStore
from egodata.errors import NotFoundError
from egodata.names import nearest
from egodata.schema.layout import StorePaths

FORMATS = ("zarr", "lance")


def open_store(paths: StorePaths, format: str, *, versions: Mapping[str, int] | None = None) -> EpisodeStore:
    """Open all episodes of a store in one format.

    Args:
        paths: The store.
        format: ``zarr`` or ``lance``.
        versions: Lance table versions, as a manifest's provenance holds them; zarr opens by content and needs none.

    Raises:
        NotFoundError: No such format, or the store has no Lance copy.
    """
    if format not in FORMATS:
        raise NotFoundError(f"format {format!r} is unknown: {nearest(format, FORMATS)}")
    module = import_module(f"egodata.formats.{format}")
    store: EpisodeStore = module.ZarrStore(paths) if format == "zarr" else module.LanceStore(paths, versions=versions)
    return store
