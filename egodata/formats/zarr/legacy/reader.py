"""Reading an episode of schema v3.0 or v3.1, through zarr itself, since its arrays may be laid out and compressed in any way.

Numbers come back as they are stored: zeros or 1e9 for what is missing, no masks. `convert.py` makes masks of them.
"""

import os
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from egodata.annotations import Span, decode_span
from egodata.calibration import Calibration
from egodata.episode import EpisodeMeta, VideoInfo, computed_digests, semantic_attributes
from egodata.errors import CorruptEpisodeError, EgodataError, FeatureNotFoundError, HandleError, SchemaError, WindowError
from egodata.formats.zarr.legacy.attributes import frame_rate, legacy_calibration, legacy_meta, total_frames
from egodata.formats.zarr.legacy.camera import LegacyCamera, find_camera
from egodata.names import nearest
from egodata.schema.digests import EpisodeDigests
from egodata.schema.features import IMAGES, TIMESTAMPS, FeatureSpec, camera_key
from egodata.schema.ids import ANNOTATION_PREFIX
from egodata.video import ChunkCache, FrameReader, JpegReader

_UNREADABLE = (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError)
"""What zarr and its codecs raise on damaged metadata and chunks."""

_MALFORMED = (ValueError, TypeError, AttributeError, LookupError, OverflowError)
"""What reading attributes of the wrong JSON type raises."""


