"""Scale: human hands as points in the world, beside a scene in SFS. docs/vendors/scale.md has the rules."""

from egodata.vendors.scale.vendor import VENDOR

__all__ = ["VENDOR"]
