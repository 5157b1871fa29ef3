"""LeRobot v2.1 (files per episode) and v3.0 (episodes share files). docs/vendors/lerobot.md has the rules."""

from egodata.vendors.lerobot.vendor import VENDOR

__all__ = ["VENDOR"]