class LegacyEpisode:
    """One old episode behind the protocol of `EpisodeReader`. Read-only; for one process, a pickled copy opens again where it is used."""

    def __init__(self, group: Path, episode_id: str, *, cache: ChunkCache | None = None) -> None:
        """Make a reader; nothing is read yet.

        Args:
            group: The zarr group.
            episode_id: Used where the attributes have no id.
            cache: Elements cached for all readers of a store; None makes one of its own.
        """
        self._path = group
        self._id = episode_id
        self._reset(cache)

    def _reset(self, cache: ChunkCache | None) -> None:
        self._cache = cache
        self._pid = os.getpid()
        self._closed = False
        self._arrays: dict[str, Any] | None = None
        self._attributes: dict[str, Any] = {}
        self._cameras: dict[str, LegacyCamera] = {}
        self._meta: EpisodeMeta | None = None
        self._readers: dict[str, FrameReader | JpegReader] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self._path, "id": self._id, "closed": self._closed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._path, self._id = state["path"], state["id"]
        self._reset(None)
        self._closed = state["closed"]

    def __repr__(self) -> str:
        return f"LegacyEpisode({self._id}, {self._path})"

    def _open(self) -> dict[str, Any]:
        if self._closed:
            raise HandleError(f"episode {self._id}: reader is closed. Open the episode again.")
        if os.getpid() != self._pid:
            raise HandleError(
                f"episode {self._id}: opened in process {self._pid}, used in {os.getpid()}. Start workers by spawn or forkserver."
            )
        if self._arrays is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # zarr warns of data types without a v3 specification at every listing
                    group = zarr.open_group(str(self._path), mode="r", use_consolidated=False)
                    self._attributes, self._arrays = dict(group.attrs), dict(group.arrays())
            except _UNREADABLE as error:
                raise CorruptEpisodeError(f"episode {self._id}: not a readable zarr group ({error}).") from error
        return self._arrays

    @property
    def group(self) -> Path:
        """Folder of the zarr group."""
        return self._path

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes as stored."""
        self._open()
        return self._attributes

    @property
    def meta(self) -> EpisodeMeta:
        """Attributes in the terms of v4; `features` says what the arrays hold, whatever was declared."""
        arrays = self._open()
        if self._meta is None:
            try:
                first = self._first_stamp_ns(arrays)
                self._meta = legacy_meta(self._attributes, self._features(arrays), episode_id=self._id, first_stamp_ns=first)
            except SchemaError as error:
                raise CorruptEpisodeError(f"episode {self._id}: {error}") from error
            except _MALFORMED as error:
                raise CorruptEpisodeError(f"episode {self._id}: an attribute has another form than in schema v3 ({error}).") from error
        return self._meta

    def _first_stamp_ns(self, arrays: dict[str, Any]) -> int | None:
        stamps = arrays.get(TIMESTAMPS)
        try:
            return None if stamps is None or stamps.shape[0] == 0 else int(stamps[0])
        except _UNREADABLE as error:
            raise CorruptEpisodeError(f"{self._where(TIMESTAMPS)}: row 0 cannot be read ({error}).") from error

    def _features(self, arrays: dict[str, Any]) -> dict[str, FeatureSpec]:
        declared, total = dict(self._attributes.get("features") or {}), total_frames(self._attributes)
        out = {}
        for key, array in sorted(arrays.items()):
            spec = dict(declared.get(key) or {})
            if key.startswith(IMAGES) and array.dtype.kind not in "fiub":
                where = self._where(key)
                fps = frame_rate(self._attributes.get("fps"))
                camera = find_camera(spec, partial(self._element, key), slots=array.shape[0], total=total, fps=fps, where=where)
                self._cameras[key] = camera
                shape = (camera.info.height, camera.info.width, 3)
                out[key] = FeatureSpec(camera.codec, shape, ("height", "width", "channel"), video=camera.info.to_json())
            elif array.dtype.kind in "fiub":
                if array.shape[0] < total:
                    raise CorruptEpisodeError(f"{self._where(key)}: {array.shape[0]} rows, total_frames is {total}.")
                names = tuple(str(name) for name in spec.get("names") or ())
                out[key] = FeatureSpec(array.dtype.name, tuple(array.shape[1:]), names, str(spec.get("unit") or ""))
        return out

    def camera(self, name: str) -> LegacyCamera:
        """Return what a camera holds.

        Raises:
            FeatureNotFoundError: No such camera.
        """
        meta = self.meta
        if name not in meta.cameras:
            raise FeatureNotFoundError(f"episode {self._id}: no camera {name!r}; {nearest(name, meta.cameras)}")
        return self._cameras[camera_key(name)]

    @property
    def digests(self) -> EpisodeDigests:
        """Content digests, computed from all that the episode holds: old stores keep none."""
        return computed_digests(self, semantic_attributes(self.meta, self.calibration))

    @property
    def calibration(self) -> Calibration | None:
        """Calibration, or None where unknown."""
        try:
            return legacy_calibration(self.attributes, self.meta.features)
        except SchemaError as error:
            raise CorruptEpisodeError(f"episode {self._id}: {error}") from error
        except _MALFORMED as error:
            raise CorruptEpisodeError(f"episode {self._id}: its calibration has another form than in schema v3 ({error}).") from error

    @property
    def annotation_keys(self) -> tuple[str, ...]:
        """Keys of texts that are present, empty ones included, sorted."""
        return tuple(sorted(key for key in self._open() if key.startswith(ANNOTATION_PREFIX)))

    @property
    def structure_keys(self) -> tuple[str, ...]:
        """Keys of elements that are neither texts nor images, sorted: structural spans, if they can be read as spans."""
        found = {key for key, array in self._open().items() if array.dtype.kind not in "fiub" and not key.startswith(IMAGES)}
        return tuple(sorted(found - set(self.annotation_keys)))

    def texts(self, key: str) -> list[bytes]:
        """Return the elements of an array of texts."""
        return [self._element(key, number) for number in range(self._open()[key].shape[0])]

    def spans(self, key: str) -> tuple[Span, ...] | None:
        """Return the spans of a key in stored order; None if the key is absent. Empty padding is left out."""
        structural = key in self.structure_keys
        if not structural and key not in self.annotation_keys:
            return None
        try:
            return tuple(decode_span(data, text_optional=structural) for data in self.texts(key) if data)
        except SchemaError as error:
            raise CorruptEpisodeError(f"{self._where(key)}: {error}") from error

    def rows(self, keys: Sequence[str], ranges: Sequence[tuple[int, int]]) -> dict[str, NDArray[Any]]:
        """Return a copy of the half-open row range of each key, one range per key. See `EpisodeReader.rows`."""
        meta, arrays = self.meta, self._open()
        out = {}
        for key, (start, end) in zip(keys, ranges, strict=True):
            if key not in meta.numeric_keys:
                raise FeatureNotFoundError(f"episode {self._id}: no numeric feature {key!r}; {nearest(key, meta.numeric_keys)}")
            if not 0 <= start <= end <= meta.total_frames:
                raise WindowError(f"episode {self._id}: rows [{start}, {end}) of {key} are outside [0, {meta.total_frames}).")
            try:
                out[key] = np.array(arrays[key][start:end])
            except _UNREADABLE as error:
                raise CorruptEpisodeError(f"{self._where(key)}: rows [{start}, {end}) cannot be read ({error}).") from error
        return out

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return frames (N, H, W, 3) uint8 RGB in the order asked for. See `EpisodeReader.frames`."""
        self._open()
        reader = self._readers.get(camera)
        if reader is None:
            key = camera_key(camera)
            reader = self.camera(camera).open(partial(self._element, key), where=self._where(key), cache=self._cache)
            self._readers[camera] = reader
        return reader.frames(indices)

    def video_info(self, camera: str) -> VideoInfo:
        """Return what is stored for a camera."""
        return self.camera(camera).info

    def video_chunk(self, camera: str, index: int) -> bytes:
        """Return one stored element: an mp4, or the JPEG of a frame."""
        info = self.video_info(camera)
        if not 0 <= index < info.chunks:
            raise WindowError(f"{self._where(camera_key(camera))}: element {index} is outside [0, {info.chunks}).")
        return self._element(camera_key(camera), index)

    def close(self) -> None:
        """Let go of cached elements; using the reader again raises HandleError."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._arrays, self._closed = None, True

    def _where(self, key: str) -> str:
        return f"episode {self._id}: array {key}"

    def _require_count(self, key: str, number: int) -> None:
        """Check the count at the head of a plain chunk of texts: for a damaged one zarr's codec would take gigabytes."""
        array = self._open()[key]
        path = self._path / key / "c" / str(number // array.chunks[0])
        plain = [type(codec).__name__.startswith("VLen") for codec in array.metadata.codecs] == [True]
        if not plain or array.ndim != 1 or not path.is_file():
            return
        with path.open("rb") as file:
            count = int.from_bytes(file.read(4), "little")
        if count != array.chunks[0]:
            raise CorruptEpisodeError(f"{self._where(key)}: element {number} says it holds {count} items, expected {array.chunks[0]}.")

    def _element(self, key: str, number: int) -> bytes:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._require_count(key, number)
                found = np.asarray(self._open()[key][number : number + 1], object).reshape(-1)[0]
        except EgodataError:
            raise
        except _UNREADABLE as error:
            raise CorruptEpisodeError(f"{self._where(key)}: element {number} cannot be read ({error}).") from error
        if not isinstance(found, (str, bytes, bytearray, memoryview, np.ndarray)):
            raise CorruptEpisodeError(f"{self._where(key)}: element {number} is a {type(found).__name__}, expected text or bytes.")
        return found.encode() if isinstance(found, str) else bytes(found)
