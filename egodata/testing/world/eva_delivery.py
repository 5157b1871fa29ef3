"""Write a simulated episode as an Eva recording: `episode_<number>.hdf5`, and the config that declares cameras and bases."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from egodata.testing.world.camera import intrinsics
from egodata.testing.world.render import render_frames
from egodata.testing.world.robot import arm_rows, camera_T_bases, robot_variant, wrist_camera
from egodata.testing.world.simulate import SimulatedEpisode
from egodata.testing.world.table import Image, paint_table, pixel_rays, view_table
from egodata.vendors.extras import require

_PACKED: dict[str, Any] = {"compression": "gzip", "compression_opts": 1}
"""Not lzf, whose bytes depend on what was in memory before: equal options would not give equal bytes."""

ZERO_ROWS = 2
"""Rows of nothing at the end of every recording, as real ones have them."""


def variant(episode: SimulatedEpisode) -> SimulatedEpisode:
    """Return what this vendor shows of an episode: a robot does it."""
    return robot_variant(episode)


def place(delivery: Path, episode: SimulatedEpisode) -> Path:
    """Return the HDF5 file of a recording."""
    return delivery / f"episode_{episode.index}.hdf5"


def write_recording(delivery: Path, episode: SimulatedEpisode, *, fps: int) -> None:
    """Write one recording; its images are BGR, and it ends in rows of zeros.

    Args:
        delivery: Where.
        episode: As `variant` gives it.
        fps: Frame rate, which the file has no place for.
    """
    h5py = require("h5py", extra="hdf5", vendor="eva")
    rows, total = arm_rows(episode), episode.frames + ZERO_ROWS
    numbers = {
        "observations/eepose": rows.eepose,
        "observations/joints": rows.joints,
        "observations/joint_positions": rows.joints,
        "actions/eepose": _next(rows.eepose),
        "actions/joints": _next(rows.joints),
        "action": _next(rows.joints),
    }
    with h5py.File(place(delivery, episode), "w") as file:
        for name, values in numbers.items():
            padded = np.zeros((total, values.shape[1] * values.shape[2]))
            padded[: episode.frames] = values.reshape(episode.frames, -1)
            file[name] = padded
        for name, (size, frames) in cameras(episode).items():
            shape = (total, size[1], size[0], 3)
            images = file.create_dataset(f"observations/images/{name}", shape, np.uint8, chunks=(1, *shape[1:]), **_PACKED)
            for number, frame in enumerate(frames()):
                images[number] = frame[..., ::-1]


def cameras(episode: SimulatedEpisode) -> dict[str, tuple[tuple[int, int], Callable[[], Iterator[Image]]]]:
    """Return size and frames (RGB) by name; wrist cameras have half the size and see only the table."""
    half = (episode.size[0] // 4 * 2, episode.size[1] // 4 * 2)
    return {
        "front_img_1": (episode.size, lambda: render_frames(episode)),
        "left_wrist_img": (half, lambda: _table_seen(episode, 0, half)),
        "right_wrist_img": (half, lambda: _table_seen(episode, 1, half)),
    }


def vendor_config(size: tuple[int, int], fps: int) -> str:
    """Return the vendor config that declares what the files do not hold, as YAML.

    Args:
        size: (width, height) of the front camera in pixels.
        fps: Frame rate.
    """
    k = intrinsics(size)
    front: dict[str, Any] = {"w": size[0], "h": size[1], "fx": k[0, 0], "fy": k[1, 1], "cx": k[0, 2], "cy": k[1, 2]}
    declared = {name: float(value) if isinstance(value, np.floating) else value for name, value in front.items()}
    bases = {side: base[:3].tolist() for side, base in zip(("left", "right"), camera_T_bases(), strict=True)}
    return yaml.safe_dump({"fps": fps, "declared_cameras": {"front_1": declared}, "declared_arm_bases": bases}, sort_keys=False)


def _next(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what the robot is told: where it is one row later."""
    return np.concatenate([values[1:], values[-1:]])


def _table_seen(episode: SimulatedEpisode, arm: int, size: tuple[int, int]) -> Iterator[Image]:
    top = paint_table(episode.session, episode.layout, width_px=size[0])
    rays = pixel_rays(size, episode.distortion)
    for pose in wrist_camera(episode, arm):
        yield view_table(top, rays, world_T_head=pose)
