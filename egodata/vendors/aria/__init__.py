"""Project Aria: VRS recordings and MPS output. docs/vendors/aria.md has the rules."""

from egodata.vendors.aria.vendor import VENDOR

__all__ = ["VENDOR"]
