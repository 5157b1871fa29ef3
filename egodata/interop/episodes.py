"""Appending episodes to a LeRobot folder, one at a time, so that memory does not grow with the dataset."""

from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.calibration import calibration_attributes
from egodata.episode import EpisodeReader, read_all_numeric
from egodata.errors import InputError
from egodata.interop.summaries import Summary, image_summary, numeric_summary
from egodata.interop.tables import INDEX_FEATURES, VIDEO_FILE_BYTES, VIDEO_PATH, FrameFiles, feature_json, numbered
from egodata.interop.tasks import frame_tasks
from egodata.interop.vectors import Vector, choose_vectors, fill_vector, require_same_vectors
from egodata.sampling.order import even_stride
from egodata.video.join import JoinedVideo, elements_signature

RAW = "egodata."
PICTURES_PER_EPISODE = 4
KEPT_PICTURES = 512
"""Frames that enter the colour statistics, at most; from the first episodes' evenly spread frames."""


class EpisodeWriter:
    """Writes data and video files and remembers what the metadata has to say."""

    def __init__(self, root: Path, *, task: str, raw: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self.tasks: dict[str, int] = {}
        self.features: dict[str, dict[str, Any]] = {}
        self.calibrations: dict[str, Any] = {}
        self.frames = self.held = self.untold = self.video_files = 0
        self.fps, self.embodiment = Fraction(0), ""
        self.cameras: tuple[str, ...] = ()
        self._root, self._task, self._raw = root, task, raw
        self._vectors: tuple[Vector, ...] = ()
        self._data = FrameFiles(root)
        self._joined: dict[str, tuple[JoinedVideo, int]] = {}
        self._pictures: dict[str, list[NDArray[np.uint8]]] = defaultdict(list)

    def append(self, reader: EpisodeReader, *, head: str) -> None:
        """Write one episode at the end.

        Raises:
            InputError: It differs from the first in fps, embodiment, cameras, features, or make-up of state and action.
            VideoError: Its video elements cannot be copied into one file.
        """
        meta = reader.meta
        vectors = choose_vectors(meta)
        if not self._vectors:
            self._begin(reader, vectors)
        require_same_vectors(vectors, self._vectors, episode_id=meta.episode_id)
        self._require_same(reader)
        columns, row = self._columns(reader, vectors)
        video = {camera: self._append_video(reader, camera) for camera in meta.cameras}
        place = self._data.append(columns)
        self.rows.append({**row, **self._placed(reader, place, video), "egodata/head": head})
        self.calibrations[meta.episode_id] = calibration_attributes(reader.calibration).get("calibration")
        self.frames += meta.total_frames

    def _begin(self, reader: EpisodeReader, vectors: tuple[Vector, Vector]) -> None:
        meta = reader.meta
        self._vectors, self.fps, self.embodiment, self.cameras = vectors, meta.fps, meta.embodiment, meta.cameras
        for vector in vectors:
            self.features[vector.key] = feature_json("float32", [vector.width], names=vector.names)
        for camera in meta.cameras:
            info = reader.video_info(camera)
            self.features[f"observation.images.{camera}"] = {
                **feature_json("video", [info.height, info.width, 3], names=["height", "width", "channels"]),
                "info": {
                    "video.height": info.height,
                    "video.width": info.width,
                    "video.codec": "h264",
                    "video.pix_fmt": "yuv420p",
                    "video.fps": float(info.fps),
                    "video.channels": 3,
                    "has_audio": False,
                    "is_depth_map": False,
                },
            }
        for vector in vectors:
            parts = [key for key, _ in vector.blocks]
            self.features[f"{RAW}{vector.key}_valid"] = feature_json("bool", [len(parts)], names=parts)
        if self._raw:
            for key in meta.numeric_keys:
                spec = meta.features[key]
                self.features[f"{RAW}{key}"] = feature_json(spec.dtype, spec.shape, names=spec.names)
        self.features |= {key: feature_json(dtype, [1]) for key, dtype in INDEX_FEATURES.items()}

    def _require_same(self, reader: EpisodeReader) -> None:
        meta = reader.meta
        sizes = {camera: reader.video_info(camera) for camera in meta.cameras}
        found: dict[str, object] = {"fps": meta.fps, "embodiment": meta.embodiment}
        found |= {f"observation.images.{camera}": [info.height, info.width, 3] for camera, info in sizes.items()}
        expected: dict[str, object] = {"fps": self.fps, "embodiment": self.embodiment}
        expected |= {key: entry["shape"] for key, entry in self.features.items() if entry["dtype"] == "video"}
        if self._raw:
            found |= {f"{RAW}{key}": list(meta.features[key].shape) or [1] for key in meta.numeric_keys}
            ours = {f"{RAW}{vector.key}_valid" for vector in self._vectors}
            expected |= {key: entry["shape"] for key, entry in self.features.items() if key.startswith(RAW) and key not in ours}
        for key in sorted({*found, *expected}):
            if found.get(key) != expected.get(key):
                raise InputError(
                    f"episode {meta.episode_id}: {key} is {found.get(key, 'absent')}, the first episode has {expected.get(key, 'none')}. "
                    "A LeRobot dataset has one of each: freeze them apart, or leave out --raw."
                )

    def _columns(self, reader: EpisodeReader, vectors: tuple[Vector, Vector]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        meta, arrays = reader.meta, read_all_numeric(reader)
        total = meta.total_frames
        columns: dict[str, NDArray[Any]] = {}
        stats: dict[str, Any] = {}
        unknown: list[str] = []
        for vector in vectors:
            filled = fill_vector(vector, arrays)
            columns[vector.key], columns[f"{RAW}{vector.key}_valid"] = filled.rows, filled.valid
            self.held += filled.held
            unknown += [key for key in filled.unknown if key not in unknown]
            stats |= _flat(vector.key, numeric_summary(filled.rows))
        if self._raw:
            columns |= {f"{RAW}{key}": arrays[key] for key in meta.numeric_keys}
        texts = frame_tasks(reader, self._task)
        self.untold += texts.count("")
        index = [self.tasks.setdefault(text, len(self.tasks)) for text in texts]
        columns["timestamp"] = (np.arange(total) / float(self.fps)).astype(np.float32)
        columns["frame_index"] = np.arange(total)
        columns["episode_index"] = np.full(total, len(self.rows))
        columns["index"] = np.arange(self.frames, self.frames + total)
        columns["task_index"] = np.array(index, np.int64)
        row = {"episode_index": len(self.rows), "tasks": list(dict.fromkeys(texts)), "length": total}
        return columns, {**row, **stats, "egodata/unknown": unknown}

    def _append_video(self, reader: EpisodeReader, camera: str) -> dict[str, Any]:
        info = reader.video_info(camera)
        where = f"episode {reader.meta.episode_id}: camera {camera}"
        signature = elements_signature((reader.video_chunk(camera, number) for number in range(info.chunks)), where=where)
        joined, number = self._joined.get(camera, (None, -1))
        if joined is None or joined.signature != signature or joined.size_bytes > VIDEO_FILE_BYTES:
            if joined is not None:
                joined.close()
            number += 1
            path = self._root / VIDEO_PATH.format(video_key=f"observation.images.{camera}", **numbered(number))
            path.parent.mkdir(parents=True, exist_ok=True)
            joined = JoinedVideo(path, fps=self.fps, signature=signature)
            self._joined[camera] = (joined, number)
            self.video_files += 1
        first = joined.frames
        for chunk in range(info.chunks):
            joined.append(reader.video_chunk(camera, chunk))
        pictures = reader.frames(camera, even_stride(info.frames, PICTURES_PER_EPISODE))
        if len(self._pictures[camera]) < KEPT_PICTURES:
            self._pictures[camera].extend(pictures[:, ::4, ::4])
        times = {"from_timestamp": float(first / self.fps), "to_timestamp": float(joined.frames / self.fps)}
        return {**numbered(number), **times, "stats": image_summary(pictures[:, ::4, ::4])}

    def _placed(self, reader: EpisodeReader, place: dict[str, int], video: dict[str, dict[str, Any]]) -> dict[str, Any]:
        total = reader.meta.total_frames
        row: dict[str, Any] = {f"data/{key}": value for key, value in place.items()}
        row |= {"dataset_from_index": self.frames, "dataset_to_index": self.frames + total}
        for camera, entry in video.items():
            key = f"observation.images.{camera}"
            row |= {f"videos/{key}/{name}": value for name, value in entry.items() if name != "stats"}
            row |= _flat(key, entry["stats"])
        return {**row, "egodata/episode_id": reader.meta.episode_id, "egodata/content": reader.digests.content}

    def image_stats(self) -> dict[str, Summary]:
        """Return the colour statistics per camera over the pictures kept."""
        return {f"observation.images.{camera}": image_summary(np.stack(pictures)) for camera, pictures in self._pictures.items()}

    def close(self) -> None:
        """Finish all open files."""
        self._data.close()
        for joined, _ in self._joined.values():
            joined.close()

    def __enter__(self) -> "EpisodeWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _flat(key: str, summary: Summary | None) -> dict[str, Any]:
    return {} if summary is None else {f"stats/{key}/{name}": value for name, value in summary.items()}
