"""Write a simulated episode as Aria MPS output: hands in the device, and the device's trajectory. Poses only; VRS cannot be written.

The device of this world is its head camera.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.pose import invert, pose_from_matrix, transform_points
from egodata.schema.features import SIDES
from egodata.testing.world.simulate import SimulatedEpisode

_FINGERS = ("thumb", "index", "middle", "ring", "little")
LANDMARKS = (
    *(f"{finger}_tip" for finger in _FINGERS),
    "wrist",
    "thumb_2",
    "thumb_3",
    *(f"{finger}_{joint}" for finger in _FINGERS[1:] for joint in (1, 2, 3)),
    "palm",
)
"""Aria's order in words."""

_DIGITS = 9


def variant(episode: SimulatedEpisode) -> SimulatedEpisode:
    """Return what this vendor shows of an episode: all of it but the pictures."""
    return episode


def place(delivery: Path, episode: SimulatedEpisode) -> Path:
    """Return the MPS folder of a recording."""
    return delivery / f"mps_{episode.id}_vrs"


def write_recording(delivery: Path, episode: SimulatedEpisode, *, fps: int) -> None:
    """Write the two tables of one recording.

    Args:
        delivery: Where.
        episode: As `variant` gives it.
        fps: Unused: rows have the time of the frames.
    """
    folder = place(delivery, episode)
    for name in ("hand_tracking", "slam"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    stamps_us = device_stamps_us(episode)
    _write_track(folder / "slam" / "closed_loop_trajectory.csv", episode, stamps_us)
    _write_hands(folder / "hand_tracking" / "hand_tracking_results.csv", episode, stamps_us)


def device_stamps_us(episode: SimulatedEpisode) -> NDArray[np.int64]:
    """Return the frames' times on the device's clock, microseconds since it was started."""
    since: NDArray[np.int64] = (episode.stamps_ns - episode.stamps_ns[0]) // 1000 + 7_000_000
    return since


def _write_track(path: Path, episode: SimulatedEpisode, stamps_us: NDArray[np.int64]) -> None:
    poses = pose_from_matrix(episode.head.world_T_head)
    names = "graph_uid,tracking_timestamp_us,utc_timestamp_ns," + ",".join(
        f"{name}_world_device" for name in ("tx", "ty", "tz", "qx", "qy", "qz", "qw")
    )
    lines = [names + ",quality_score"]
    for stamp, unix, (x, y, z, qw, qx, qy, qz) in zip(stamps_us, episode.stamps_ns, poses, strict=True):
        numbers = ",".join(f"{value:.{_DIGITS}f}" for value in (x, y, z, qx, qy, qz, qw))
        lines.append(f"{episode.id},{stamp},{unix},{numbers},1.0")
    path.write_text("\n".join(lines) + "\n")


def _write_hands(path: Path, episode: SimulatedEpisode, stamps_us: NDArray[np.int64]) -> None:
    head_T_world = invert(episode.head.world_T_head)
    header, blocks = ["tracking_timestamp_us"], []
    for hand, side in enumerate(SIDES):
        header.append(f"{side}_tracking_confidence")
        header += [f"t{axis}_{side}_landmark_{number}_device" for number in range(len(LANDMARKS)) for axis in "xyz"]
        points = transform_points(head_T_world, episode.keypoints_m[:, hand])
        landmarks = np.stack([_landmark(points, name) for name in LANDMARKS], axis=1).reshape(len(points), -1)
        there = episode.delivered[:, hand, None]
        blocks.append(np.concatenate([np.where(there, 0.99, -1.0), np.where(there, landmarks, 0.0)], axis=1))
    rows = np.concatenate(blocks, axis=1)
    lines = [",".join(header)]
    lines += [f"{stamp}," + ",".join(f"{value:.{_DIGITS}g}" for value in row) for stamp, row in zip(stamps_us, rows, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def _landmark(points: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Return (T, 3) of an Aria landmark from MANO points (T, 21, 3)."""
    if name == "wrist":
        return points[:, 0]
    if name == "palm":
        palm: NDArray[np.float64] = points[:, [0, 5, 9, 13, 17]].mean(1)
        return palm
    finger, _, joint = name.partition("_")
    return points[:, 4 * _FINGERS.index(finger) + (4 if joint == "tip" else int(joint))]
