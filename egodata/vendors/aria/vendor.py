"""The Aria reader behind the vendor protocol."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egodata.vendors.aria.config import load
from egodata.vendors.aria.layout import discover
from egodata.vendors.aria.read import read_recording
from egodata.vendors.aria.vrs import tools
from egodata.vendors.base import Discovery, Drafts, RecordingRef, VendorOptions


@dataclass(frozen=True, slots=True)
class Aria:
    """Project Aria recordings, Gen1 and Gen2. File names are anybody's, so ids carry vendor, dataset and path."""

    name: str = "aria"
    version: int = 1
    unique_ids: bool = False

    def discover(self, delivery: Path, options: VendorOptions) -> Discovery:
        """List the delivery's recordings.

        Raises:
            InputError: The folder is not such a delivery.
            MissingExtraError: It holds VRS files and projectaria-tools is not there.
        """
        found = discover(delivery, options)
        if any(ref.details["vrs"] is not None for ref in found.recordings):
            tools("data_provider")
        return found

    def read(self, ref: RecordingRef, options: VendorOptions) -> Drafts:
        """Read one recording."""
        return read_recording(ref, load(options))

    def settings(self, options: VendorOptions) -> dict[str, Any]:
        """Return the config in use."""
        return asdict(load(options))


VENDOR = Aria()
