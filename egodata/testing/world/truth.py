"""Ground truth beside a delivery: one npz per episode, byte-equal for equal options."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.pose import pose_from_matrix
from egodata.testing.world.mecka import annotated_spans
from egodata.testing.world.simulate import SimulatedEpisode

FOLDER = "ground_truth"
_DATE = (1980, 1, 1, 0, 0, 0)


def truth_arrays(episode: SimulatedEpisode) -> dict[str, NDArray[Any]]:
    """Return what is true of an episode: T frames, C cubes, Z zones, hands left and right; world frame, metres.

    `head_pose` (T, 7), `keypoints` (T, 2, 21, 3), `delivered` (T, 2), `grasp` (T, 2), `cubes` (C, T, 3), `cube_side` (C,) 0 left,
    `cube_zone` (C, 3), `zones` (Z, 3), `stamps_ns` (T,), `k` (3, 3), `distortion` (4,), and `text` with names and spans as JSON.
    """
    words = {
        "operator": episode.operator.id,
        "environment_id": episode.session.environment_id,
        "task": episode.task,
        "annotated": episode.annotated,
        "cube_colours": [cube.colour for cube in episode.layout.cubes],
        "zone_colours": [zone.colour for zone in episode.layout.zones],
        "spans": [list(span) for span in annotated_spans(episode)],
    }
    return {
        "head_pose": pose_from_matrix(episode.head.world_T_head),
        "keypoints": episode.keypoints_m,
        "delivered": episode.delivered,
        "grasp": episode.grasp,
        "cubes": episode.cubes_m,
        "cube_side": np.array([0 if cube.side == "left" else 1 for cube in episode.layout.cubes], np.uint8),
        "cube_zone": np.stack([cube.zone_m for cube in episode.layout.cubes]),
        "zones": np.stack([zone.centre_m for zone in episode.layout.zones]),
        "stamps_ns": episode.stamps_ns,
        "k": episode.k,
        "distortion": np.array(episode.distortion),
        "text": np.array(json.dumps(words, sort_keys=True)),
    }


def write_truth(delivery: Path, episode: SimulatedEpisode) -> Path:
    """Write an episode's ground truth to ``ground_truth/<id>.npz``."""
    path = delivery / FOLDER / f"{episode.id}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in sorted(truth_arrays(episode).items()):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _DATE), buffer.getvalue(), zipfile.ZIP_DEFLATED)
    return path


def read_truth(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read an episode's ground truth.

    Returns:
        The arrays of `truth_arrays` without `text`, and `text` decoded.
    """
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return arrays, json.loads(str(arrays.pop("text")))
