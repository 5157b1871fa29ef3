"""Reading one version of a zarr episode. See `EpisodeReader` for the protocol."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from egodata.annotations import Span, decode_span
from egodata.calibration import Calibration, calibration_from_attributes
from egodata.episode import EpisodeMeta, VideoInfo, meta_from_attributes
from egodata.errors import CorruptEpisodeError, FeatureNotFoundError, HandleError, SchemaError, WindowError
from egodata.formats.zarr.chunks import ArrayLayout, Shard, open_shard, read_element, read_file, read_layout
from egodata.names import nearest
from egodata.schema.digests import EpisodeDigests
from egodata.schema.features import camera_key
from egodata.schema.ids import ANNOTATION_PREFIX
from egodata.video import ChunkCache, FrameReader


class ZarrEpisode:
    """One version of an episode, resolved once: a later publish does not change what it reads.

    Not shared between processes or threads. A pickled copy opens lazily where it is used; a handle inherited by fork is refused.
    """

    def __init__(self, group: Path, episode_id: str, *, cache: ChunkCache | None = None) -> None:
        """Make a reader; nothing is read yet.

        Args:
            group: The version's zarr group.
            episode_id: For error messages.
            cache: Elements cached for all readers of a store; None makes one of its own.
        """
        self._group = group
        self._id = episode_id
        self._reset(cache)

    def _reset(self, cache: ChunkCache | None) -> None:
        self._cache = cache
        self._pid = os.getpid()
        self._closed = False
        self._attributes: dict[str, Any] | None = None
        self._meta: EpisodeMeta | None = None
        self._layouts: dict[str, ArrayLayout] = {}
        self._shards: dict[str, Shard] = {}
        self._frames: dict[str, FrameReader] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"group": self._group, "id": self._id, "closed": self._closed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._group, self._id = state["group"], state["id"]
        self._reset(None)
        self._closed = state["closed"]

    def __repr__(self) -> str:
        return f"ZarrEpisode({self._id}, {self._group.parent.name})"

    def _check(self) -> None:
        if self._closed:
            raise HandleError(f"episode {self._id}: reader is closed. Open the episode again.")
        if os.getpid() != self._pid:
            raise HandleError(
                f"episode {self._id}: opened in process {self._pid}, used in {os.getpid()}. Start workers by spawn or forkserver."
            )

    @property
    def group(self) -> Path:
        """Folder of the version's zarr group."""
        return self._group

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes as stored."""
        self._check()
        if self._attributes is None:
            try:
                root = from_json(read_file(f"{self._group}/zarr.json"))  # half of json.loads, and most of what opening an episode costs
                self._attributes = dict(root["attributes"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise CorruptEpisodeError(f"episode {self._id}: its zarr.json cannot be read ({error}). Rebuild the episode.") from error
        return self._attributes

    @property
    def meta(self) -> EpisodeMeta:
        """Attributes; `features` lists numeric arrays and cameras."""
        self._check()
        if self._meta is None:
            try:
                self._meta = meta_from_attributes(self.attributes)
            except (KeyError, TypeError) as error:
                raise CorruptEpisodeError(f"episode {self._id}: attribute {error} is missing or malformed. Rebuild the episode.") from error
        return self._meta

    @property
    def digests(self) -> EpisodeDigests:
        """Content digests as stored."""
        try:
            found = self.attributes["digests"]
            return EpisodeDigests(found["media"], found["annotations"], found["calibration"], found["meta"])
        except (KeyError, TypeError) as error:
            raise CorruptEpisodeError(f"episode {self._id}: attribute digests is missing or malformed. Rebuild the episode.") from error

    @property
    def calibration(self) -> Calibration | None:
        """Calibration, or None where unknown."""
        return calibration_from_attributes(self.attributes)

    @property
    def annotation_keys(self) -> tuple[str, ...]:
        """Keys of texts that are present, empty ones included, sorted."""
        return tuple(name for name in self._span_keys() if name.startswith(ANNOTATION_PREFIX))

    @property
    def structure_keys(self) -> tuple[str, ...]:
        """Keys of structural spans that are present, empty ones included, sorted: arrays that are neither features nor texts."""
        return tuple(name for name in self._span_keys() if not name.startswith(ANNOTATION_PREFIX))

    def _span_keys(self) -> list[str]:
        self._check()
        try:
            with os.scandir(self._group) as entries:
                names = {entry.name for entry in entries if entry.is_dir()}  # a stray file is for `verify` to find
        except FileNotFoundError as error:
            raise CorruptEpisodeError(f"episode {self._id}: version {self._group.parent.name} is gone. Open it again.") from error
        return sorted(names - set(self.meta.features))

    def spans(self, key: str) -> tuple[Span, ...] | None:
        """Return the spans of a key, of texts or structural, in stored order; None if the key is absent."""
        if key not in self._span_keys():
            return None
        where = self._where(key)
        count = self._layout(key).shape[0]
        try:
            return tuple(decode_span(read_element(self._group / key, number, where=where)) for number in range(count))
        except SchemaError as error:
            raise CorruptEpisodeError(f"{where}: {error}") from error

    def rows(self, keys: Sequence[str], ranges: Sequence[tuple[int, int]]) -> dict[str, NDArray[Any]]:
        """Return a copy of the half-open row range of each key, one range per key. See `EpisodeReader.rows`."""
        total = self.meta.total_frames
        out = {}
        for key, (start, end) in zip(keys, ranges, strict=True):
            shard = self._shards.get(key) or self._shard(key)
            if not 0 <= start <= end <= total:
                raise WindowError(f"episode {self._id}: rows [{start}, {end}) of {key} are outside [0, {total}).")
            out[key] = shard.rows(start, end)
        return out

    def _shard(self, key: str) -> Shard:
        """Open a key's shard; its index is kept, since the files of a version never change."""
        meta = self.meta
        if key not in meta.numeric_keys:
            raise FeatureNotFoundError(f"episode {self._id}: no numeric feature {key!r}; {nearest(key, meta.numeric_keys)}")
        shard = open_shard(self._group / key, self._layout(key), where=self._where(key))
        self._shards[key] = shard
        return shard

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return frames (N, H, W, 3) uint8 RGB in the order asked for. See `EpisodeReader.frames`."""
        self._check()
        reader = self._frames.get(camera)
        if reader is None:
            info = self.video_info(camera)
            if self._cache is None:
                self._cache = ChunkCache()
            where = self._where(camera_key(camera))
            reader = FrameReader(info, lambda number: self.video_chunk(camera, number), where=where, cache=self._cache)
            self._frames[camera] = reader
        return reader.frames(indices)

    def video_info(self, camera: str) -> VideoInfo:
        """Return what is stored for a camera."""
        meta = self.meta
        if camera not in meta.cameras:
            raise FeatureNotFoundError(f"episode {self._id}: no camera {camera!r}; {nearest(camera, meta.cameras)}")
        spec = meta.features[camera_key(camera)]
        try:
            return VideoInfo.from_json(spec.video or {}, shape=spec.shape)
        except KeyError as error:
            raise CorruptEpisodeError(f"{self._where(camera_key(camera))}: video block lacks {error}. Rebuild the episode.") from error

    def video_chunk(self, camera: str, index: int) -> bytes:
        """Return one stored mp4 element."""
        info = self.video_info(camera)
        if not 0 <= index < info.chunks:
            raise WindowError(f"{self._where(camera_key(camera))}: element {index} is outside [0, {info.chunks}).")
        key = camera_key(camera)
        return read_element(self._group / key, index, where=self._where(key))

    def close(self) -> None:
        """Let go of cached elements; using the reader again raises HandleError."""
        for reader in self._frames.values():
            reader.close()
        self._frames.clear()
        self._closed = True

    def _where(self, key: str) -> str:
        return f"episode {self._id}: array {key}"

    def _layout(self, key: str) -> ArrayLayout:
        layout = self._layouts.get(key)
        if layout is not None:
            return layout
        where = self._where(key)
        layout = read_layout(self._group / key, where=where)
        spec = self.meta.features.get(key)
        if spec is not None and spec.video is None:
            expected = ArrayLayout((self.meta.total_frames, *spec.shape), np.dtype(spec.dtype), layout.chunk_rows)
            if layout != expected:
                raise CorruptEpisodeError(
                    f"{where}: stored as {layout.dtype} {layout.shape}, features say {expected.dtype} {expected.shape}. Rebuild it."
                )
        self._layouts[key] = layout
        return layout
