"""The Eva reader behind the vendor protocol."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egodata.vendors.base import Discovery, Drafts, RecordingRef, VendorOptions
from egodata.vendors.beside import discover_files
from egodata.vendors.eva.config import load
from egodata.vendors.eva.read import read_recording
from egodata.vendors.extras import require


def _alone(path: Path) -> tuple[Path, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Eva:
    """Robot episodes in Eva's layout. Its file names are counters, so ids carry vendor, dataset and folder."""

    name: str = "eva"
    version: int = 1
    unique_ids: bool = False

    def discover(self, delivery: Path, options: VendorOptions) -> Discovery:
        """List the delivery's recordings.

        Raises:
            InputError: The folder is not such a delivery.
            MissingExtraError: h5py is not installed.
        """
        require("h5py", extra="hdf5", vendor=self.name)
        return discover_files(delivery, options, vendor=self.name, companions=_alone)

    def read(self, ref: RecordingRef, options: VendorOptions) -> Drafts:
        """Read one recording."""
        return read_recording(ref, load(options))

    def settings(self, options: VendorOptions) -> dict[str, Any]:
        """Return the config in use."""
        return asdict(load(options))


VENDOR = Eva()
