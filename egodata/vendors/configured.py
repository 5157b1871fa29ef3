"""A vendor made of three functions: one finds recordings, one loads the vendor's config, one reads a recording under it."""

from collections.abc import Callable
from dataclasses import Field, asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from egodata.vendors.base import Discovery, Drafts, RecordingRef, VendorOptions


class _IsDataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Config = TypeVar("Config", bound=_IsDataclass)


@dataclass(frozen=True, slots=True)
class ConfiguredVendor(Generic[Config]):
    """See `egodata.vendors.Vendor`.

    Attributes:
        name: As in `--vendor`.
        version: Of the converter; a new one makes old episodes be built again.
        unique_ids: Whether the vendor's recording ids are unique everywhere.
        find: Lists the recordings of a delivery.
        load: Loads the config that a delivery uses.
        convert: Reads one recording.
    """

    name: str
    version: int
    unique_ids: bool
    find: Callable[[Path, VendorOptions], Discovery]
    load: Callable[[VendorOptions], Config]
    convert: Callable[[RecordingRef, Config], Drafts]

    def discover(self, delivery: Path, options: VendorOptions) -> Discovery:
        """List a delivery's recordings; raises what the vendor's own function says."""
        return self.find(delivery, options)

    def read(self, ref: RecordingRef, options: VendorOptions) -> Drafts:
        """Read one recording; raises what the vendor's own function says."""
        return self.convert(ref, self.load(options))

    def settings(self, options: VendorOptions) -> dict[str, Any]:
        """Return the config in use as plain values."""
        return asdict(self.load(options))
