"""All zarr episodes of a store."""

import os
from pathlib import Path
from typing import Any

from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError
from egodata.formats.zarr import versions as on_disk
from egodata.formats.zarr.reader import ZarrEpisode
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths
from egodata.video import ChunkCache

_SUFFIX = ".zarr"


class ZarrStore:
    """Opens episodes by id, and by content for datasets that recorded it. Readers of one store share one element cache."""

    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths
        self._cache = ChunkCache()
        self._pid = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self._paths}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["paths"])  # type: ignore[misc]

    def episode_ids(self) -> list[str]:
        """Return the published ids, sorted by UTF-8 bytes."""
        try:
            names = os.listdir(self._paths.zarr)
        except FileNotFoundError:
            return []
        return sorted_ids(name[: -len(_SUFFIX)] for name in names if name.endswith(_SUFFIX) and not name.startswith("."))

    def open(self, episode_id: str, *, content: str | None = None) -> ZarrEpisode:
        """Open an episode: its current version, or the newest good build of one content digest.

        Args:
            episode_id: The id.
            content: Content digest, 64 hex digits; found in the versions folder even if the link has moved on.

        Raises:
            EpisodeNotFoundError: No such episode, or no version with that content.
            CorruptEpisodeError: The link points at nothing.
        """
        group = self.find_version(episode_id, content=content).group
        if os.getpid() != self._pid:  # inherited by fork: nothing of the parent's is used
            self._cache, self._pid = ChunkCache(), os.getpid()
        return ZarrEpisode(group, episode_id, cache=self._cache)

    def find_version(self, episode_id: str, *, content: str | None = None) -> on_disk.Version:
        """Return the version that `open` would read."""
        if content is None:
            return on_disk.current_version(self._paths, episode_id)
        found = [version for version in on_disk.list_versions(self._paths, episode_id) if content.startswith(version.prefix)]
        for version in reversed(found):
            if _holds(version, content, sizes=len(found) > 1):
                return version
        known = self._paths.episode_versions(episode_id).is_dir()
        what = f"no version with content {content[:16]}" if known else f"not in {self._paths.zarr}"
        raise EpisodeNotFoundError(f"episode {episode_id}: {what}. Rebuild it from the same delivery, or freeze a new dataset.")


def _holds(version: on_disk.Version, content: str, *, sizes: bool) -> bool:
    """Whether a version records the content; with `sizes`, also whether every file has its recorded size."""
    try:
        integrity = on_disk.read_integrity(version)
    except CorruptEpisodeError:
        return False
    if integrity.content != content:
        return False
    return not sizes or all(_size(version.group / name) == record.size for name, record in integrity.files.items())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1
