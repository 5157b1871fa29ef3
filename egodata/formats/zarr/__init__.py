"""Zarr episodes: published in versions, read without the zarr array API. The only user of zarr, and only for writing.

Readers do not load zarr (0.4 s per worker process): what writes is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from egodata.formats.zarr.reader import ZarrEpisode
from egodata.formats.zarr.store import ZarrStore
from egodata.formats.zarr.verify import verify_episode
from egodata.formats.zarr.versions import clean_leftovers

if TYPE_CHECKING:
    from egodata.formats.zarr.attach import attach_annotations, attach_calibration
    from egodata.formats.zarr.publish import publish_draft

__all__ = [
    "ZarrEpisode",
    "ZarrStore",
    "attach_annotations",
    "attach_calibration",
    "clean_leftovers",
    "publish_draft",
    "verify_episode",
]

_WRITERS = {"attach_annotations": "attach", "attach_calibration": "attach", "publish_draft": "publish"}


def __getattr__(name: str) -> Any:
    if name not in _WRITERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WRITERS[name]}"), name)
