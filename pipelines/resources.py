"""The one resource of the code location: a store."""

import os
from pathlib import Path

import dagster as dg

from egodata.schema.layout import StorePaths, open_root

STORE_VARIABLE = "EGO_STORE"
DEFAULT_STORE = "store"


def store_root() -> Path:
    """Return the store that the environment names, else ``./store``."""
    return Path(os.environ.get(STORE_VARIABLE, DEFAULT_STORE)).absolute()


class StoreResource(dg.ConfigurableResource[StorePaths]):
    """A store's root folder; set by ``EGO_STORE``.

    Attributes:
        root: The folder; empty means what the environment names at run time.
        workers: Processes that a batch of recordings uses.
    """

    root: str = ""
    workers: int = 2

    def paths(self) -> StorePaths:
        """Open the store.

        Raises:
            NotFoundError: There is none.
        """
        return open_root(self.root or store_root())
