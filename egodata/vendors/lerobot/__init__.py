"""LeRobot v2.1: one parquet and one mp4 per episode and camera. docs/vendors/lerobot.md has the rules."""

from egodata.vendors.lerobot.vendor import VENDOR

__all__ = ["VENDOR"]
