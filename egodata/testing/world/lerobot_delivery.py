"""Write simulated episodes as a LeRobot v3.0 dataset: a few episodes per parquet and per video file, human columns."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from egodata.geometry.pose import pose_from_matrix
from egodata.schema.features import SIDES
from egodata.testing.world.render import render_frames
from egodata.testing.world.simulate import SimulatedEpisode
from egodata.video.write import write_mp4

CAMERA = "observation.images.head"
COLUMNS = {"head": "observation.head_pose", "left": "observation.left_keypoints", "right": "observation.right_keypoints"}
EPISODES_PER_FILE = 2
_DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"


def variant(episode: SimulatedEpisode) -> SimulatedEpisode:
    """Return what this vendor shows of an episode: all of it."""
    return episode


def place(delivery: Path, episode: SimulatedEpisode) -> Path:
    """Return the parquet part of a recording, from which the shared files are made."""
    return delivery / "ground_truth" / "lerobot_parts" / f"{episode.index:06d}.parquet"


def write_recording(delivery: Path, episode: SimulatedEpisode, *, fps: int) -> None:
    """Write the rows of one recording; `finish` joins recordings into files."""
    path = place(delivery, episode)
    path.parent.mkdir(parents=True, exist_ok=True)
    total = episode.frames
    points = np.where(episode.delivered[..., None, None], episode.keypoints_m, np.nan).reshape(total, 2, 63)
    head = pose_from_matrix(episode.head.world_T_head)
    columns: dict[str, Any] = {COLUMNS["head"]: list(head.astype(np.float32))}
    columns |= {COLUMNS[side]: list(points[:, hand].astype(np.float32)) for hand, side in enumerate(SIDES)}
    columns |= {
        "timestamp": (np.arange(total) / fps).astype(np.float32),
        "frame_index": np.arange(total),
        "episode_index": np.full(total, episode.index),
        "task_index": np.full(total, episode.index),
    }
    pq.write_table(pa.table(columns), path)


def finish(delivery: Path, episodes: Sequence[SimulatedEpisode], *, fps: int) -> None:
    """Write the files that recordings share, and the meta folder."""
    rows: list[dict[str, Any]] = []
    start = 0
    for number in range(-(-len(episodes) // EPISODES_PER_FILE)):
        group = episodes[number * EPISODES_PER_FILE : (number + 1) * EPISODES_PER_FILE]
        at = {"chunk_index": 0, "file_index": number}
        parts = [pq.read_table(place(delivery, episode)) for episode in group]
        sizes = [part.num_rows for part in parts]
        table = pa.concat_tables(parts).append_column("index", pa.array(np.arange(start, start + sum(sizes))))
        data, video = delivery / _DATA.format(**at), delivery / _VIDEO.format(**at, video_key=CAMERA)
        for path in (data, video):
            path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, data)
        write_mp4(video, chain.from_iterable(render_frames(episode) for episode in group), fps=fps)
        first = 0
        for episode, size in zip(group, sizes, strict=True):
            rows.append(_listed(episode, at, rows=(start + first, size), first=first, fps=fps))
            first += size
        start += sum(sizes)
    _write_meta(delivery, episodes, rows, fps)


def _listed(episode: SimulatedEpisode, at: dict[str, int], *, rows: tuple[int, int], first: int, fps: int) -> dict[str, Any]:
    start, size = rows
    return {
        "episode_index": episode.index,
        "tasks": [episode.task],
        "length": size,
        "dataset_from_index": start,
        "dataset_to_index": start + size,
        **{f"data/{name}": value for name, value in at.items()},
        **{f"videos/{CAMERA}/{name}": value for name, value in at.items()},
        f"videos/{CAMERA}/from_timestamp": first / fps,
        f"videos/{CAMERA}/to_timestamp": (first + size) / fps,
    }


def _write_meta(delivery: Path, episodes: Sequence[SimulatedEpisode], rows: list[dict[str, Any]], fps: int) -> None:
    width, height = episodes[0].size
    numbers = {COLUMNS["head"]: 7, COLUMNS["left"]: 63, COLUMNS["right"]: 63}
    info = {
        "codebase_version": "v3.0",
        "robot_type": "human",
        "total_episodes": len(episodes),
        "total_frames": sum(row["length"] for row in rows),
        "fps": fps,
        "chunks_size": 1000,
        "data_path": _DATA,
        "video_path": _VIDEO,
        "features": {
            **{name: {"dtype": "float32", "shape": [size], "names": None} for name, size in numbers.items()},
            CAMERA: {
                "dtype": "video",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
                "info": {"video.codec": "h264", "video.pix_fmt": "yuv420p", "has_audio": False},
            },
        },
    }
    path = delivery / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    tasks = {"task_index": [episode.index for episode in episodes], "task": [episode.task for episode in episodes]}
    pq.write_table(pa.table(tasks), delivery / "meta" / "tasks.parquet")
    (delivery / "meta" / "info.json").write_text(json.dumps(info, indent=1) + "\n")


def vendor_config(size: tuple[int, int], fps: int) -> str:
    """Return the vendor config that names the human columns, as YAML.

    Args:
        size: Unused; other vendors' configs depend on it.
        fps: Unused.
    """
    return yaml.safe_dump({"cameras": {CAMERA: "front_1"}, "human": dict(COLUMNS)}, sort_keys=False)
