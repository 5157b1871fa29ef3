"""Draw an episode's frames: table, cubes, sleeves and hands, through the delivered intrinsics and lens distortion.

Everything is projected by `egodata.geometry.camera.project`, for all frames at once, and drawn far to near.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.camera import project
from egodata.geometry.pose import compose, invert, transform_points
from egodata.geometry.rotation import Array, matrix_from_zyx
from egodata.testing.world.draw import Shape, box_shapes, hand_shapes, paint, shade_shadows, sleeve_shapes
from egodata.testing.world.layout import COLOURS, CUBE_M
from egodata.testing.world.simulate import SimulatedEpisode
from egodata.testing.world.table import Image, TableTop, paint_table, pixel_rays, view_table

_ELBOW_M = np.array([[-0.24, 0.40, 0.02], [-0.24, -0.40, 0.02]])
_SLEEVE = np.linspace(0.09, 1.0, 24)[:, None]
_SUN = np.array([0.22, -0.28])
_HAND_SHADOW, _CUBE_SHADOW = 0.30, 0.34
_CORNERS = 0.5 * CUBE_M * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float64)


@dataclass(frozen=True, slots=True)
class Seen:
    """Points as the camera sees them, for every frame (first axis).

    Attributes:
        pixels: (T, ..., 2).
        depths_m: (T, ...).
        slant: (T, ...) tangent of the angle to the optical axis.
    """

    pixels: Array
    depths_m: Array
    slant: Array


@dataclass(frozen=True, slots=True)
class Scene:
    """An episode prepared for drawing: its table, the ray of every pixel, and everything else in pixels.

    `hands` (T, 2, 21), `sleeves` (T, 2, 24), `cubes` (T, C, 8), and the points that `hand_shadows` (T, 2, 21) and
    `cube_shadows` (T, C, 8) throw on the table.
    """

    episode: SimulatedEpisode
    world_T_head: Array
    top: TableTop
    rays: NDArray[np.float32]
    hands: Seen
    sleeves: Seen
    cubes: Seen
    hand_shadows: Seen
    cube_shadows: Seen


def make_scene(episode: SimulatedEpisode) -> Scene:
    """Prepare an episode for drawing."""
    world_T_head = episode.head.world_T_head
    head_T_world = invert(world_T_head)[:, None]
    wrists = episode.keypoints_m[:, :, :1]
    level = np.zeros_like(episode.cubes_yaw_rad)
    turned = compose(matrix_from_zyx(episode.cubes_yaw_rad, level, level), episode.cubes_m)
    boxes = np.swapaxes(transform_points(turned, _CORNERS), 0, 1)

    def see(points_m: Array) -> Seen:
        inside = transform_points(head_T_world, points_m)
        depths = inside[..., 2]
        slant = np.hypot(inside[..., 0], inside[..., 1]) / np.where(depths > 0, depths, np.nan)
        return Seen(project(inside, episode.k, episode.distortion), depths, slant)

    return Scene(
        episode=episode,
        world_T_head=world_T_head,
        top=paint_table(episode.session, episode.layout, width_px=episode.size[0]),
        rays=pixel_rays(episode.size, episode.distortion),
        hands=see(episode.keypoints_m),
        sleeves=see(wrists + _SLEEVE * (_ELBOW_M[:, None] - wrists)),
        cubes=see(boxes),
        hand_shadows=see(_dropped(episode.keypoints_m)),
        cube_shadows=see(_dropped(boxes)),
    )


def _dropped(points_m: Array) -> Array:
    """Return where points (..., 3) throw their shadow on the table."""
    ground = points_m[..., :2] + np.maximum(points_m[..., 2:], 0.0) * _SUN
    return np.concatenate([ground, np.zeros_like(points_m[..., 2:])], axis=-1)


def render_frame(scene: Scene, frame: int, *, markers: bool = True) -> Image:
    """Draw one frame.

    Args:
        scene: The episode.
        frame: 0 <= frame < T.
        markers: Whether to draw the small white dots on the joints.

    Returns:
        (H, W, 3) uint8 RGB.
    """
    person, focal = scene.episode.operator, float(scene.episode.k[0, 0])
    picture = view_table(scene.top, scene.rays, world_T_head=scene.world_T_head[frame])
    blobs = [(points, _HAND_SHADOW) for points in scene.hand_shadows.pixels[frame]]
    blobs += [(points, _CUBE_SHADOW) for points in scene.cube_shadows.pixels[frame]]
    shade_shadows(picture, blobs)
    shapes: list[Shape] = []
    for index, cube in enumerate(scene.episode.layout.cubes):
        depth = float(scene.cubes.depths_m[frame, index].mean())
        shapes += box_shapes(scene.cubes.pixels[frame, index], depth, colour=COLOURS[cube.colour])
    for hand in range(2):
        arm = scene.sleeves
        slant = arm.slant[frame, hand]
        shapes += sleeve_shapes(arm.pixels[frame, hand], arm.depths_m[frame, hand], slant=slant, focal_px=focal, colour=person.sleeve)
        pixels, depths = scene.hands.pixels[frame, hand], scene.hands.depths_m[frame, hand]
        shapes += hand_shapes(pixels, depths, px_per_rad=focal * person.hand_scale, skin=person.skin, markers=markers)
    paint(picture, shapes)
    return picture


def render_frames(episode: SimulatedEpisode, *, markers: bool = True) -> Iterator[Image]:
    """Draw all frames of an episode, one at a time."""
    scene = make_scene(episode)
    for frame in range(episode.frames):
        yield render_frame(scene, frame, markers=markers)
