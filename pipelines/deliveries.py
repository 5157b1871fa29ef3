"""Deliveries that a store watches: ``ledger/deliveries.json``, oldest first.

A recording that several deliveries hold belongs to the newest of them, which is the correction.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from egodata.config import strict_config, typed
from egodata.errors import InputError
from egodata.ingest import IngestOptions, discover, observe
from egodata.names import nearest
from egodata.schema.layout import StorePaths, write_atomic
from egodata.vendors import Discovery

log = logging.getLogger(__name__)


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


def observations(paths: StorePaths) -> dict[str, tuple[Delivery, str]]:
    """Return, per recording, the delivery that it belongs to and its data version by size and mtime.

    A delivery that is gone or unreadable is logged and left out, so that it does not stop the others.
    """
    found: dict[str, tuple[Delivery, str]] = {}
    for delivery in deliveries(paths):
        try:
            discovery = delivery.discover()
        except (InputError, OSError) as error:
            log.warning("registered delivery left out: %s", error)
            continue
        for recording, version in observe(discovery).items():
            found[recording] = (delivery, version)
    return found


def by_delivery(paths: StorePaths, recordings: Iterable[str]) -> dict[Delivery, list[str]]:
    """Group recordings by the delivery that each belongs to.

    Raises:
        InputError: A recording that no registered delivery holds.
    """
    known = observations(paths)
    groups: dict[Delivery, list[str]] = {}
    for recording in recordings:
        if recording not in known:
            raise InputError(f"recording {recording}: no registered delivery holds it; {nearest(recording, known)}")
        groups.setdefault(known[recording][0], []).append(recording)
    return groups
