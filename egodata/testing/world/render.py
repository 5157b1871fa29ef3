"""Draw an episode's frames: table, cubes, sleeves and hands, through the delivered intrinsics and lens distortion.

Everything is projected by `egodata.geometry.camera.project` and drawn far to near with sub-pixel positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.geometry.camera import project
from egodata.geometry.pose import compose, invert, transform_points
from egodata.geometry.rotation import Array, matrix_from_zyx
from egodata.schema.features import SIDES
from egodata.testing.world.camera import VENDOR_DISTORTION
from egodata.testing.world.draw import Shape, box_shape, hand_shapes, paint, shade_shadows, sleeve_shape
from egodata.testing.world.layout import COLOURS, CUBE_M
from egodata.testing.world.simulate import SimulatedEpisode
from egodata.testing.world.table import Image, TableTop, paint_table, pixel_rays, view_table

_ELBOW = np.array([-0.24, 0.40, 0.02])
_SLEEVE_START, _SLEEVE_STEPS = 0.09, 24


@dataclass(frozen=True, slots=True)
class Scene:
    """What stays the same through an episode: its truth, its table, the ray of every pixel."""

    episode: SimulatedEpisode
    top: TableTop
    rays: NDArray[np.float32]


def make_scene(episode: SimulatedEpisode) -> Scene:
    """Prepare an episode for drawing."""
    top = paint_table(episode.session, episode.layout, width_px=episode.size[0])
    return Scene(episode, top, pixel_rays(episode.size))


def render_frame(scene: Scene, frame: int, *, markers: bool = True) -> Image:
    """Draw one frame.

    Args:
        scene: The episode.
        frame: 0 <= frame < T.
        markers: Whether to draw the small white dots on the joints.

    Returns:
        (H, W, 3) uint8 RGB.
    """
    episode = scene.episode
    pose = episode.head.world_T_head[frame]
    camera = _Projector(invert(pose), episode.k)
    picture = view_table(scene.top, scene.rays, pose)
    shade_shadows(picture, _shadows(camera, episode, frame))
    shapes: list[Shape] = []
    still = np.zeros(())
    for cube, centres, yaws in zip(episode.layout.cubes, episode.cubes_m, episode.cubes_yaw_rad, strict=True):
        world_T_cube = compose(matrix_from_zyx(yaws[frame], still, still), centres[frame])
        shapes.extend(box_shape(camera, world_T_cube, size_m=CUBE_M, colour=COLOURS[cube.colour]))
    for hand in range(2):
        points = episode.keypoints_m[frame, hand]
        shapes.append(sleeve_shape(camera, _forearm(points[0], hand), colour=episode.operator.sleeve))
        shapes.extend(hand_shapes(camera, points, skin=episode.operator.skin, scale=episode.operator.hand_scale, markers=markers))
    paint(picture, shapes)
    return picture


def render_frames(episode: SimulatedEpisode, *, markers: bool = True) -> Iterator[Image]:
    """Draw all frames of an episode, one at a time."""
    scene = make_scene(episode)
    for frame in range(episode.frames):
        yield render_frame(scene, frame, markers=markers)


@dataclass(frozen=True, slots=True)
class _Projector:
    """Projects world points; `camera_T_world` has OpenCV axes."""

    camera_T_world: Array
    k: Array

    def project(self, points_m: Array) -> tuple[Array, Array, Array]:
        """Return pixels (N, 2), depths (N,) in metres and slants (N,), the tangents of the angle to the axis, of points (N, 3)."""
        seen = transform_points(self.camera_T_world, points_m)
        depths = seen[:, 2]
        slant = np.hypot(seen[:, 0], seen[:, 1]) / np.where(depths > 0, depths, np.nan)
        return project(seen, self.k, VENDOR_DISTORTION), depths, slant

    @property
    def focal_px(self) -> float:
        """Focal length for sizes of round things."""
        return float(self.k[0, 0])

    @property
    def centre_m(self) -> Array:
        """Camera centre (3,) in the world."""
        centre: Array = invert(self.camera_T_world)[:3, 3]
        return centre


def _forearm(wrist_m: Array, hand: int) -> Array:
    elbow = _ELBOW * (1, 1 if SIDES[hand] == "left" else -1, 1)
    share = np.linspace(_SLEEVE_START, 1, _SLEEVE_STEPS)[:, None]
    points: Array = wrist_m + share * (elbow - wrist_m)
    return points


def _shadows(camera: _Projector, episode: SimulatedEpisode, frame: int) -> list[tuple[Array, float]]:
    """Return polygons on the table in pixels, and how dark each is, for light that falls from above left."""
    blobs = []
    for hand in range(2):
        blobs.append((_drop(camera, episode.keypoints_m[frame, hand]), 0.30))
    for centres in episode.cubes_m:
        corners = centres[frame] + 0.5 * CUBE_M * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        blobs.append((_drop(camera, corners), 0.34))
    return blobs


def _drop(camera: _Projector, points_m: Array) -> Array:
    height = np.maximum(points_m[:, 2:], 0.0)
    ground = np.concatenate([points_m[:, :2] + height * (0.22, -0.28), np.zeros((len(points_m), 1))], axis=1)
    hull = cv2.convexHull(ground[:, :2].astype(np.float32))[:, 0]
    return camera.project(np.concatenate([hull, np.zeros((len(hull), 1))], axis=1))[0]
