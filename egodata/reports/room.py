"""An episode without a camera, seen from outside: a made camera at the side that shows all of its poses, upright."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from egodata.calibration import CameraCalibration, pinhole_matrix
from egodata.episode import EpisodeReader
from egodata.errors import InputError
from egodata.geometry.pose import invert, matrix_from_pose
from egodata.geometry.rotation import Array
from egodata.reports.sketch import Image, draw_curve, draw_dot, draw_line
from egodata.reports.tracks import Tracks, load_tracks
from egodata.schema.features import HEAD_POSE

SIZE_PX = (640, 360)
_FILLED = 0.72
_FAR = 6.0
_LEAST_M = 0.3
_GROUND = (36, 38, 44)
_HEAD = (196, 200, 210)
_AXES = ((238, 58, 58), (70, 214, 84), (84, 122, 255))
_AXIS_SHARE = 0.06
_UPRIGHT = 0.7
"""Length of the mean of unit vectors from which on they agree."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is drawn of an episode without a camera.

    Attributes:
        tracks: Its numbers, with the made camera.
        head: ``world_T_head`` (T, 4, 4), NaN where unknown; None where the episode has no head.
        wide_m: Width of the picture in metres, at the middle of the poses.
    """

    tracks: Tracks
    head: Array | None
    wide_m: float


def load_room(reader: EpisodeReader) -> Room:
    """Read an episode's numbers with a camera that stands at its side.

    Down in the picture is the mean down of the head camera, or -z of the world where that turns about or no head pose is known; the view
    is along the horizontal direction in which the poses spread least. An episode of joints alone gets no camera.

    Raises:
        InputError: The episode has neither poses nor joints.
    """
    tracks = load_tracks(reader, "")
    head = head_poses(reader)
    places = _places(tracks, head)
    if not len(places):
        if not tracks.joints:
            raise InputError(f"episode {reader.meta.episode_id}: no camera, no valid pose and no joints: nothing to draw.")
        return Room(replace(tracks, why_not="no camera and no valid pose"), None, 1.0)
    world_T_camera, f_px, wide_m = _stand(places, _down(head))
    camera = CameraCalibration(pinhole_matrix(f_px, f_px, (SIZE_PX[0] - 1) / 2, (SIZE_PX[1] - 1) / 2), "PINHOLE", (), SIZE_PX)
    rows = np.broadcast_to(invert(world_T_camera), (reader.meta.total_frames, 4, 4))
    said = f"no camera: poses seen from the side, the picture is {wide_m:.1f} m wide"
    return Room(replace(tracks, camera=camera, camera_T_world=rows, why_not=said, bases={}), head, wide_m)


def head_poses(reader: EpisodeReader) -> Array | None:
    """Return ``world_T_head`` (T, 4, 4), NaN where unknown; None where the episode has no head."""
    if HEAD_POSE not in reader.meta.features:
        return None
    rows = reader.rows([HEAD_POSE], [(0, reader.meta.total_frames)])[HEAD_POSE]
    return matrix_from_pose(np.asarray(rows, np.float64))


def empty_room() -> Image:
    """Return the picture to draw on."""
    return np.full((SIZE_PX[1], SIZE_PX[0], 3), _GROUND, np.uint8)


def draw_head(picture: Image, room: Room, *, frame: int) -> None:
    """Draw the head's way so far and its axes now: x red, y green, z (where it looks) blue."""
    head, tracks = room.head, room.tracks
    if head is None:
        return
    size = (int(picture.shape[1]), int(picture.shape[0]))
    unit, length_m = size[0] / 640, _AXIS_SHARE * room.wide_m
    way = tracks.pixels(head[: frame + 1, :3, 3], frame=frame, size=size)
    draw_curve(picture, way, colour=_HEAD, width_px=1.4 * unit)
    if not np.isfinite(head[frame]).all():
        return
    ends = head[frame, :3, 3] + length_m * np.concatenate([np.zeros((1, 3)), head[frame, :3, :3].T])
    pixels = tracks.pixels(ends, frame=frame, size=size)
    for axis, colour in enumerate(_AXES):
        draw_line(picture, pixels[[0, 1 + axis]], colour=colour, width_px=1.8 * unit)
    draw_dot(picture, pixels[0], colour=_HEAD, radius_px=3 * unit)


def _places(tracks: Tracks, head: Array | None) -> NDArray[np.float64]:
    found = [] if head is None else [head[:, :3, 3]]
    for track in tracks.hands.values():
        found += [] if track.keypoints_m is None else [track.keypoints_m.reshape(-1, 3)]
        found += [] if track.poses is None else [track.poses[:, :3, 3]]
    every = np.concatenate(found) if found else np.empty((0, 3))
    return every[np.isfinite(every).all(axis=1)]


def _down(head: Array | None) -> NDArray[np.float64]:
    seen = np.empty((0, 3)) if head is None else head[np.isfinite(head).all(axis=(1, 2)), :3, 1]
    mean = seen.mean(axis=0) if len(seen) else np.zeros(3)
    length = float(np.linalg.norm(mean))
    return mean / length if length > _UPRIGHT else np.array([0.0, 0.0, -1.0])


def _stand(places: NDArray[np.float64], down: NDArray[np.float64]) -> tuple[Array, float, float]:
    """Return pose and focal length in pixels of a camera that sees all places, and the width in metres of what it sees."""
    low, high = np.percentile(places, [0.5, 99.5], axis=0)
    centre = (low + high) / 2
    level = places - centre
    level = level - np.outer(level @ down, down)
    _, directions = np.linalg.eigh(level.T @ level + 1e3 * len(level) * np.outer(down, down))
    right = directions[:, 1]  # eigenvalues grow: least spread, most spread, down
    right = right if right[int(np.argmax(np.abs(right)))] > 0 else -right
    rotation = np.stack([right, down, np.cross(right, down)], axis=1)
    seen = (places - centre) @ rotation
    reach = np.maximum(np.percentile(np.abs(seen), 99.5, axis=0), _LEAST_M / 2)
    far = _FAR * float(reach.max())
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, centre - far * rotation[:, 2]
    scale = _FILLED * min(SIZE_PX[0] / (2 * reach[0]), SIZE_PX[1] / (2 * reach[1]))
    return pose, float(far * scale), float(SIZE_PX[0] / scale)
