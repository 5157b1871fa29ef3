"""Write a simulated episode as a Mecka recording: `<id>/` with JSON, video, hands, egomotion, frames, annotations, intrinsics."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from egodata.annotations import frame_at
from egodata.geometry.pose import invert, transform_points
from egodata.geometry.rotation import quat_from_matrix
from egodata.testing.world.habits import hex_id
from egodata.testing.world.plan import Step
from egodata.testing.world.render import render_frames
from egodata.testing.world.simulate import SimulatedEpisode
from egodata.video.write import write_mp4

URL_ROOT = "https://deliveries.example.invalid/mecka"
SCENE_DESCRIPTION = "A person sorts coloured cubes onto coloured zones of a table."
_NS = 1_000_000_000


def recording_files(episode: SimulatedEpisode) -> dict[str, str]:
    """Return the file name of each part that the recording has; annotations only where there are any."""
    names = {
        "video": f"{episode.id}_video.mp4",
        "hands": "hands.csv",
        "egomotion": "egomotion.txt",
        "frames": "frames.csv",
        "annotations": "annotations.csv",
        "intrinsics": "intrinsics.json",
    }
    return {part: name for part, name in names.items() if part != "annotations" or episode.annotated}


def place(delivery: Path, episode: SimulatedEpisode) -> Path:
    """Return the folder of a recording."""
    return delivery / episode.id


def write_recording(delivery: Path, episode: SimulatedEpisode, *, fps: int) -> None:
    """Write one recording's folder.

    Args:
        delivery: Where; it holds no such folder yet.
        episode: The ground truth.
        fps: Frame rate of the video.
    """
    building = place(delivery, episode)
    building.mkdir(parents=True)
    names = recording_files(episode)
    write_mp4(building / names["video"], render_frames(episode), fps=fps)
    (building / names["hands"]).write_text(hands_csv(episode))
    (building / names["egomotion"]).write_text(egomotion_txt(episode))
    (building / names["frames"]).write_text(frames_csv(episode))
    (building / names["intrinsics"]).write_text(json.dumps(intrinsics_json(episode), indent=1) + "\n")
    if "annotations" in names:
        (building / names["annotations"]).write_text(annotations_csv(episode))
    (building / f"{episode.id}.json").write_text(json.dumps(episode_json(episode, names), indent=1) + "\n")


def episode_json(episode: SimulatedEpisode, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the recording's description; URLs end in the names of the files beside it."""
    stamps = episode.stamps_ns
    cubes = [f"{cube.colour} cube" for cube in episode.layout.cubes]
    return {
        "id": episode.id,
        "user_id": episode.operator.id,
        "duration": round(float(stamps[-1] - stamps[0]) / _NS, 3),
        "environment_id": episode.session.environment_id,
        "scene_id": hex_id(episode.session.environment_id, "table"),
        "scene_desc": SCENE_DESCRIPTION,
        "objects": [*cubes, *(f"{zone.colour} zone" for zone in episode.layout.zones)],
        "urls": {part: f"{URL_ROOT}/{episode.id}/{name}" for part, name in names.items()},
    }


def hands_csv(episode: SimulatedEpisode) -> str:
    """Return the keypoints in vendor camera axes; the columns are called `world_*` there although they are not."""
    seen = transform_points(invert(episode.head.world_T_camera)[:, None], episode.keypoints_m)
    lines = ["frame,hand_index,landmark_index,world_x,world_y,world_z"]
    for frame, hand in zip(*np.nonzero(episode.delivered), strict=True):
        for landmark, (x, y, z) in enumerate(seen[frame, hand].tolist()):
            lines.append(f"{frame},{hand},{landmark},{x:.7f},{y:.7f},{z:.7f}")
    return "\n".join(lines) + "\n"


def egomotion_txt(episode: SimulatedEpisode) -> str:
    """Return 11 columns without header: frame, x y z, yaw pitch roll, qx qy qz qw of the vendor camera axes in the world."""
    quat = quat_from_matrix(episode.head.world_T_camera[:, :3, :3])
    rows = zip(episode.head.position_m.tolist(), episode.head.angles_rad.tolist(), np.roll(quat, -1, axis=1).tolist(), strict=True)
    return "".join(f"{frame} " + " ".join(f"{value:.9f}" for part in row for value in part) + "\n" for frame, row in enumerate(rows))


def decimal_seconds(time_ns: int) -> str:
    """Return unix seconds with six decimals; exact for whole microseconds."""
    whole, rest = divmod(int(time_ns), _NS)
    return f"{whole}.{rest // 1000:06d}"


def frames_csv(episode: SimulatedEpisode) -> str:
    """Return the time stamp of each frame."""
    rows = "".join(f"{index},{decimal_seconds(stamp)}\n" for index, stamp in enumerate(episode.stamps_ns.tolist()))
    return f"index,unix_timestamp\n{rows}"


def annotated_spans(episode: SimulatedEpisode) -> list[tuple[str, str, int, int]]:
    """Return (role, text, start, end) with half-open frames, as a reader should find them."""
    steps = [*episode.steps, Step(episode.task, 0.0, episode.times_s[-1] + 1.0)]
    roles = ["subtask"] * len(episode.steps) + ["task"]
    times_ns = np.round(episode.times_s * _NS).astype(np.int64)
    spans = [
        (role, s.text, frame_at(times_ns, int(s.start_s * _NS)), frame_at(times_ns, int(s.end_s * _NS)))
        for role, s in zip(roles, steps, strict=True)
    ]
    return [span for span in spans if span[2] < span[3]]


def annotations_csv(episode: SimulatedEpisode) -> str:
    """Return spans with roles on the clock of the frames; each edge lies half way between two frames."""
    stamps = episode.stamps_ns
    half = (stamps[-1] - stamps[0]) // (2 * (len(stamps) - 1))
    edges = [stamps[0] - half, *((stamps[1:] + stamps[:-1]) // 2), stamps[-1] + half]
    lines = ["label,start_time,end_time,role"]
    for role, text, start, end in annotated_spans(episode):
        lines.append(f"{text.replace(' ', '_')},{decimal_seconds(edges[start])},{decimal_seconds(edges[end])},{role}")
    return "\n".join(lines) + "\n"


def intrinsics_json(episode: SimulatedEpisode) -> dict[str, float]:
    """Return the calibration at the video's own size."""
    k, (width, height) = episode.k, episode.size
    k1, k2, p1, p2 = episode.distortion
    focal = {"fl_x": round(k[0, 0], 6), "fl_y": round(k[1, 1], 6), "cx": round(k[0, 2], 6), "cy": round(k[1, 2], 6)}
    return {"w": width, "h": height, **focal, "k1": k1, "k2": k2, "p1": p1, "p2": p2}
