"""Vendors by name, loaded when asked for."""

from importlib import import_module

from egodata.errors import NotFoundError
from egodata.names import nearest
from egodata.vendors.base import Vendor

VENDORS = {
    "aria": "egodata.vendors.aria:VENDOR",
    "egodex": "egodata.vendors.egodex:VENDOR",
    "eva": "egodata.vendors.eva:VENDOR",
    "lerobot": "egodata.vendors.lerobot:VENDOR",
    "mecka": "egodata.vendors.mecka:VENDOR",
    "scale": "egodata.vendors.scale:VENDOR",
}


def get_vendor(name: str) -> Vendor:
    """Return a vendor's reader.

    Raises:
        NotFoundError: No such vendor; the message lists the nearest names.
    """
    if name not in VENDORS:
        raise NotFoundError(f"vendor {name!r}: not known, {nearest(name, VENDORS)}")
    module, _, attribute = VENDORS[name].partition(":")
    vendor: Vendor = getattr(import_module(module), attribute)
    return vendor
