"""The Aria reader behind the vendor protocol."""

from pathlib import Path

from egodata.vendors.aria.config import load
from egodata.vendors.aria.layout import discover
from egodata.vendors.aria.read import read_recording
from egodata.vendors.aria.vrs import tools
from egodata.vendors.base import Discovery, VendorOptions
from egodata.vendors.configured import ConfiguredVendor


def _find(delivery: Path, options: VendorOptions) -> Discovery:
    """List the delivery's recordings.

    Raises:
        InputError: The folder is not such a delivery.
        MissingExtraError: It holds VRS files and projectaria-tools is not there.
    """
    found = discover(delivery, options)
    if any(ref.details["vrs"] is not None for ref in found.recordings):
        tools("data_provider")
    return found


VENDOR = ConfiguredVendor("aria", version=1, unique_ids=False, find=_find, load=load, convert=read_recording)
"""Project Aria recordings, Gen1 and Gen2. File names are anybody's, so ids carry vendor, dataset and path."""
