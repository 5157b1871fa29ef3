"""All episodes of the Lance copy, at table versions that belong together and do not move under the reader."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import lance
import pyarrow as pa

from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError, HandleError, NotFoundError
from egodata.formats.lance.positions import episode_rows
from egodata.formats.lance.reader import LanceEpisode
from egodata.formats.lance.tables import CODEC_COLUMN, EPISODES, REBUILD, VIDEO_COLUMN, VIDEOS, Tables, committed_versions, open_tables, reading, table_versions
from egodata.names import nearest
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths
from egodata.video import ChunkCache

_BLOBS_AT_ONCE = 64


class LanceStore:
    """The Lance copy of a store at pinned versions.

    Handles belong to the process that opened them: a pickled copy opens its own, a forked one raises HandleError.
    """

    def __init__(self, paths: StorePaths, *, versions: Mapping[str, int] | None = None) -> None:
        """Pin the versions; tables are opened when first needed.

        Args:
            paths: The store.
            versions: Version by table name, all four; by default those that the newest `episodes` commit names.

        Raises:
            NotFoundError: The store has no Lance copy.
        """
        self._paths = paths
        self._versions = dict(table_versions(paths) if versions is None else versions)
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._tables: Tables | None = None
        self._rows: dict[str, dict[str, Any]] | None = None
        self._positions: dict[str, Mapping[str, tuple[int, int]]] = {}
        self._video_rows: dict[str, dict[tuple[str, int], int]] | None = None
        self._encoded_again: bool | None = None
        self._blobs: dict[int, lance.BlobFile] = {}
        self._other_stores: list[LanceStore] | None = None
        self._cache = ChunkCache()

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self._paths, "versions": self._versions}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._paths, self._versions = state["paths"], state["versions"]
        self._forget()

    @property
    def versions(self) -> dict[str, int]:
        """Pinned version by table name."""
        return dict(self._versions)

    @property
    def cache(self) -> ChunkCache:
        """Video elements kept for all episodes of this store."""
        return self._cache

    def episode_ids(self) -> list[str]:
        """Return the ids at the pinned versions, sorted by UTF-8 bytes."""
        return sorted_ids(self._episodes())

    def open(self, episode_id: str, *, content: str | None = None) -> LanceEpisode:
        """Open an episode, at the pinned versions where they hold it, else at the newest live ones that hold that content.

        Args:
            episode_id: The episode.
            content: Content digest that it must have; None takes what the pinned versions have.

        Raises:
            EpisodeNotFoundError: No such episode, or no live version of it with that content.
            NotFoundError: The pinned versions are gone and no content was asked for.
        """
        row = self._pinned_row(episode_id, required=content is None)
        if row is not None and content in (None, row["content"]):
            return LanceEpisode(self, episode_id, row["content"])
        where = f"store {self._paths.root}: Lance copy at episodes version {self._versions[EPISODES]}"
        if content is None:
            raise EpisodeNotFoundError(f"{where}: no episode {episode_id}; {nearest(episode_id, self._episodes())}")
        for other in self._others():
            found = other._episodes().get(episode_id)
            if found is not None and found["content"] == content:
                return LanceEpisode(other, episode_id, content)
        got = "no such episode" if row is None else f"content {row['content'][:12]}"
        raise EpisodeNotFoundError(
            f"{where}: episode {episode_id}: expected content {content[:12]}, got {got}, and no other live version holds it. "
            "Build the Lance copy while the zarr episode has that content."
        )

    def _pinned_row(self, episode_id: str, *, required: bool) -> dict[str, Any] | None:
        try:
            return self._episodes().get(episode_id)
        except NotFoundError:
            if required:
                raise
            return None

    def _others(self) -> list["LanceStore"]:
        """Return the other version sets that `episodes` commits name, newest first."""
        if self._other_stores is None:
            sets = [versions for versions in committed_versions(self._paths) if versions != self._versions]
            self._other_stores = [LanceStore(self._paths, versions=versions) for versions in sets]
        return self._other_stores

    def table(self, name: str) -> lance.LanceDataset:
        """Return the handle of one table.

        Raises:
            HandleError: Another process opened it.
            NotFoundError: The pinned version is gone.
        """
        if self._pid != os.getpid():
            raise HandleError(
                f"store {self._paths.root}: Lance tables were opened in process {self._pid} and used in its fork {os.getpid()}. "
                "Start workers by spawn or forkserver."
            )
        if self._tables is None:
            self._tables = open_tables(self._paths, self._versions)
        return self._tables.handles[name]

    def attributes(self, episode_id: str) -> dict[str, Any]:
        """Return the row of one episode in the table `episodes`."""
        return self._episodes()[episode_id]

    def _episodes(self) -> dict[str, dict[str, Any]]:
        handle = self.table(EPISODES)
        if self._rows is None:
            columns = ["episode_id", "content", "n_frames", "annotation_keys", "attributes"]
            with reading(handle):
                self._rows = {row["episode_id"]: row for row in handle.to_table(columns=columns).to_pylist()}
        return self._rows

    def positions(self, table: str, episode_id: str) -> tuple[int, int]:
        """Return the half-open range of an episode's row positions in a table; empty if it has none there."""
        handle = self.table(table)
        if table not in self._positions:
            self._positions[table] = episode_rows(handle)
        return self._positions[table].get(episode_id, (0, 0))

    def scan(self, table: str, columns: Sequence[str], *, start: int, rows: int) -> pa.Table:
        """Return consecutive rows of a table.

        Raises:
            CorruptEpisodeError: Data of the table is missing or cannot be decoded.
        """
        handle = self.table(table)
        if rows == 0:
            return handle.schema.empty_table().select(list(columns))
        with reading(handle):
            return handle.to_table(columns=list(columns), offset=start, limit=rows)

    @property
    def encoded_again(self) -> bool:
        """Whether the video of this copy was encoded again for size."""
        if self._encoded_again is None:
            self._encoded_again = CODEC_COLUMN in self.table(VIDEOS).schema.names
        return self._encoded_again

    def video_rows(self, episode_id: str) -> Mapping[tuple[str, int], int]:
        """Return the row position of an episode's video elements, by camera and chunk number; one scan serves all episodes."""
        handle = self.table(VIDEOS)
        if self._video_rows is None:
            with reading(handle):
                found = handle.to_table(columns=["episode_id", "camera", "chunk_index"])
            self._video_rows = {}
            keys = (found[name].to_pylist() for name in ("episode_id", "camera", "chunk_index"))
            for position, (name, camera, chunk) in enumerate(zip(*keys, strict=True)):
                self._video_rows.setdefault(name, {})[camera, chunk] = position
        return self._video_rows.get(episode_id, {})

    def blob(self, position: int) -> bytes:
        """Return the video of one row of the table `videos`.

        Handles are taken in blocks: taking one costs half a millisecond, reading through it a twentieth.

        Raises:
            CorruptEpisodeError: It is missing or null.
        """
        handle = self.table(VIDEOS)
        with reading(handle):
            if position not in self._blobs:
                start = position - position % _BLOBS_AT_ONCE
                block = list(range(start, min(start + _BLOBS_AT_ONCE, handle.count_rows())))
                found = handle.take_blobs(VIDEO_COLUMN, indices=block)
                self._blobs.update({at: one for at, one in zip(block, found, strict=True) if one is not None})
            if position not in self._blobs:
                raise CorruptEpisodeError(f"store {self._paths.root}: Lance table videos: row {position} is null. {REBUILD}")
            blob = self._blobs[position]
            blob.seek(0)
            return bytes(blob.read())
