"""Write a simulated episode as an EgoDex recording: `cubes/<number>.hdf5` and the video beside it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.pose import compose
from egodata.geometry.rotation import Array
from egodata.schema.features import SIDES
from egodata.testing.world.pinhole import rectified
from egodata.testing.world.render import render_frames
from egodata.testing.world.simulate import SimulatedEpisode
from egodata.vendors.extras import require
from egodata.video.write import write_mp4

_FINGERS = ("Index", "Middle", "Ring", "Little")
_PARTS = ("Knuckle", "IntermediateBase", "IntermediateTip", "Tip")
_CONFIDENCE = 0.9


def variant(episode: SimulatedEpisode) -> SimulatedEpisode:
    """Return what this vendor shows of an episode: frames without distortion."""
    return rectified(episode)


def place(delivery: Path, episode: SimulatedEpisode) -> Path:
    """Return the HDF5 file of a recording."""
    return delivery / "cubes" / f"{episode.index}.hdf5"


def write_recording(delivery: Path, episode: SimulatedEpisode, *, fps: int) -> None:
    """Write the two files of one recording.

    Args:
        delivery: Where.
        episode: As `variant` gives it.
        fps: Frame rate of the video.
    """
    h5py = require("h5py", extra="hdf5", vendor="egodex")
    path = place(delivery, episode)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_mp4(path.with_suffix(".mp4"), render_frames(episode), fps=fps)
    with h5py.File(path, "w") as file:
        file["camera/intrinsic"] = episode.k.astype(np.float32)
        file["transforms/camera"] = episode.head.world_T_head.astype(np.float32)
        for hand, side in enumerate(SIDES):
            for name, points in joints(episode.keypoints_m[:, hand], side).items():
                transforms = compose(episode.world_T_wrist[:, hand, :3, :3], held(points, episode.delivered[:, hand]))
                file[f"transforms/{name}"] = transforms.astype(np.float32)
                file[f"confidences/{name}"] = np.where(episode.delivered[:, hand], _CONFIDENCE, 0.0).astype(np.float32)
        file["transforms/hip"] = np.tile(np.eye(4, dtype=np.float32), (episode.frames, 1, 1))
        words = {
            "llm_description": episode.task,
            "llm_type": "reset-free",
            "task": "sort_cubes",
            "environment": episode.session.environment_id,
            "session_name": f"{episode.session.start_s}",
        }
        for name, text in words.items():
            file.attrs[name] = text


def joints(points_m: Array, side: str) -> dict[str, Array]:
    """Name a hand's points as EgoDex does, 25 joints: the 21 of MANO and four metacarpals half way to the knuckles.

    Args:
        points_m: (T, 21, 3), MANO order.
        side: ``left`` or ``right``.

    Returns:
        By joint, (T, 3).
    """
    found = {f"{side}Hand": points_m[:, 0]}
    thumb = ("Knuckle", "IntermediateBase", "IntermediateTip", "Tip")
    found |= {f"{side}Thumb{part}": points_m[:, 1 + number] for number, part in enumerate(thumb)}
    for number, finger in enumerate(_FINGERS):
        first = 5 + 4 * number
        found |= {f"{side}{finger}Finger{part}": points_m[:, first + joint] for joint, part in enumerate(_PARTS)}
        found[f"{side}{finger}FingerMetacarpal"] = (points_m[:, 0] + points_m[:, first]) / 2
    return found


def held(points_m: Array, delivered: NDArray[np.bool_]) -> Array:
    """Return points (T, 3) as a tracker gives them that has lost a hand: the last place stays, only the confidence says so."""
    rows = np.maximum.accumulate(np.where(delivered, np.arange(len(points_m)), 0))
    kept: Array = points_m[rows]
    return kept
