"""The table top as a picture: grain, rim and the coloured zones, mapped into the camera by ray casting."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import Array
from egodata.testing.world.camera import intrinsics
from egodata.testing.world.habits import Session
from egodata.testing.world.layout import COLOURS, ZONE_M, Layout

Image = NDArray[np.uint8]
_ORIGIN_YX_M = (-1.25, -0.35)
_EXTENT_YX_M = (2.5, 2.0)
_TABLE_YX_M = ((-0.72, -0.25), (0.72, 0.86))
_PX_PER_M_AT_640 = 520.0
_SHIFT = 4


@dataclass(frozen=True, slots=True)
class TableTop:
    """A picture of the plane z = 0.

    Attributes:
        picture: (H, W, 3) uint8 RGB; columns along world Y, rows along world X, so that scan lines lie close in memory.
        px_per_m: Scale.
        floor: Colour outside.
    """

    picture: Image
    px_per_m: float
    floor: tuple[int, int, int]


def paint_table(session: Session, layout: Layout, *, width_px: int) -> TableTop:
    """Paint a session's table with an episode's zones.

    Args:
        session: Table and floor colours, grain, light.
        layout: The zones.
        width_px: Width of the video, which decides the picture's resolution.
    """
    scale = _PX_PER_M_AT_640 * max(width_px, 320) / 640
    columns, rows = (round(metres * scale) for metres in _EXTENT_YX_M)
    rng = np.random.default_rng(session.grain)
    picture = np.empty((rows, columns, 3), np.float32)
    picture[:] = session.floor
    picture += _noise(rng, rows, columns, cell_m=(0.012, 0.12), scale=scale)[..., None] * 7
    (x0, y0), (x1, y1) = ((np.array(corner) - _ORIGIN_YX_M) * scale - 0.5 for corner in _TABLE_YX_M)
    top = np.s_[int(y0) : int(y1), int(x0) : int(x1)]
    shape = picture[top].shape[:2]
    picture[top] = session.table
    picture[top] += _noise(rng, *shape, cell_m=(0.22, 0.006), scale=scale)[..., None] * 9
    picture[top] += _noise(rng, *shape, cell_m=(0.3, 0.3), scale=scale)[..., None] * 8
    picture = np.clip(picture * session.light, 0, 255).astype(np.uint8)
    red, green, blue = (int(session.light * c) for c in session.floor)
    rim = tuple(int(0.62 * c) for c in session.table)
    cv2.rectangle(picture, (int(x0), int(y0)), (int(x1), int(y1)), rim, max(2, round(0.012 * scale)), cv2.LINE_AA)
    for zone in layout.zones:
        _paint_zone(picture, zone.centre_m, COLOURS[zone.colour], scale=scale)
    return TableTop(picture, scale, (red, green, blue))


def _pixels(point_m: Array, scale: float) -> Array:
    pixels: Array = (point_m[1::-1] - _ORIGIN_YX_M) * scale - 0.5
    return pixels


def _noise(rng: np.random.Generator, rows: int, columns: int, *, cell_m: tuple[float, float], scale: float) -> NDArray[np.float32]:
    cells = (max(2, round(rows / (cell_m[1] * scale))), max(2, round(columns / (cell_m[0] * scale))))
    coarse = rng.normal(0, 1, cells).astype(np.float32)
    return np.asarray(cv2.resize(coarse, (columns, rows), interpolation=cv2.INTER_CUBIC), np.float32)


def _paint_zone(picture: Image, centre_m: Array, colour: tuple[int, int, int], *, scale: float) -> None:
    half, corner = ZONE_M / 2, 0.018
    inner = half - corner
    centres = [centre_m[:2] + inner * np.array(sign) for sign in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    outline = np.round([_pixels(c, scale) * 2**_SHIFT for c in centres]).astype(np.int32)
    pale = tuple(int(0.45 * c + 0.55 * 255) for c in colour)
    for shade, radius in ((colour, corner), (pale, 0.009), (colour, 0.002)):
        cv2.fillConvexPoly(picture, outline, shade, cv2.LINE_AA, _SHIFT)
        cv2.polylines(picture, [outline], True, shade, max(1, round(2 * radius * scale)), cv2.LINE_AA, _SHIFT)


@lru_cache(maxsize=2)
def pixel_rays(size: tuple[int, int], distortion: tuple[float, ...]) -> NDArray[np.float32]:
    """Return the ray (x, y, 1) through every pixel (H, W, 3), OpenCV axes, lens distortion undone; read-only and kept."""
    grid = np.stack(np.meshgrid(np.arange(size[0]), np.arange(size[1])), -1).reshape(-1, 1, 2).astype(np.float64)
    criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 40, 1e-10)
    plane = cv2.undistortPoints(grid, intrinsics(size), np.array(distortion), None, None, None, criteria)
    rays = np.concatenate([plane[:, 0], np.ones((len(plane), 1))], axis=1)
    field = rays.reshape(size[1], size[0], 3).astype(np.float32)
    field.setflags(write=False)
    return field


def view_table(top: TableTop, rays: NDArray[np.float32], *, world_T_head: Array) -> Image:
    """Show the table to a camera.

    Args:
        top: The painted plane.
        rays: From `pixel_rays`.
        world_T_head: 4x4, OpenCV axes, above the plane and looking down at every pixel's ray.

    Returns:
        (H, W, 3) uint8 RGB.
    """
    rotation, origin = world_T_head[:3, :3], world_T_head[:3, 3]
    down = rotation[2]
    rows: list[Any] = [
        (origin[axis] - start) * top.px_per_m * down - origin[2] * top.px_per_m * rotation[axis] - 0.5 * down
        for axis, start in zip((1, 0), _ORIGIN_YX_M, strict=True)
    ]
    homogeneous = cv2.transform(rays, np.stack([*rows, down]).astype(np.float32))
    where = cv2.convertPointsFromHomogeneous(homogeneous.reshape(-1, 1, 3)).reshape(*rays.shape[:2], 2)
    remap: Any = cv2.remap  # its stubs do not know that one map of two channels comes with None
    return np.asarray(remap(top.picture, where, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=top.floor), np.uint8)
