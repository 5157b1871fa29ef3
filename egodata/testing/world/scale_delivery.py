"""Write a simulated episode as a Scale recording: `<id>/` with a scene, an annotation JSON and the left_rectified video."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from egodata.geometry.rotation import quat_from_matrix
from egodata.schema.features import SIDES
from egodata.testing.world.mecka import annotated_spans
from egodata.testing.world.pinhole import rectified
from egodata.testing.world.render import render_frames
from egodata.testing.world.simulate import SimulatedEpisode
from egodata.vendors.extras import require
from egodata.video.write import write_mp4

MISSING = 1e9
NUL_BYTES = 3
_FINGERS = ("thumb", "index", "middle", "ring", "pinky")
_NAMES = ["hand_wrist"] + [f"hand_{finger}{joint}" for finger in _FINGERS for joint in range(1, 5)]


def variant(episode: SimulatedEpisode) -> SimulatedEpisode:
    """Return what this vendor shows of an episode: rectified frames."""
    return rectified(episode)


def place(delivery: Path, episode: SimulatedEpisode) -> Path:
    """Return the folder of a recording."""
    return delivery / episode.id


def write_recording(delivery: Path, episode: SimulatedEpisode, *, fps: int) -> None:
    """Write one recording's folder.

    Args:
        delivery: Where; it holds no such folder yet.
        episode: As `variant` gives it.
        fps: Frame rate of the video.
    """
    library = require("scale_json_binary", extra="scale", vendor="scale")
    folder = place(delivery, episode)
    folder.mkdir(parents=True)
    write_mp4(folder / "left_rectified.mp4", render_frames(episode), fps=fps)
    library.write_file(str(folder / f"{episode.id}.sfs"), scene(episode))
    text = json.dumps(annotation(episode), indent=1)
    (folder / f"{episode.id}_annotations.json").write_bytes(text.encode() + bytes(NUL_BYTES))


def scene(episode: SimulatedEpisode) -> dict[str, Any]:
    """Return the scene: the camera, and one that nobody reads."""
    pose = episode.head.world_T_head
    values = np.concatenate([pose[:, :3, 3], np.roll(quat_from_matrix(pose[:, :3, :3]), -1, axis=1)], axis=1)
    stamps_us = episode.stamps_ns // 1000
    (width, height), k = episode.size, episode.k
    focal = {"fx": float(k[0, 0]), "fy": float(k[1, 1]), "cx": float(k[0, 2]), "cy": float(k[1, 2])}
    camera = {
        "id": "left_rectified",
        "type": "camera",
        "poses": {"timestamps": stamps_us, "values": values},
        "intrinsics": {**focal, "width": width, "height": height},
    }
    other = {**camera, "id": "right_rectified", "poses": {"timestamps": stamps_us, "values": values + np.eye(7)[0] * 0.12}}
    return {"version": "1.0", "sensors": [other, camera], "time_unit": "microseconds"}


def annotation(episode: SimulatedEpisode) -> dict[str, Any]:
    """Return the annotation JSON: a path per point, sub-goals where there are annotations, and the task."""
    labels, paths = [], []
    stamps_us = (episode.stamps_ns // 1000).tolist()
    for hand, side in enumerate(SIDES):
        there = episode.delivered[:, hand, None, None]
        points = np.where(there, episode.keypoints_m[:, hand], MISSING)
        for index, name in enumerate(_NAMES):
            labels.append(f"{side}_{name}")
            paths.append({"timestamps": stamps_us, "values": points[:, index].round(9).tolist()})
    items: list[dict[str, Any]] = [{"type": "points", "labels": labels, "paths": paths}]
    if episode.annotated:
        items.append({"type": "text_annotation", "label": "Sub-goal", "clips": sub_goals(episode)})
    return {"annotations": items, "attributes": [{"name": "Demonstration", "values": [episode.task]}]}


def sub_goals(episode: SimulatedEpisode) -> list[dict[str, Any]]:
    """Return a clip per step; each edge is the time of a frame: of the first one inside, and of the first one behind."""
    stamps = episode.stamps_ns // 1000
    half = (stamps[-1] - stamps[0]) // (2 * (len(stamps) - 1))
    edges = [*stamps, stamps[-1] + half]
    return [
        {
            "timestamp": int(edges[start]),
            "duration": int(edges[end] - edges[start]),
            "text": text,
            "attributes": [{"name": "Hand", "values": ["Both"]}],
        }
        for role, text, start, end in annotated_spans(episode)
        if role == "subtask"
    ]
