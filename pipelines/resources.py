"""The one resource of the code location: a store."""

import os
from pathlib import Path

import dagster as dg

from egodata.schema.layout import StorePaths, open_root

STORE_VARIABLE = "EGO_STORE"
DEFAULT_STORE = "store"
OWNER = "team:data"
VIDEO_POOL = "video"
"""Runs that decode and encode share this pool, so that a small machine is not asked for several at once."""


def store_root() -> Path:
    """Return the store that the environment names, else ``./store``."""
    return Path(os.environ.get(STORE_VARIABLE, DEFAULT_STORE)).absolute()


class StoreResource(dg.ConfigurableResource[StorePaths]):
    """A store's root folder; set by ``EGO_STORE``.

    Attributes:
        root: The folder; empty means what the environment names at run time.
        workers: Processes that a batch of recordings uses.
        executor: ``in_process``, ``spawned`` or ``ray``; empty means what the environment names (pipelines.executors).
    """

    root: str = ""
    workers: int = 2
    executor: str = ""

    def paths(self) -> StorePaths:
        """Open the store.

        Raises:
            NotFoundError: There is none.
        """
        return open_root(self.root or store_root())
