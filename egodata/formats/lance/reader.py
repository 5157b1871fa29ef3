"""One episode of the Lance copy, behind `EpisodeReader`."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Span
from egodata.calibration import Calibration, calibration_from_attributes
from egodata.episode import EpisodeMeta, VideoInfo, meta_from_attributes
from egodata.errors import CorruptEpisodeError, FeatureNotFoundError, HandleError, WindowError
from egodata.formats.lance.columns import feature_column, from_column
from egodata.formats.lance.recode import recoded
from egodata.formats.lance.tables import ANNOTATIONS, FRAMES, REBUILD
from egodata.names import nearest
from egodata.schema.digests import EpisodeDigests
from egodata.schema.features import camera_key
from egodata.schema.ids import ANNOTATION_PREFIX
from egodata.video import FrameReader

if TYPE_CHECKING:
    from egodata.formats.lance.store import LanceStore


class LanceEpisode:
    """An episode at the table versions of its store. Pickles as store, id and content; opens again where it arrives."""

    def __init__(self, store: "LanceStore", episode_id: str, content: str) -> None:
        """Name the episode; `LanceStore.open` checks that it is there."""
        self._store = store
        self._id = episode_id
        self._content = content
        self._readers: dict[str, FrameReader] = {}
        self._infos: dict[str, VideoInfo] = {}
        self._closed = False

    def __reduce__(self) -> tuple[Any, ...]:
        return LanceEpisode, (self._store, self._id, self._content)

    @cached_property
    def _row(self) -> Mapping[str, Any]:
        self._check_open()
        return self._store.attributes(self._id)

    @cached_property
    def _attributes(self) -> Mapping[str, Any]:
        return json.loads(self._row["attributes"])  # type: ignore[no-any-return]

    @cached_property
    def meta(self) -> EpisodeMeta:
        """Attributes; `features` lists numeric arrays and cameras."""
        try:
            return meta_from_attributes(self._attributes)
        except KeyError as error:
            raise CorruptEpisodeError(f"{self._where}: attribute {error} is missing. {REBUILD}") from error

    @cached_property
    def digests(self) -> EpisodeDigests:
        """Content digests as stored."""
        found = self._attributes["digests"]
        return EpisodeDigests(found["media"], found["annotations"], found["calibration"], found["meta"])

    @cached_property
    def calibration(self) -> Calibration | None:
        """Calibration, or None where unknown."""
        return calibration_from_attributes(self._attributes)

    @property
    def annotation_keys(self) -> tuple[str, ...]:
        """Keys of texts that are present, empty ones included, sorted."""
        return tuple(key for key in self._row["annotation_keys"] if key.startswith(ANNOTATION_PREFIX))

    @property
    def structure_keys(self) -> tuple[str, ...]:
        """Keys of structural spans that are present, empty ones included, sorted."""
        return tuple(key for key in self._row["annotation_keys"] if not key.startswith(ANNOTATION_PREFIX))

    @cached_property
    def _spans(self) -> dict[str, tuple[Span, ...]]:
        start, end = self._store.positions(ANNOTATIONS, self._id)
        columns = ["key", "span_index", "text", "start", "end"]
        found = self._store.scan(ANNOTATIONS, columns, start=start, rows=end - start).to_pylist()
        spans: dict[str, list[Span]] = {key: [] for key in self._row["annotation_keys"]}
        for row in sorted(found, key=lambda row: row["span_index"]):
            if row["key"] not in spans or row["span_index"] != len(spans[row["key"]]):
                raise CorruptEpisodeError(f"{self._where}: span {row['span_index']} of {row['key']} has no place. {REBUILD}")
            spans[row["key"]].append(Span(row["text"], row["start"], row["end"]))
        return {key: tuple(values) for key, values in spans.items()}

    def spans(self, key: str) -> tuple[Span, ...] | None:
        """Return the spans of a key, of texts or structural, in stored order; None if the key is absent."""
        self._check_open()
        return self._spans.get(key)

    def rows(self, keys: Sequence[str], ranges: Sequence[tuple[int, int]]) -> dict[str, NDArray[Any]]:
        """Return a copy of the half-open row range of each key, one range per key. Keys with one range share one scan.

        Raises:
            FeatureNotFoundError: No such key.
            WindowError: A range outside [0, T].
            CorruptEpisodeError: Data is missing, null or cannot be decoded.
        """
        self._check_open()
        total = self.meta.total_frames
        groups: dict[tuple[int, int], list[str]] = {}
        for key, (start, end) in zip(keys, ranges, strict=True):
            if key not in self._columns:
                raise FeatureNotFoundError(f"{self._where}: no feature {key}; {nearest(key, self.meta.numeric_keys)}")
            if not 0 <= start <= end <= total:
                raise WindowError(f"{self._where}: feature {key}: rows [{start}, {end}) are outside [0, {total}].")
            groups.setdefault((start, end), []).append(key)
        found: dict[str, NDArray[Any]] = {}
        for (start, end), names in groups.items():
            found.update(self._scan(names, start, end=end))
        return {key: found[key] for key in keys}

    def _scan(self, keys: Sequence[str], start: int, *, end: int) -> dict[str, NDArray[Any]]:
        first = self._first_row
        columns = {key: self._columns[key] for key in keys}
        table = self._store.scan(FRAMES, sorted(set(columns.values())), start=first + start, rows=end - start)
        if table.num_rows != end - start:
            raise CorruptEpisodeError(f"{self._where}: frames [{start}, {end}) have {table.num_rows} rows. {REBUILD}")
        features = self.meta.features
        return {key: from_column(table[column], features[key], where=f"{self._where}: feature {key}") for key, column in columns.items()}

    @cached_property
    def _columns(self) -> dict[str, str]:
        """Column of every feature, as the build chose them."""
        types = {field.name: field.type for field in self._store.table(FRAMES).schema}
        columns = {key: feature_column(types, key, spec=self.meta.features[key]) for key in self.meta.numeric_keys}
        lacking = [key for key, column in columns.items() if column not in types]
        if lacking:
            raise CorruptEpisodeError(f"{self._where}: feature {lacking[0]} has no column in the frames table. {REBUILD}")
        return columns

    @cached_property
    def _first_row(self) -> int:
        start, end = self._store.positions(FRAMES, self._id)
        if end - start != self.meta.total_frames:
            raise CorruptEpisodeError(f"{self._where}: {end - start} frame rows, expected {self.meta.total_frames}. {REBUILD}")
        return start

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return frames (N, H, W, 3) uint8 RGB in the order asked for; repeats are allowed.

        Raises:
            FeatureNotFoundError: No such camera.
            WindowError: An index outside [0, T).
            CorruptEpisodeError: The element is missing or cannot be decoded.
        """
        self._check_open()
        if camera not in self._readers:
            info = self.video_info(camera)
            self._readers[camera] = FrameReader(
                info, lambda index: self.video_chunk(camera, index), where=f"{self._where}: camera {camera}", cache=self._store.cache
            )
        return self._readers[camera].frames(indices)

    def video_info(self, camera: str) -> VideoInfo:
        """Return what is stored for a camera.

        Raises:
            FeatureNotFoundError: No such camera.
        """
        self._check_open()
        if camera in self._infos:
            return self._infos[camera]
        spec = self.meta.features.get(camera_key(camera))
        if spec is None or spec.video is None:
            raise FeatureNotFoundError(f"{self._where}: no camera {camera}; {nearest(camera, self.meta.cameras)}")
        info = VideoInfo.from_json(spec.video, shape=spec.shape)
        found = self._infos[camera] = recoded(info) if self._store.encoded_again else info
        return found

    def video_chunk(self, camera: str, index: int) -> bytes:
        """Return one stored mp4 element.

        Raises:
            FeatureNotFoundError: No such camera.
            WindowError: No such element.
            CorruptEpisodeError: The element is missing.
        """
        info = self.video_info(camera)
        if not 0 <= index < info.chunks:
            raise WindowError(f"{self._where}: camera {camera}: element {index} is outside [0, {info.chunks}).")
        position = self._store.video_rows(self._id).get((camera, index))
        if position is None:
            raise CorruptEpisodeError(f"{self._where}: camera {camera}: element {index} is missing. {REBUILD}")
        return self._store.blob(position)

    def close(self) -> None:
        """Let go of decoders; using the reader again raises HandleError."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise HandleError(f"{self._where}: reader is closed. Open the episode again.")

    @property
    def _where(self) -> str:
        return f"episode {self._id} (lance)"
