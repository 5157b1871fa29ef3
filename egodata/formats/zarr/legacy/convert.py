"""An old episode as a draft of a v4 one: masks instead of zeros, a declared hand frame, h264 elements copied as they are."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Annotations, Span
from egodata.episode import CameraSource, EpisodeDraft, EpisodeMeta, FrameSource, StoredVideo
from egodata.errors import CorruptEpisodeError, SchemaError
from egodata.findings import Finding, Severity
from egodata.formats.zarr.legacy.camera import JPEG
from egodata.formats.zarr.legacy.masks import mask_feature, palm_valid
from egodata.formats.zarr.legacy.reader import LegacyEpisode
from egodata.geometry.hand import convert_left_hand
from egodata.schema.features import (
    SIDES,
    TIMESTAMPS,
    FeatureSpec,
    keypoints_spec,
    mask_spec,
    pose_spec,
    resolve_embodiment,
    timestamps_spec,
    valid_key,
)
from egodata.schema.layout import SCHEMA_VERSION
from egodata.video import EncodeSettings, encode_frames, index_chunk

ANATOMICAL, UNKNOWN = "anat-v1", "unknown"
_BATCH_FRAMES = 32
_SPAN_FIELDS = {"text", "start_idx", "end_idx"}
_HAND_POSES = ("obs_wrist_pose", "obs_ee_pose", "cmd_ee_pose")
_INTEGERS = {"int8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}

Arrays = dict[str, NDArray[Any]]
Specs = dict[str, FeatureSpec]


class _Notes:
    def __init__(self, episode: str) -> None:
        self.episode = episode
        self.found: list[Finding] = []

    def add(self, code: str, message: str, *, severity: Severity = Severity.WARNING, stream: str = "") -> None:
        self.found.append(Finding(code, severity, self.episode, message, stream=stream))


def needs_declaration(meta: EpisodeMeta) -> bool:
    """Whether an old episode has hand rotations of an undeclared convention."""
    has_poses = any(f"{side}.{name}" in meta.features for side in SIDES for name in _HAND_POSES)
    return meta.hand_frame_convention == UNKNOWN and has_poses


def legacy_draft(reader: LegacyEpisode, *, declared: str | None, dataset: str, delivery: str) -> EpisodeDraft:
    """Turn an old episode into a draft.

    Args:
        reader: The old episode; it has to stay open until the draft is published.
        declared: Hand frame convention of episodes that carry none: ``anat-v1`` or ``mirror-left-v1``; None refuses them.
        dataset: Name given at ingest.
        delivery: Name of the batch.

    Returns:
        The draft; its findings say what was made of what the old store lacks.

    Raises:
        SchemaError: The hand frame is not declared, or names, shapes or embodiment break the format.
        CorruptEpisodeError: The old episode cannot be read.
    """
    old = reader.meta
    notes = _Notes(old.episode_id)
    convention = _convention(old, declared)
    arrays, specs = _numbers(reader, convention, notes)
    clock = _stamps(old, arrays, specs, notes)
    embodiment, aliased = resolve_embodiment(old.embodiment)
    if aliased:
        notes.add("embodiment-alias", f"embodiment {old.embodiment} is an old name of {embodiment}.", severity=Severity.INFO)
    videos = {camera: _video(reader, camera, notes) for camera in old.cameras}
    meta = replace(
        old,
        dataset=dataset,
        delivery=delivery,
        embodiment=embodiment,
        clock=clock,
        features=specs,
        hand_frame_convention=None if convention is None else ANATOMICAL,
        processing={**old.processing, "from_schema": old.schema_version, "declared_hand_frame": convention},
        schema_version=SCHEMA_VERSION,
    )
    calibration = reader.calibration
    if calibration is None:
        notes.add("calibration-unknown", "the old episode has no calibration.")
    elif "calibration" not in reader.attributes:
        notes.add("camera-model-unknown", "the old episode names no camera model; its intrinsics are taken as PINHOLE without distortion.")
    annotations = _annotations(reader, old.total_frames, notes)
    structure = _structure(reader, old.total_frames, notes)
    return EpisodeDraft(meta, arrays, videos, annotations, calibration, tuple(notes.found), structure)


def _convention(old: EpisodeMeta, declared: str | None) -> str | None:
    if old.hand_frame_convention is None:
        return None
    if not needs_declaration(old):
        return ANATOMICAL if old.hand_frame_convention == UNKNOWN else old.hand_frame_convention
    if declared is None:
        raise SchemaError(
            f"episode {old.episode_id}: hand rotations of an undeclared convention. Say which with --declare anat-v1 or mirror-left-v1."
        )
    return declared


def _numbers(reader: LegacyEpisode, convention: str | None, notes: _Notes) -> tuple[Arrays, Specs]:
    old = reader.meta
    arrays: Arrays = {}
    specs: Specs = {}
    largest_error, palms = 0.0, dict[str, NDArray[np.bool_]]()
    for key in sorted(old.numeric_keys, key=lambda name: (not name.endswith("keypoints"), name)):
        rows = reader.rows([key], [(0, old.total_frames)])[key]
        if rows.dtype.kind != "f":
            kept = _INTEGERS.get(rows.dtype.name, rows.dtype.name)
            arrays[key], specs[key] = rows.astype(kept), replace(old.features[key], dtype=kept)
            continue
        masked = mask_feature(key, rows)
        side, _, name = key.partition(".")
        if masked.points is not None:
            palms[side] = palm_valid(masked.points)
            arrays[f"{key}_point_valid"], specs[f"{key}_point_valid"] = masked.points, mask_spec(masked.points.shape[1])
        values, valid = masked.rows, masked.valid
        if name in _HAND_POSES and not name.startswith("cmd"):
            valid = valid & palms.get(side, np.ones(len(valid), np.bool_))
            values = np.where(valid[:, None], values, np.nan)
        if side == "left" and name in _HAND_POSES and convention not in (None, ANATOMICAL):
            values = convert_left_hand(values, declared=str(convention), wanted=ANATOMICAL)
        narrow = values.astype(np.float32)
        if valid.any():
            largest_error = max(largest_error, float(np.nanmax(np.abs(narrow[valid].astype(np.float64) - values[valid]), initial=0.0)))
        arrays[key], specs[key] = narrow, _float_spec(key, old.features[key], robot=convention is None)
        if valid_key(key) not in old.features:
            arrays[valid_key(key)], specs[valid_key(key)] = valid, mask_spec()
        _tell(key, valid, masked.renormalised, notes)
    if largest_error > 0:
        notes.add("cast-to-float32", f"numbers were cast to float32; the largest change is {largest_error:.2g}.", severity=Severity.INFO)
    return arrays, specs


def _float_spec(key: str, old: FeatureSpec, *, robot: bool) -> FeatureSpec:
    if key.endswith("keypoints") and old.shape == (63,):
        return keypoints_spec()
    if key.endswith("pose") and old.shape == (7,):
        return pose_spec("base" if robot else "world")  # robots keep the poses of each arm in that arm's base
    return replace(old, dtype="float32")


def _tell(key: str, valid: NDArray[np.bool_], renormalised: int, notes: _Notes) -> None:
    missing = int((~valid).sum())
    if missing:
        notes.add(
            "rows-masked", f"{key}: {missing} of {len(valid)} rows were zeros, 1e9, NaN or no rotation.", severity=Severity.INFO, stream=key
        )
    if renormalised:
        notes.add("quaternion-norm", f"{key}: {renormalised} quaternions were off length 1 by up to 1e-2 and normalised.", stream=key)


def _stamps(old: EpisodeMeta, arrays: Arrays, specs: Specs, notes: _Notes) -> str:
    specs[TIMESTAMPS] = timestamps_spec()
    if TIMESTAMPS in arrays:
        arrays[TIMESTAMPS] = stamps = arrays[TIMESTAMPS].astype(np.int64)
        if len(back := np.flatnonzero(np.diff(stamps) <= 0)):
            raise SchemaError(
                f"episode {old.episode_id}: time stamps do not increase at frame {back[0] + 1}, in {len(back)} places; never sorted away."
            )
        return old.clock
    steps = np.arange(old.total_frames, dtype=np.int64) * 1_000_000_000 * old.fps.denominator
    arrays[TIMESTAMPS] = steps // old.fps.numerator
    notes.add("stamps-from-fps", f"no time stamps; they are counted from frame 0 at {old.fps} frames per second.")
    return "frame0"


def _structure(reader: LegacyEpisode, total: int, notes: _Notes) -> Annotations:
    """Spans that define structure stay under their keys: they are no annotations and never reach a prompt."""
    found: dict[str, list[Span]] = {}
    for key in reader.structure_keys:
        try:
            spans = reader.spans(key) or ()
        except CorruptEpisodeError:
            notes.add("array-left-out", f"{key}: neither numbers, images nor spans; it was left out.", stream=key)
            continue
        found[key] = _inside(key, spans, total, notes)
        others = sorted({name for data in reader.texts(key) if data for name in json.loads(data)} - _SPAN_FIELDS)
        if others:
            notes.add("span-fields-left-out", f"{key}: spans have {', '.join(others[:5])} besides text and frames; left out.", stream=key)
    return found


def _annotations(reader: LegacyEpisode, total: int, notes: _Notes) -> Annotations:
    return {key: _inside(key, reader.spans(key) or (), total, notes) for key in reader.annotation_keys}


def _inside(key: str, spans: Sequence[Span], total: int, notes: _Notes) -> list[Span]:
    changed = sum(span.end > total for span in spans)
    if changed:
        notes.add(
            "span-clipped",
            f"{key}: {changed} of {len(spans)} spans end after frame {total}; clipped, or dropped if all after.",
            stream=key,
        )
    return [Span(span.text, span.start, min(span.end, total)) for span in spans if span.start < total]


def _video(reader: LegacyEpisode, camera: str, notes: _Notes) -> CameraSource:
    found = reader.camera(camera)
    if found.declared and found.declared not in (found.codec, "video"):
        notes.add(
            "codec-declared-wrong", f"camera {camera}: declared {found.declared}, the bytes are {found.codec}; bytes win.", stream=camera
        )
    if found.codec == JPEG:
        notes.add(
            "jpeg-encoded", f"camera {camera}: {found.info.frames} JPEG images are encoded as h264.", severity=Severity.INFO, stream=camera
        )
        return _frames_of(reader, camera)
    reason = _not_copyable(reader, camera)
    if reason is not None:
        notes.add("video-encoded-again", f"camera {camera}: {reason}; encoded again.", stream=camera)
        return _frames_of(reader, camera)
    settings = {"profile": "copied", **found.info.settings}
    padding = _last_padding(reader, camera)
    if padding:
        notes.add(
            "tail-encoded-again", f"camera {camera}: the last element held {padding} frames after the end; it was cut.", stream=camera
        )
    return StoredVideo(replace(found.info, settings=settings), lambda: _elements(reader, camera, cut=bool(padding)))


def _not_copyable(reader: LegacyEpisode, camera: str) -> str | None:
    """Say why elements cannot be copied, or None: every one must hold exactly its frames, the last one at least those."""
    info = reader.video_info(camera)
    if info.width % 2 or info.height % 2:
        return f"its size {info.width}x{info.height} is odd"
    for number in range(info.chunks - 1):
        if (held := index_chunk(reader.video_chunk(camera, number)).frames) != info.frames_per_chunk:
            return f"element {number} holds {held} frames, expected {info.frames_per_chunk}"
    return None


def _last_padding(reader: LegacyEpisode, camera: str) -> int:
    info = reader.video_info(camera)
    held = index_chunk(reader.video_chunk(camera, info.chunks - 1)).frames
    return held - (info.frames - (info.chunks - 1) * info.frames_per_chunk)


def _elements(reader: LegacyEpisode, camera: str, *, cut: bool) -> Iterator[bytes]:
    info = reader.video_info(camera)
    for number in range(info.chunks - cut):
        yield reader.video_chunk(camera, number)
    if cut:
        first = (info.chunks - 1) * info.frames_per_chunk
        settings = EncodeSettings(profile="tail", crf=12, bframes=0, tune="", frames_per_chunk=info.frames_per_chunk)
        yield from encode_frames(_decoded(reader, camera, first), fps=info.fps, settings=settings)


def _frames_of(reader: LegacyEpisode, camera: str) -> FrameSource:
    info = reader.video_info(camera)
    return FrameSource(lambda: _decoded(reader, camera, 0), info.frames, (info.width // 2 * 2, info.height // 2 * 2))


def _decoded(reader: LegacyEpisode, camera: str, first: int) -> Iterator[NDArray[np.uint8]]:
    """Decode frames from `first` on; odd sizes lose their last row or column, so that K stays as it is."""
    info = reader.video_info(camera)
    for start in range(first, info.frames, _BATCH_FRAMES):
        for frame in reader.frames(camera, range(start, min(start + _BATCH_FRAMES, info.frames))):
            yield frame[: info.height // 2 * 2, : info.width // 2 * 2]
