"""The LeRobot reader behind the vendor protocol."""

from egodata.vendors.configured import ConfiguredVendor
from egodata.vendors.lerobot.config import load
from egodata.vendors.lerobot.layout import discover
from egodata.vendors.lerobot.read import read_recording

VENDOR = ConfiguredVendor("lerobot", version=2, unique_ids=False, find=discover, load=load, convert=read_recording)
"""Robot episodes in the LeRobot layouts v2.0, v2.1 and v3.0. Its ids are counters, so ours carry vendor and dataset."""
