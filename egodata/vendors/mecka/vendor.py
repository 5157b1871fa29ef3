"""The Mecka reader behind the vendor protocol."""

from egodata.vendors.configured import ConfiguredVendor
from egodata.vendors.mecka.config import load
from egodata.vendors.mecka.discover import discover
from egodata.vendors.mecka.read import read_recording

VENDOR = ConfiguredVendor("mecka", version=2, unique_ids=True, find=discover, load=load, convert=read_recording)
"""Human episodes in Mecka's layout. Its ids are unique and are used as they are."""
