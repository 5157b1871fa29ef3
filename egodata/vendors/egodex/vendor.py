"""The EgoDex reader behind the vendor protocol."""

from functools import partial
from pathlib import Path

from egodata.vendors.beside import discover_files
from egodata.vendors.configured import ConfiguredVendor
from egodata.vendors.egodex.config import load
from egodata.vendors.egodex.read import read_recording, video_of

NAME = "egodex"


def _companions(path: Path) -> tuple[Path, ...]:
    return (video_of(path),)


VENDOR = ConfiguredVendor(
    NAME,
    version=1,
    unique_ids=False,
    find=partial(discover_files, vendor=NAME, companions=_companions),
    load=load,
    convert=read_recording,
)
"""Human episodes in EgoDex's layout. Its file names are counters, so ids carry vendor, dataset and folder."""
