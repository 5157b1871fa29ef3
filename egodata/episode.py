"""The episode: what a vendor gives, what a store keeps, and how it is read.

A *draft* is an episode before storage: numbers in memory, video still in the vendor's files.
An `EpisodeReader` is an episode in a store, the same on every format.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Annotations, Span, encode_span
from egodata.calibration import Calibration, CameraCalibration, calibration_attributes
from egodata.findings import Finding
from egodata.schema.canonical import jsonable
from egodata.schema.digests import EpisodeDigests, array_digest, calibration_digest, combined_digest, elements_digest, meta_digest
from egodata.schema.features import IMAGES, FeatureSpec, camera_key, is_camera
from egodata.schema.layout import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Clip:
    """Half-open frame range of a recording.

    Attributes:
        index: Position among the recording's clips.
        start: First frame in the recording.
        end: Frame after the last one.
        aliased: Whether the vendor or a registry gave this clip its episode id.
    """

    index: int
    start: int
    end: int
    aliased: bool


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """A stored H.264 camera stream.

    Attributes:
        width: Pixels.
        height: Pixels.
        frames: Frames in all.
        frames_per_chunk: Frames per stored element; the last one is shorter.
        fps: Frames per second as a fraction.
        settings: Every encoder setting, as recorded in the episode.
    """

    width: int
    height: int
    frames: int
    frames_per_chunk: int
    fps: Fraction
    settings: Mapping[str, Any]

    @property
    def chunks(self) -> int:
        """Number of stored elements."""
        return -(-self.frames // self.frames_per_chunk)

    def to_json(self) -> dict[str, Any]:
        """Return the `video` block of a feature; the settings are flattened into it, as older readers expect."""
        return {
            **self.settings,
            "fps": float(self.fps),
            "fps_num": self.fps.numerator,
            "fps_den": self.fps.denominator,
            "frames_per_chunk": self.frames_per_chunk,
            "total_frames": self.frames,
            "n_chunks": self.chunks,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, shape: Sequence[int]) -> "VideoInfo":
        """Read the `video` block of a feature.

        Args:
            value: As `to_json` returns it.
            shape: The feature's (H, W, 3).

        Raises:
            KeyError: A required entry is missing; the caller names the episode.
        """
        own = ("fps", "fps_num", "fps_den", "frames_per_chunk", "total_frames", "n_chunks")
        settings = {key: item for key, item in value.items() if key not in own}
        fps = Fraction(value["fps_num"], value["fps_den"])
        return cls(shape[1], shape[0], value["total_frames"], value["frames_per_chunk"], fps, settings)


@dataclass(frozen=True, slots=True)
class EpisodeMeta:
    """Everything about an episode that is not an array, a span or a calibration. Times in the names' units.

    Attributes:
        clock: ``unix``, ``frame0`` or ``device``: what the time stamps count from.
        reference_camera: Camera whose frames are the episode's frames.
        operator: The vendor's user id verbatim, or None.
        session: Collection session, or None.
        hand_frame_convention: For hands; None for robots.
        provenance: Raw URI and digests, what was dropped and counted. Not part of the content digest.
        processing: Converter, version, settings. Not part of the content digest.
        extra: Further semantic attributes, such as ``scene_desc``; part of the meta digest.
    """

    episode_id: str
    recording_id: str
    clip: Clip
    vendor: str
    dataset: str
    delivery: str
    operator: str | None
    session: str | None
    embodiment: str
    task_name: str
    task_description: str
    total_frames: int
    fps: Fraction
    clock: str
    reference_camera: str
    hand_frame_convention: str | None
    features: Mapping[str, FeatureSpec]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    processing: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    schema_version: str = SCHEMA_VERSION

    @property
    def cameras(self) -> tuple[str, ...]:
        """Camera names, sorted."""
        return tuple(sorted(key.removeprefix(IMAGES) for key, spec in self.features.items() if is_camera(key, spec)))

    @property
    def numeric_keys(self) -> tuple[str, ...]:
        """Keys of all numeric arrays, masks and stamps included, sorted."""
        return tuple(sorted(key for key, spec in self.features.items() if not is_camera(key, spec)))


def meta_attributes(meta: EpisodeMeta) -> dict[str, Any]:
    """Return the attributes of a v4 episode but `calibration`, `intrinsics` and `digests`."""
    return {
        **jsonable(dict(meta.extra)),
        "schema_version": meta.schema_version,
        "episode_id": meta.episode_id,
        "recording_id": meta.recording_id,
        "clip": {"index": meta.clip.index, "start": meta.clip.start, "end": meta.clip.end, "aliased": meta.clip.aliased},
        "vendor": meta.vendor,
        "dataset": meta.dataset,
        "delivery": meta.delivery,
        "operator": meta.operator,
        "session": meta.session,
        "embodiment": meta.embodiment,
        "task_name": meta.task_name,
        "task_description": meta.task_description,
        "total_frames": meta.total_frames,
        "fps": float(meta.fps),
        "fps_num": meta.fps.numerator,
        "fps_den": meta.fps.denominator,
        "clock": meta.clock,
        "reference_camera": meta.reference_camera,
        "hand_frame_convention": meta.hand_frame_convention,
        "data_status": "train_ready",
        "features": {key: jsonable(spec.to_json()) for key, spec in sorted(meta.features.items())},
        "provenance": jsonable(dict(meta.provenance)),
        "processing": jsonable(dict(meta.processing)),
    }


_META_FIELDS = frozenset(
    "schema_version episode_id recording_id clip vendor dataset delivery operator session embodiment task_name "
    "task_description total_frames fps fps_num fps_den clock reference_camera hand_frame_convention data_status features "
    "provenance processing digests calibration intrinsics extrinsics".split()
)


def meta_from_attributes(attributes: Mapping[str, Any]) -> EpisodeMeta:
    """Read the attributes of a v4 episode; unknown ones go to `extra`.

    Raises:
        KeyError: A required attribute is missing; the caller names the episode.
    """
    clip = attributes["clip"]
    return EpisodeMeta(
        episode_id=attributes["episode_id"],
        recording_id=attributes["recording_id"],
        clip=Clip(clip["index"], clip["start"], clip["end"], clip["aliased"]),
        vendor=attributes["vendor"],
        dataset=attributes["dataset"],
        delivery=attributes["delivery"],
        operator=attributes["operator"],
        session=attributes["session"],
        embodiment=attributes["embodiment"],
        task_name=attributes["task_name"],
        task_description=attributes["task_description"],
        total_frames=attributes["total_frames"],
        fps=Fraction(attributes["fps_num"], attributes["fps_den"]),
        clock=attributes["clock"],
        reference_camera=attributes["reference_camera"],
        hand_frame_convention=attributes["hand_frame_convention"],
        features={key: FeatureSpec.from_json(value) for key, value in attributes["features"].items()},
        provenance=attributes.get("provenance", {}),
        processing=attributes.get("processing", {}),
        extra={key: value for key, value in attributes.items() if key not in _META_FIELDS},
        schema_version=attributes["schema_version"],
    )


def semantic_attributes(meta: EpisodeMeta, calibration: Calibration | None) -> dict[str, Any]:
    """Return all attributes but `digests`, as they are stored and hashed."""
    return {**meta_attributes(meta), **calibration_attributes(calibration)}


@dataclass(frozen=True, slots=True)
class VideoSource:
    """A camera stream still in the vendor's file.

    Attributes:
        path: The file.
        rows: (T,) int64; row t of the episode shows the rows[t]-th displayed frame of the file. Non-decreasing.
        size: (width, height) in pixels to store.
        undistort: The distorted camera at `size`, where frames are to be undistorted to its `undistorted()`; None stores them as they are.
    """

    path: Path
    rows: NDArray[np.int64]
    size: tuple[int, int]
    undistort: CameraCalibration | None = None

    @property
    def frames(self) -> int:
        """Frames of the episode."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A camera stream whose frames are made one after the other, such as decoded JPEG images.

    Attributes:
        make: Starts over each time it is called; gives (H, W, 3) uint8 RGB of one even size.
        frames: How many it gives.
        size: (width, height) in pixels.
    """

    make: Callable[[], Iterator[NDArray[np.uint8]]]
    frames: int
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class StoredVideo:
    """A camera stream that is in the stored form already: its elements are copied, nothing is encoded again.

    Attributes:
        info: What is stored.
        elements: Starts over each time it is called; gives `info.chunks` mp4 elements.
    """

    info: VideoInfo
    elements: Callable[[], Iterator[bytes]]

    @property
    def frames(self) -> int:
        """Frames of the episode."""
        return self.info.frames

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        return self.info.width, self.info.height


CameraSource = VideoSource | FrameSource | StoredVideo


@dataclass(frozen=True, slots=True)
class EpisodeDraft:
    """An episode as a vendor reader gives it; it knows no storage format.

    Attributes:
        meta: Its `features` lists the numeric arrays; cameras are added by the writer once encoded.
        arrays: Numeric arrays (T, ...) by key, masks and time stamps included; invalid float rows are NaN.
        videos: By camera name.
        annotations: By key; a key with no spans is present and empty; no key is absent.
        calibration: Scaled to the stored size, or None where unknown.
        findings: What was noticed on the way, none of it at error level.
        structure: Structural spans by key, such as ``fold_segments``; keys do not start with ``annotations``.
    """

    meta: EpisodeMeta
    arrays: Mapping[str, NDArray[Any]]
    videos: Mapping[str, CameraSource]
    annotations: Annotations
    calibration: Calibration | None
    findings: tuple[Finding, ...] = ()
    structure: Annotations = field(default_factory=dict)


class EpisodeReader(Protocol):
    """One stored episode, the same on every format. Not shared between processes: a pickled copy opens lazily."""

    @property
    def meta(self) -> EpisodeMeta:
        """Attributes; `features` lists numeric arrays and cameras."""
        ...

    @property
    def digests(self) -> EpisodeDigests:
        """Content digests as stored."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """Calibration, or None where unknown."""
        ...

    @property
    def annotation_keys(self) -> tuple[str, ...]:
        """Keys of texts that are present, empty ones included, sorted."""
        ...

    @property
    def structure_keys(self) -> tuple[str, ...]:
        """Keys of structural spans that are present, empty ones included, sorted; they are never prompts."""
        ...

    def spans(self, key: str) -> tuple[Span, ...] | None:
        """Return the spans of a key, of texts or structural, in stored order; None if the key is absent."""
        ...

    def rows(self, keys: Sequence[str], ranges: Sequence[tuple[int, int]]) -> dict[str, NDArray[Any]]:
        """Return a copy of the half-open row range of each key, one range per key.

        Raises:
            FeatureNotFoundError: No such key.
            WindowError: A range outside [0, T].
            CorruptEpisodeError: A chunk is missing or cannot be decoded.
        """
        ...

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return frames (N, H, W, 3) uint8 RGB in the order asked for; repeats are allowed.

        Raises:
            FeatureNotFoundError: No such camera.
            WindowError: An index outside [0, T).
            CorruptEpisodeError: The element is missing or cannot be decoded.
        """
        ...

    def video_info(self, camera: str) -> VideoInfo:
        """Return what is stored for a camera."""
        ...

    def video_chunk(self, camera: str, index: int) -> bytes:
        """Return one stored mp4 element."""
        ...

    def close(self) -> None:
        """Let go of open files and decoders; using the reader again raises HandleError."""
        ...


