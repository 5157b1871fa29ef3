"""Folders of old episodes."""

import json
from pathlib import Path

from egodata.errors import EpisodeNotFoundError
from egodata.formats.zarr.legacy.reader import LegacyEpisode
from egodata.names import nearest
from egodata.schema.ids import sorted_ids

_SUFFIX = ".zarr"


def is_legacy_group(folder: Path) -> bool:
    """Whether a folder is one episode of schema v3: a zarr v3 group with `total_frames`, and not of schema v4."""
    try:
        root = json.loads((folder / "zarr.json").read_bytes())
        attributes = root["attributes"]
        return root["node_type"] == "group" and "total_frames" in attributes and not str(attributes.get("schema_version", "")).startswith("v4")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def legacy_groups(folder: Path) -> dict[str, Path]:
    """Return the old episodes in a folder by id (file stem), or the one that the folder itself is; sorted by id."""
    if is_legacy_group(folder):
        return {folder.name.removesuffix(_SUFFIX): folder}
    if not folder.is_dir():
        return {}
    found = {path.name.removesuffix(_SUFFIX): path for path in folder.glob(f"*{_SUFFIX}") if is_legacy_group(path)}
    return {key: found[key] for key in sorted_ids(found)}


class LegacyStore:
    """All old episodes of a folder, read-only, behind the protocol of `EpisodeStore`."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder; it is listed when it is asked for."""
        self._folder = folder

    def episode_ids(self) -> list[str]:
        """Return the ids, sorted by UTF-8 bytes."""
        return list(legacy_groups(self._folder))

    def open(self, episode_id: str, *, content: str | None = None) -> LegacyEpisode:
        """Open an episode; old stores have one version of each.

        Raises:
            EpisodeNotFoundError: No such episode, or its content is another one.
        """
        groups = legacy_groups(self._folder)
        if episode_id not in groups:
            raise EpisodeNotFoundError(f"episode {episode_id}: not in {self._folder}; {nearest(episode_id, groups)}")
        reader = LegacyEpisode(groups[episode_id], episode_id)
        if content is not None and reader.digests.content != content:
            raise EpisodeNotFoundError(f"episode {episode_id}: no version with content {content[:16]}; old stores have one version.")
        return reader
