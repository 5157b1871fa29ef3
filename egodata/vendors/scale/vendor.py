"""The Scale reader behind the vendor protocol."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egodata.vendors.base import Discovery, Drafts, RecordingRef, VendorOptions
from egodata.vendors.scale.config import load
from egodata.vendors.scale.discover import discover
from egodata.vendors.scale.read import read_recording


@dataclass(frozen=True, slots=True)
class Scale:
    """Human episodes in Scale's layout. Task ids are unique; a recording gives one episode per piece."""

    name: str = "scale"
    version: int = 1
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


VENDOR = Scale()
