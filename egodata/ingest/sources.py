"""What can be ingested: the vendors, and stores of older schemas, which are a storage format and so no vendor's business."""

from importlib import import_module

from egodata.errors import NotFoundError
from egodata.names import nearest
from egodata.vendors import VENDORS, Vendor, get_vendor

STORES = {"zarr_v3": "egodata.ingest.zarr_v3:SOURCE"}
SOURCES = tuple(sorted({*VENDORS, *STORES}))


def get_source(name: str) -> Vendor:
    """Return the reader of a vendor's deliveries or of older stores.

    Raises:
        NotFoundError: No such source; the message lists the nearest names.
    """
    if name not in STORES:
        if name not in VENDORS:
            raise NotFoundError(f"vendor {name!r}: not known, {nearest(name, SOURCES)}")
        return get_vendor(name)
    module, _, attribute = STORES[name].partition(":")
    source: Vendor = getattr(import_module(module), attribute)
    return source
