"""Zarr episodes: published in versions, read without the zarr array API. The only user of zarr."""

from egodata.formats.zarr.attach import attach_annotations, attach_calibration
from egodata.formats.zarr.publish import publish_draft
from egodata.formats.zarr.reader import ZarrEpisode
from egodata.formats.zarr.store import ZarrStore
from egodata.formats.zarr.verify import verify_episode
from egodata.formats.zarr.versions import clean_leftovers

__all__ = [
    "ZarrEpisode",
    "ZarrStore",
    "attach_annotations",
    "attach_calibration",
    "clean_leftovers",
    "publish_draft",
    "verify_episode",
]
