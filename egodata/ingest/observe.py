"""Look at a delivery without reading recordings: what is there, and whether it may have changed."""

from collections.abc import Collection
from pathlib import Path

from egodata.errors import InputError
from egodata.ingest.digests import observed_version
from egodata.ingest.sources import get_source
from egodata.schema.ids import EPISODE_ID, check_dataset_name
from egodata.vendors import Discovery, VendorOptions


def vendor_options(
    raw: Path, *, dataset: str | None = None, delivery: str | None = None, config: str | None = None, declare: str | None = None
) -> VendorOptions:
    """Fill in the defaults: dataset and delivery are called like the delivery's folder.

    Raises:
        SchemaError: A name has a character that names cannot have.
        InputError: RAW is not a folder.
    """
    if not raw.is_dir():
        raise InputError(f"raw {raw}: no such folder. Point RAW at a delivery.")
    folder = raw.resolve().name
    return VendorOptions(
        check_dataset_name(dataset or folder, "--dataset (default: the folder's name)"),
        check_dataset_name(delivery or folder, "--delivery (default: the folder's name)"),
        config,
        declare,
    )


def discover(raw: Path, vendor: str, *, dataset: str | None = None, delivery: str | None = None, config: str | None = None) -> Discovery:
    """List a delivery's recordings.

    Args:
        raw: The delivery's folder.
        vendor: Whose layout it is in.
        dataset: Goes into ids where the vendor's are not unique; the folder's name by default.
        delivery: Name of the batch; the folder's name by default.
        config: Vendor config by name or path; the vendor's shipped one by default.

    Raises:
        InputError: Not such a delivery.
        NotFoundError: No such vendor.
    """
    options = vendor_options(raw, dataset=dataset, delivery=delivery, config=config)
    return get_source(vendor).discover(raw.resolve(), options)


def observe(discovery: Discovery, *, only: Collection[str] | None = None) -> dict[str, str]:
    """Return a data version per recording: SHA-256 over sorted (path, size, mtime in ns). Reads no media.

    Args:
        discovery: What `discover` returned.
        only: Recording ids to look at; all by default. Refused recordings are left out, see `observe_refused`.
    """
    wanted = None if only is None else set(only)
    return {ref.id: observed_version(ref) for ref in discovery.recordings if wanted is None or ref.id in wanted}


def observe_refused(discovery: Discovery) -> dict[str, str]:
    """Return the same for what discovery refused, by the id that the vendor gave, where it is one and no recording has it."""
    taken = {ref.id for ref in discovery.recordings}
    named = {item.findings[0].episode: item.ref for item in discovery.refused if item.findings}
    return {name: observed_version(ref) for name, ref in named.items() if name not in taken and EPISODE_ID.fullmatch(name)}
