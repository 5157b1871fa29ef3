"""The Eva reader behind the vendor protocol."""

from functools import partial
from pathlib import Path

from egodata.vendors.beside import discover_files
from egodata.vendors.configured import ConfiguredVendor
from egodata.vendors.eva.config import load
from egodata.vendors.eva.read import read_recording

NAME = "eva"


def _companions(path: Path) -> tuple[Path, ...]:
    return ()


VENDOR = ConfiguredVendor(
    NAME,
    version=1,
    unique_ids=False,
    find=partial(discover_files, vendor=NAME, companions=_companions),
    load=load,
    convert=read_recording,
)
"""Robot episodes in Eva's layout. Its file names are counters, so ids carry vendor, dataset and folder."""
