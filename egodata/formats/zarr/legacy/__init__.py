"""Stores of schema v3.0 and v3.1: read-only, and turned into drafts of v4 episodes."""

from egodata.formats.zarr.legacy.convert import legacy_draft, needs_declaration
from egodata.formats.zarr.legacy.reader import LegacyEpisode
from egodata.formats.zarr.legacy.store import LegacyStore, is_legacy_group, legacy_groups

__all__ = ["LegacyEpisode", "LegacyStore", "is_legacy_group", "legacy_draft", "legacy_groups", "needs_declaration"]
