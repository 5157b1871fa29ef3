"""A frozen dataset as a LeRobot v3.0 dataset, on parquet and mp4 or in the Lance layout of LeRobot's Lance reader.

Layout: https://github.com/huggingface/lerobot (codebase version v3.0), the package lerobot-lancedb (0.3). Video is copied
packet by packet. All heads are written, one after the other in manifest order; ``splits`` in ``meta/info.json`` says which episodes are
which.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.episode import EpisodeStore
from egodata.errors import InputError
from egodata.interop.episodes import EpisodeWriter
from egodata.interop.summaries import numeric_summary
from egodata.interop.tables import (
    DATA_FILE_BYTES,
    DATA_PATH,
    FILES_PER_CHUNK,
    VIDEO_FILE_BYTES,
    VIDEO_PATH,
    read_column,
    write_episodes,
    write_tasks,
)
from egodata.progress import Progress, silent, tracked

CODEBASE_VERSION = "v3.0"
LEROBOT_STORAGE = ("parquet", "lance")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How to write.

    Attributes:
        storage: ``parquet`` (with mp4 files) or ``lance``.
        task: Where a frame's task text comes from: ``task_description``, ``task_name`` or an annotation key.
        raw: Write every stored array too, as ``egodata.<key>``, NaN and masks as they are; LanceDB's own converter refuses NaN.
    """

    storage: str = "parquet"
    task: str = "task_name"
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        episodes: Count.
        frames: Count.
        video_files: Count.
        held: (frame, part) cells of state and action that repeat a measured row.
        unknown: Episode id -> parts of state or action that were never measured and are zero there.
        untold: Frames whose task is the empty string.
    """

    episodes: int
    frames: int
    video_files: int
    held: int
    unknown: dict[str, tuple[str, ...]]
    untold: int


def export_lerobot(
    manifest: Manifest, store: EpisodeStore, *, out: Path, options: ExportOptions = ExportOptions(), progress: Progress = silent
) -> Exported:
    """Write a frozen dataset in LeRobot's layout; `out` appears when everything is in it.

    Args:
        manifest: The dataset.
        store: Where its episodes are opened, at the contents recorded.
        out: Folder to make.
        options: How.
        progress: Told about every episode.

    Raises:
        InputError: `out` exists, the storage is unknown, or the episodes differ in fps, cameras, or make-up of state and action.
        EpisodeNotFoundError: A recorded content is gone.
        VideoError: An episode's elements cannot be copied into one file.
    """
    if options.storage not in LEROBOT_STORAGE:
        raise InputError(f"storage {options.storage!r}: expected {' or '.join(LEROBOT_STORAGE)}.")
    if out.exists():
        raise InputError(f"export {out}: is there already. Remove it or choose another folder.")
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        written = _write(manifest, store, staging, options=options, progress=progress)
        if options.storage == "lance":
            from egodata.formats.lance.lerobot_tables import to_lance_tables

            to_lance_tables(staging)
        os.replace(staging, out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return written


def _write(manifest: Manifest, store: EpisodeStore, root: Path, *, options: ExportOptions, progress: Progress) -> Exported:
    members = list(_members(manifest))
    with EpisodeWriter(root, task=options.task, raw=options.raw) as writer:
        for head, episode in tracked(members, label="export", progress=progress):
            reader = store.open(episode.episode_id, content=episode.content)
            try:
                writer.append(reader, head=head)
            finally:
                reader.close()
    write_tasks(root, list(writer.tasks))
    write_episodes(root, writer.rows)
    _write_json(root / "meta" / "info.json", _info(manifest, writer, storage=options.storage))
    numbers = {key: numeric_summary(read_column(root, key)) for key, entry in writer.features.items() if entry["dtype"] != "video"}
    stats = {key: value for key, value in {**numbers, **writer.image_stats()}.items() if value is not None}
    _write_json(root / "meta" / "stats.json", stats)
    _write_json(root / "meta" / "egodata.json", _origin(manifest, writer))
    unknown = {str(row["egodata/episode_id"]): tuple(row["egodata/unknown"]) for row in writer.rows if row["egodata/unknown"]}
    return Exported(len(writer.rows), writer.frames, writer.video_files, writer.held, unknown, writer.untold)


def _members(manifest: Manifest) -> Iterator[tuple[str, HeadEpisode]]:
    for head, episodes in manifest.heads.items():
        yield from ((head, episode) for episode in episodes)


def _info(manifest: Manifest, writer: EpisodeWriter, *, storage: str) -> dict[str, Any]:
    splits, start = {}, 0
    for head, episodes in manifest.heads.items():
        splits[head] = f"{start}:{start + len(episodes)}"
        start += len(episodes)
    fps = writer.fps
    return {
        "codebase_version": CODEBASE_VERSION,
        "robot_type": writer.embodiment,
        "total_episodes": len(writer.rows),
        "total_frames": writer.frames,
        "total_tasks": len(writer.tasks),
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": DATA_FILE_BYTES >> 20,
        "video_files_size_in_mb": VIDEO_FILE_BYTES >> 20,
        "fps": fps.numerator if fps.denominator == 1 else float(fps),
        "splits": splits,
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if writer.cameras else None,
        "features": writer.features,
        **({"storage_format": "lance"} if storage == "lance" else {}),
    }


def _origin(manifest: Manifest, writer: EpisodeWriter) -> dict[str, Any]:
    return {
        "dataset": manifest.ref,
        "digest": manifest.digest,
        "fps_num": writer.fps.numerator,
        "fps_den": writer.fps.denominator,
        "calibration": writer.calibrations,
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False) + "\n", "utf-8")