class EpisodeStore(Protocol):
    """All episodes of one format in a store."""

    def episode_ids(self) -> list[str]:
        """Return the published ids, sorted by UTF-8 bytes."""
        ...

    def open(self, episode_id: str, *, content: str | None = None) -> EpisodeReader:
        """Open an episode: its newest version, or the newest verified build of one content digest.

        Raises:
            EpisodeNotFoundError: No such episode or content.
        """
        ...


def read_spans(reader: EpisodeReader) -> dict[str, tuple[Span, ...]]:
    """Read the spans of every key that is present, of texts and structural, in the order of the keys."""
    return {key: reader.spans(key) or () for key in sorted({*reader.annotation_keys, *reader.structure_keys})}


def read_all_numeric(reader: EpisodeReader) -> dict[str, NDArray[Any]]:
    """Read every numeric array of an episode whole, by key."""
    keys, total = reader.meta.numeric_keys, reader.meta.total_frames
    return reader.rows(keys, [(0, total)] * len(keys))


def computed_digests(reader: EpisodeReader, attributes: Mapping[str, Any]) -> EpisodeDigests:
    """Compute an episode's digests from what its reader gives, whatever it says they are.

    Args:
        reader: The episode, of any format.
        attributes: Its semantic attributes as they are hashed.

    Raises:
        CorruptEpisodeError: Something cannot be read.
    """
    meta, parts = reader.meta, {}
    for key in meta.numeric_keys:
        parts[key] = array_digest(key, reader.rows([key], [(0, meta.total_frames)])[key])
    for camera in meta.cameras:
        chunks = reader.video_info(camera).chunks
        elements = (reader.video_chunk(camera, number) for number in range(chunks))
        parts[camera_key(camera)] = elements_digest(camera_key(camera), elements, count=chunks)
    spans = read_spans(reader)
    texts = {key: elements_digest(key, [encode_span(span) for span in found], count=len(found)) for key, found in spans.items()}
    return EpisodeDigests(
        media=combined_digest(parts),
        annotations=combined_digest(texts),
        calibration=calibration_digest(attributes),
        meta=meta_digest(attributes),
    )
