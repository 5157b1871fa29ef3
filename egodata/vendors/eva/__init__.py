"""Eva: a robot with two arms, in HDF5. docs/vendors/eva.md has the rules."""

from egodata.vendors.eva.vendor import VENDOR

__all__ = ["VENDOR"]
