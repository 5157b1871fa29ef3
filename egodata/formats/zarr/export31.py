"""Going back: a v4 episode as schema v3.1, for readers that know nothing newer. Zeros where rows are invalid, no masks, a v3.1 tag."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.core.group import Group
from zarr.dtype import VariableLengthBytes
from zarr.errors import UnstableSpecificationWarning

from egodata.annotations import encode_span
from egodata.calibration import calibration_attributes
from egodata.episode import EpisodeReader, read_spans
from egodata.errors import InputError
from egodata.schema.features import IMAGES, NUMERIC_CHUNK_ROWS, camera_key, valid_key

VERSION = "v3.1"
_BLOCK = ("codec", "crf", "gop", "pix_fmt")


def export_zarr31(reader: EpisodeReader, out: Path) -> list[str]:
    """Write one episode as a plain v3.1 group.

    Args:
        reader: A v4 episode of any format; its mp4 elements are copied, nothing is decoded.
        out: Folder that the group ``<id>.zarr`` is made in.

    Returns:
        Keys that v3.1 has no place for and that were left out: masks and sources.

    Raises:
        InputError: The group is there already.
    """
    meta = reader.meta
    folder = out / f"{meta.episode_id}.zarr"
    if folder.exists():
        raise InputError(f"export {folder}: is there already. Remove it or choose another folder.")
    group = zarr.create_group(store=str(folder), zarr_format=3)
    masks = {valid_key(key) for key in meta.numeric_keys} | {key for key in meta.numeric_keys if _is_new(key)}
    features: dict[str, Any] = {}
    for key in meta.numeric_keys:
        if key in masks:
            continue
        rows = reader.rows([key], [(0, meta.total_frames)])[key]
        if rows.dtype.kind == "f":
            rows = np.where(np.isfinite(rows), rows, 0).astype(rows.dtype)
        _write_numbers(group, key, rows)
        spec = meta.features[key]
        features[key] = {"dtype": spec.dtype, "shape": list(spec.shape), "names": list(spec.names) or None}
    for camera in meta.cameras:
        features[camera_key(camera)] = _write_video(group, reader, camera)
    for key, spans in read_spans(reader).items():
        _write_bytes(group, key, [encode_span(span) for span in spans])
    group.attrs.put(_attributes(reader, features))
    return sorted(masks & set(meta.numeric_keys))


def _is_new(key: str) -> bool:
    return key.endswith(("_valid", "_source")) or (key.startswith(IMAGES) and key.endswith("_source_row"))


def _attributes(reader: EpisodeReader, features: dict[str, Any]) -> dict[str, Any]:
    meta = reader.meta
    return {
        "schema_version": VERSION,
        "episode_id": meta.episode_id,
        "embodiment": meta.embodiment,
        "operator": meta.operator,
        "total_frames": meta.total_frames,
        "fps": float(meta.fps),
        "task_name": meta.task_name,
        "task_description": meta.task_description,
        "data_status": "train_ready",
        "features": features,
        **({} if meta.hand_frame_convention is None else {"hand_frame_convention": meta.hand_frame_convention}),
        **calibration_attributes(reader.calibration),
        "provenance": {"exported_from": {"schema": meta.schema_version, "content": reader.digests.content}},
    }


def _write_numbers(group: Group, key: str, rows: np.ndarray[Any, Any]) -> None:
    shard = -(-len(rows) // NUMERIC_CHUNK_ROWS) * NUMERIC_CHUNK_ROWS
    chunk, whole = (NUMERIC_CHUNK_ROWS, *rows.shape[1:]), (shard, *rows.shape[1:])
    stored = group.create_array(
        key, shape=rows.shape, chunks=chunk, shards=whole, dtype=rows.dtype, compressors=Crc32cCodec(), config={"write_empty_chunks": True}
    )
    stored[:] = rows


def _write_bytes(group: Group, key: str, elements: list[bytes]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableSpecificationWarning)
        stored = group.create_array(key, shape=(len(elements),), chunks=(1,), dtype=VariableLengthBytes(), compressors=None)
    for number, element in enumerate(elements):
        cell = np.empty(1, object)
        cell[0] = element
        stored[number : number + 1] = cell


def _write_video(group: Group, reader: EpisodeReader, camera: str) -> dict[str, Any]:
    info = reader.video_info(camera)
    _write_bytes(group, camera_key(camera), [reader.video_chunk(camera, number) for number in range(info.chunks)])
    block = {key: info.settings[key] for key in _BLOCK if key in info.settings}
    counts = {"fps": float(info.fps), "frames_per_chunk": info.frames_per_chunk, "total_frames": info.frames, "n_chunks": info.chunks}
    names = ["height", "width", "channel"]
    return {"dtype": "h264", "shape": [info.height, info.width, 3], "names": names, "video": {**block, **counts}}
