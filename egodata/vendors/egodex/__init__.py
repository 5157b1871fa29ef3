"""EgoDex: joint transforms in HDF5 beside a video. docs/vendors/egodex.md has the rules."""

from egodata.vendors.egodex.vendor import VENDOR

__all__ = ["VENDOR"]
