"""Turning a draft into a published zarr episode."""

import errno
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from zarr.core.group import Group

from egodata.annotations import Annotations
from egodata.episode import CameraSource, EpisodeDraft, EpisodeMeta, FrameSource, StoredVideo, VideoInfo, semantic_attributes
from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError, InputError, SchemaError
from egodata.formats.zarr import versions as on_disk
from egodata.formats.zarr.write import create_group, write_annotations, write_attributes, write_elements, write_numeric
from egodata.schema.digests import EpisodeDigests, calibration_digest, combined_digest, meta_digest
from egodata.schema.features import IMAGES, FeatureSpec, camera_key, is_camera
from egodata.schema.ids import ANNOTATION_PREFIX, check_feature_key
from egodata.schema.layout import StorePaths
from egodata.video import EncodeSettings, encode_frames, encode_video

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}


def publish_draft(paths: StorePaths, draft: EpisodeDraft, *, settings: EncodeSettings) -> EpisodeDigests:
    """Encode a draft's cameras, write the episode and publish it as a new version.

    If a version with the very same content is there and its files verify, that one stays or becomes current and nothing is added.

    Args:
        paths: The store.
        draft: From a vendor reader.
        settings: Encoder settings, recorded in the episode.

    Returns:
        The digests of the published episode.

    Raises:
        SchemaError: A key, shape, dtype or span breaks the format, or the id collides with another one when case is ignored.
        VideoError: A camera cannot be encoded; nothing is published.
        ConflictError: Another process is writing the episode.
        InputError: The disk is full or the store cannot be written to; what was begun is removed.
    """
    check_draft(draft)
    episode_id = draft.meta.episode_id
    with writing(paths, episode_id), on_disk.episode_lock(paths, episode_id) as folder:
        build = folder / on_disk.BUILD
        with building(build):
            digests = _write_episode(build / on_disk.GROUP, draft, settings)
            existing = verified_build(paths, episode_id, content=digests.content)
            if existing is None:
                on_disk.seal(build, content=digests.content)
                on_disk.publish_build(paths, episode_id, content=digests.content)
            elif not _is_current(paths, episode_id, existing):
                on_disk.point_link(paths, episode_id, version=existing)
    return digests


def _write_episode(folder: Path, draft: EpisodeDraft, settings: EncodeSettings) -> EpisodeDigests:
    group = create_group(folder)
    parts = {key: write_numeric(group, key, array=draft.arrays[key]) for key in sorted(draft.arrays)}
    cameras = {}
    for camera, source in sorted(draft.videos.items()):
        key = camera_key(camera)
        info, elements = _camera_elements(source, draft.meta, settings)
        parts[key] = write_elements(group, key, elements=elements, count=info.chunks)
        cameras[key] = FeatureSpec("h264", (info.height, info.width, 3), ("height", "width", "channel"), video=info.to_json())
    meta = stored_meta(draft.meta, cameras, settings=settings)
    return _finish_group(group, meta, draft, media=combined_digest(parts))


def _camera_elements(source: CameraSource, meta: EpisodeMeta, settings: EncodeSettings) -> tuple[VideoInfo, Iterator[bytes]]:
    if isinstance(source, StoredVideo):
        return source.info, source.elements()
    info = VideoInfo(*source.size, meta.total_frames, settings.frames_per_chunk, meta.fps, settings.to_json())
    if isinstance(source, FrameSource):
        return info, encode_frames(source.make(), fps=meta.fps, settings=settings)
    return info, encode_video(source, fps=meta.fps, settings=settings)


def _finish_group(group: Group, meta: EpisodeMeta, draft: EpisodeDraft, *, media: str) -> EpisodeDigests:
    """Write annotations and attributes of a group whose arrays are written, and return the digests."""
    attributes = semantic_attributes(meta, draft.calibration)
    digests = EpisodeDigests(
        media=media,
        annotations=write_annotations(group, {**draft.annotations, **draft.structure}),
        calibration=calibration_digest(attributes),
        meta=meta_digest(attributes),
    )
    write_attributes(group, {**attributes, "digests": digests.to_json()})
    return digests


def stored_meta(meta: EpisodeMeta, cameras: Mapping[str, FeatureSpec], *, settings: EncodeSettings) -> EpisodeMeta:
    """Return a draft's meta as it is stored: with its cameras and the encoder settings."""
    encode = {**settings.to_json(), "x264": settings.x264_options()["x264-params"]}
    return replace(meta, features={**meta.features, **cameras}, processing={**meta.processing, "encode": encode})


