"""The Scale reader behind the vendor protocol."""

from egodata.vendors.configured import ConfiguredVendor
from egodata.vendors.scale.config import load
from egodata.vendors.scale.discover import discover
from egodata.vendors.scale.read import read_recording

VENDOR = ConfiguredVendor("scale", version=1, unique_ids=True, find=discover, load=load, convert=read_recording)
"""Human episodes in Scale's layout. Task ids are unique; a recording gives one episode per piece."""
