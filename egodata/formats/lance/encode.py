"""An episode as rows of the four tables. What was read is hashed on the way, so that a damaged source is not copied."""

from collections.abc import Mapping, Sequence

import lance
import numpy as np
import pyarrow as pa

from egodata.annotations import encode_span
from egodata.calibration import calibration_attributes
from egodata.episode import EpisodeReader, read_all_numeric, read_spans, semantic_attributes
from egodata.errors import CorruptEpisodeError
from egodata.formats.lance.columns import feature_column, key_of, null_column, to_column
from egodata.formats.lance.recode import again
from egodata.formats.lance.tables import ANNOTATIONS, COPY, EPISODES, FRAMES, SCHEMAS, VIDEO_COLUMN, VIDEOS, table_schema
from egodata.schema.canonical import canonical_json, sha256_hex
from egodata.schema.digests import array_digest, combined_digest, elements_digest
from egodata.schema.features import TIMESTAMPS, FeatureSpec, camera_key

NS_PER_S = 1_000_000_000


def numeric_features(reader: EpisodeReader) -> dict[str, FeatureSpec]:
    """Return the specs of an episode's numeric arrays, by key."""
    return {key: reader.meta.features[key] for key in reader.meta.numeric_keys}


def video_rows(reader: EpisodeReader, *, video: str = COPY) -> tuple[pa.RecordBatch, dict[str, str]]:
    """Return one row per camera and chunk, and the digest of each camera's source elements by feature key.

    Args:
        reader: The episode.
        video: ``copy`` for the very bytes, ``av1`` to encode the decoded frames again.
    """
    schema = table_schema(VIDEOS, video=video)
    columns: dict[str, list[object]] = {name: [] for name in schema.names}
    digests = {}
    for camera in reader.meta.cameras:
        info = reader.video_info(camera)
        elements = [reader.video_chunk(camera, index) for index in range(info.chunks)]
        digests[camera_key(camera)] = elements_digest(camera_key(camera), elements, count=len(elements))
        for index, element in enumerate(elements):
            first = index * info.frames_per_chunk
            rows = (first, min(info.frames_per_chunk, info.frames - first))
            stored, loss = (element, {}) if video == COPY else again(reader, camera, rows=rows)
            row = {
                "episode_id": reader.meta.episode_id,
                "camera": camera,
                "chunk_index": index,
                "first_frame": rows[0],
                "n_frames": rows[1],
                "size_bytes": len(stored),
                "sha256": sha256_hex(stored),
                VIDEO_COLUMN: stored,
                **loss,
            }
            for name, value in row.items():
                columns[name].append(value)
    arrays = [
        lance.blob_array(columns[field.name]) if field.name == VIDEO_COLUMN else pa.array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema), digests


def frame_rows(
    reader: EpisodeReader, schema: pa.Schema, *, episode_index: int, first_index: int, videos: Mapping[str, str]
) -> pa.RecordBatch:
    """Return one row per frame, null in the columns of features that the episode lacks.

    Args:
        reader: The episode.
        schema: Of the frames table, feature columns included.
        episode_index: Number of the episode in this store.
        first_index: Number of its first frame in this store.
        videos: Digests that `video_rows` returned, to check the media digest.

    Raises:
        CorruptEpisodeError: What was read is not what the episode's media digest says.
    """
    meta = reader.meta
    arrays = read_all_numeric(reader)
    found = combined_digest({**videos, **{key: array_digest(key, array) for key, array in arrays.items()}})
    if found != reader.digests.media:
        raise _mismatch(reader, "media", reader.digests.media, found=found)
    total, stamps = meta.total_frames, arrays[TIMESTAMPS]
    base = {
        "episode_id": pa.array([meta.episode_id] * total).dictionary_encode(),
        "episode_index": np.full(total, episode_index, np.int64),
        "frame_index": np.arange(total, dtype=np.int32),
        "index": np.arange(first_index, first_index + total, dtype=np.int64),
        "timestamp": (stamps - stamps[:1]) / NS_PER_S,
        "timestamp_ns": stamps,
    }
    types = {field.name: field.type for field in schema}
    by_column = {feature_column(types, key, spec=spec): key for key, spec in numeric_features(reader).items()}
    columns = []
    for field in schema:
        if field.name in SCHEMAS[FRAMES].names:
            columns.append(pa.array(base[field.name]))
        elif field.name in by_column:
            where = f"episode {meta.episode_id}: feature {key_of(field.name)}"
            columns.append(to_column(arrays[by_column[field.name]], field.type, where=where))
        else:
            columns.append(null_column(field.type, total))
    return pa.record_batch(columns, schema=schema)


def annotation_rows(reader: EpisodeReader) -> pa.RecordBatch:
    """Return one row per span, keys sorted, spans in stored order. A key without spans has no row: `episodes` names it.

    Raises:
        CorruptEpisodeError: The spans are not what the episode's annotations digest says.
    """
    rows, parts = [], {}
    for key, spans in read_spans(reader).items():
        parts[key] = elements_digest(key, [encode_span(span) for span in spans], count=len(spans))
        rows += [(reader.meta.episode_id, key, index, span.text, span.start, span.end) for index, span in enumerate(spans)]
    found = combined_digest(parts)
    if found != reader.digests.annotations:
        raise _mismatch(reader, "annotations", reader.digests.annotations, found=found)
    return _batch(ANNOTATIONS, rows)


def episode_row(reader: EpisodeReader, *, episode_index: int) -> pa.RecordBatch:
    """Return the one row of an episode."""
    meta, digests = reader.meta, reader.digests
    attributes = {**semantic_attributes(meta, reader.calibration), "digests": digests.to_json()}
    calibration = calibration_attributes(reader.calibration).get("calibration")
    row = (
        meta.episode_id,
        meta.recording_id,
        episode_index,
        meta.clip.index,
        meta.clip.start,
        meta.clip.end,
        meta.clip.aliased,
        meta.vendor,
        meta.dataset,
        meta.delivery,
        meta.operator,
        meta.session,
        meta.embodiment,
        meta.task_name,
        meta.task_description,
        meta.total_frames,
        float(meta.fps),
        meta.fps.numerator,
        meta.fps.denominator,
        meta.clock,
        meta.reference_camera,
        meta.hand_frame_convention,
        list(meta.cameras),
        sorted({*reader.annotation_keys, *reader.structure_keys}),
        None if calibration is None else canonical_json(calibration).decode(),
        digests.media,
        digests.annotations,
        digests.calibration,
        digests.meta,
        digests.content,
        meta.schema_version,
        canonical_json(attributes).decode(),
    )
    return _batch(EPISODES, [row])


def _mismatch(reader: EpisodeReader, part: str, stored: str, *, found: str) -> CorruptEpisodeError:
    return CorruptEpisodeError(
        f"episode {reader.meta.episode_id}: {part} digest {stored[:12]}, read {found[:12]}. "
        "Look with `egodata verify`; ingest the recording again with --force."
    )


def _batch(table: str, rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    schema = SCHEMAS[table]
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    return pa.record_batch(columns, schema=schema)