def check_draft(draft: EpisodeDraft) -> None:
    """Check a draft against the format before anything is written.

    Raises:
        SchemaError: The first five problems and their count.
    """
    meta, total = draft.meta, draft.meta.total_frames
    problems = [] if type(total) is int and total >= 1 else [f"total_frames is {total!r}, expected a whole number of at least 1"]
    listed = {key for key, spec in meta.features.items() if not is_camera(key, spec)}
    if listed != set(draft.arrays):
        problems.append(f"features and arrays differ in {', '.join(sorted(listed ^ set(draft.arrays))[:5])}")
    for key, array in sorted(draft.arrays.items()):
        check_feature_key(key)
        if key in listed:
            problems += _array_problems(key, array, meta.features[key], total)
    if meta.reference_camera not in (draft.videos or ("",)):  # an episode of poses alone names none
        problems.append(f"reference camera {meta.reference_camera} is not among the cameras {', '.join(sorted(draft.videos)) or '(none)'}")
    for camera, source in sorted(draft.videos.items()):
        check_feature_key(camera_key(camera))
        if source.frames != total:
            problems.append(f"camera {camera}: {source.frames} rows, expected {total}")
    problems += annotation_problems(draft.annotations, total)
    problems += structure_problems(draft.structure, total, taken={*draft.arrays, *map(camera_key, draft.videos)})
    if problems:
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise SchemaError(f"episode {meta.episode_id}: {'; '.join(problems[:5])}{more}")


def _array_problems(key: str, array: np.ndarray[Any, Any], spec: FeatureSpec, total: int) -> list[str]:
    problems = []
    if array.dtype.name != spec.dtype:
        problems.append(f"{key}: dtype {array.dtype.name}, expected {spec.dtype}")
    if array.shape != (total, *spec.shape):
        problems.append(f"{key}: shape {array.shape}, expected {(total, *spec.shape)}")
    return problems


def annotation_problems(annotations: Annotations, total: int) -> list[str]:
    """Return what is wrong with annotations of an episode of `total` frames; key syntax raises SchemaError at once."""
    problems = []
    for key, spans in sorted(annotations.items()):
        check_feature_key(key)
        if not key.startswith(ANNOTATION_PREFIX):
            problems.append(f"annotation key {key}: expected it to start with {ANNOTATION_PREFIX}")
        problems += [f"{key}: span [{span.start}, {span.end}) ends after frame {total}" for span in spans if span.end > total]
    return problems


def structure_problems(structure: Annotations, total: int, *, taken: Collection[str]) -> list[str]:
    """Return what is wrong with structural spans of an episode of `total` frames whose features are `taken`."""
    problems = []
    for key, spans in sorted(structure.items()):
        check_feature_key(key)
        if key.startswith((ANNOTATION_PREFIX, IMAGES)) or key in taken:
            problems.append(f"structural key {key}: expected a name that is no annotation, image or feature")
        problems += [f"{key}: span [{span.start}, {span.end}) ends after frame {total}" for span in spans if span.end > total]
    return problems


def verified_build(paths: StorePaths, episode_id: str, *, content: str) -> on_disk.Version | None:
    """Return the newest version that holds a content digest and whose files all verify, or None."""
    for version in reversed(on_disk.list_versions(paths, episode_id)):
        if not content.startswith(version.prefix):
            continue
        try:
            integrity = on_disk.read_integrity(version)
        except CorruptEpisodeError:
            continue
        if integrity.content == content and not on_disk.check_files(version, integrity):
            return version
    return None


def _is_current(paths: StorePaths, episode_id: str, version: on_disk.Version) -> bool:
    try:
        return on_disk.current_version(paths, episode_id).folder == version.folder
    except (EpisodeNotFoundError, CorruptEpisodeError):
        return False


@contextmanager
def building(build: Path) -> Iterator[None]:
    """Remove a build that was not published, whatever ended it; a killed process leaves it to the next holder of the lock."""
    os.mkdir(build)
    try:
        yield
    finally:
        shutil.rmtree(build, ignore_errors=True)


@contextmanager
def writing(paths: StorePaths, episode_id: str) -> Iterator[None]:
    """Turn a full or read-only disk into one clear line.

    Raises:
        InputError: No room, or no permission.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise InputError(
                f"episode {episode_id}: no room in {paths.root} ({error.strerror}). Nothing was changed; free space and run again."
            ) from error
        if error.errno in _REFUSED:
            raise InputError(
                f"episode {episode_id}: {paths.root} cannot be written to ({error.strerror}). Choose a folder you own."
            ) from error
        raise
