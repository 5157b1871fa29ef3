"""The Mecka reader behind the vendor protocol."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egodata.vendors.base import Discovery, Drafts, RecordingRef, VendorOptions
from egodata.vendors.mecka.config import load
from egodata.vendors.mecka.discover import discover
from egodata.vendors.mecka.read import read_recording


@dataclass(frozen=True, slots=True)
class Mecka:
    """Human episodes in Mecka's layout. Its ids are unique and are used as they are."""

    name: str = "mecka"
    version: int = 2
    unique_ids: bool = True

    def discover(self, delivery: Path, options: VendorOptions) -> Discovery:
        """List the delivery's recordings."""
        return discover(delivery, options)

    def read(self, ref: RecordingRef, options: VendorOptions) -> Drafts:
        """Read one recording."""
        return read_recording(ref, load(options))

    def settings(self, options: VendorOptions) -> dict[str, Any]:
        """Return the config in use."""
        return asdict(load(options))


VENDOR = Mecka()
