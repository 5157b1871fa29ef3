"""The LeRobot reader behind the vendor protocol."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egodata.vendors.base import Discovery, Drafts, RecordingRef, VendorOptions
from egodata.vendors.lerobot.config import load
from egodata.vendors.lerobot.layout import discover
from egodata.vendors.lerobot.read import read_recording


@dataclass(frozen=True, slots=True)
class LeRobot:
    """Robot episodes in the LeRobot layouts v2.0, v2.1 and v3.0. Its ids are counters, so ours carry vendor and dataset."""

    name: str = "lerobot"
    version: int = 2
    unique_ids: bool = False

    def discover(self, delivery: Path, options: VendorOptions) -> Discovery:
        """List the delivery's episodes; those listed but not delivered are absent."""
        return discover(delivery, options)

    def read(self, ref: RecordingRef, options: VendorOptions) -> Drafts:
        """Read one episode."""
        return read_recording(ref, load(options))

    def settings(self, options: VendorOptions) -> dict[str, Any]:
        """Return the config in use."""
        return asdict(load(options))


VENDOR = LeRobot()
