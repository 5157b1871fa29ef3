"""Vendors: raw deliveries in, episode drafts out. No storage format is known here."""

from egodata.vendors.base import (
    PARTS,
    Discovery,
    Drafts,
    RecordingRef,
    Refused,
    SetAside,
    Vendor,
    VendorOptions,
)
from egodata.vendors.registry import VENDORS, get_vendor

__all__ = [
    "PARTS",
    "VENDORS",
    "Discovery",
    "Drafts",
    "RecordingRef",
    "Refused",
    "SetAside",
    "Vendor",
    "VendorOptions",
    "get_vendor",
]
