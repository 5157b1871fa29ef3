"""Deliveries that a store watches: ``ledger/deliveries.json``, oldest first.

A recording that several deliveries hold belongs to the newest of them, which is the correction.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from egodata.config import strict_config, typed
from egodata.errors import InputError
from egodata.ingest import IngestOptions, discover
from egodata.schema.layout import StorePaths, write_atomic
from egodata.vendors import Discovery


@strict_config
@dataclass(frozen=True, slots=True)
class Delivery:
    """One batch as received.

    Attributes:
        vendor: Who delivered.
        raw: Absolute path of the delivery's folder.
        dataset: Prefix of ids for vendors whose ids are not unique; empty for the default.
        delivery: Name of the batch; empty for the default.
    """

    vendor: str
    raw: str
    dataset: str = ""
    delivery: str = ""

    @property
    def folder(self) -> Path:
        """The delivery's folder."""
        return Path(self.raw)

    def discover(self) -> Discovery:
        """List the delivery's recordings."""
        return discover(self.folder, self.vendor, dataset=self.dataset or None, delivery=self.delivery or None)

    def options(self, paths: StorePaths, *, only: tuple[str, ...] | None = None, workers: int | None = None) -> IngestOptions:
        """Return the options that ingest this delivery, or some of its recordings, into a store."""
        return IngestOptions(
            vendor=self.vendor,
            store=paths.root,
            dataset=self.dataset or None,
            delivery=self.delivery or None,
            only=only,
            workers=workers,
        )


def _registry(paths: StorePaths) -> Path:
    return paths.ledger / "deliveries.json"


def deliveries(paths: StorePaths) -> list[Delivery]:
    """Return the registered deliveries, oldest first.

    Raises:
        InputError: The registry is not JSON.
    """
    path = _registry(paths)
    if not path.exists():
        return []
    try:
        values = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON ({error}). Restore it or remove it and register the deliveries again.") from error
    return [typed(Delivery, value, where=str(path)) for value in values]


def register(paths: StorePaths, delivery: Delivery) -> None:
    """Add a delivery to those watched; one that is there already keeps its place."""
    known = deliveries(paths)
    if delivery not in known:
        body = json.dumps([asdict(item) for item in [*known, delivery]], indent=1)
        write_atomic(_registry(paths), body.encode() + b"\n")
