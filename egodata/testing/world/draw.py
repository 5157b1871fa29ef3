"""Drawing primitives: filled shapes with a depth, painted far to near with sub-pixel corners."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.geometry.pose import transform_points
from egodata.geometry.rotation import Array

Image = NDArray[np.uint8]
Colour = tuple[int, int, int]
_SHIFT = 4
_FINGERS = ((0, 1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), (13, 14, 15, 16), (17, 18, 19, 20))
_PALM = (0, 1, 5, 9, 13, 17)
_JOINT_RADIUS_M = (0.0135, 0.0115, 0.0105, 0.0095, 0.0085)
_PALM_RADIUS_M, _WRIST_RADIUS_M, _SLEEVE_RADIUS_M = 0.0115, 0.024, 0.037
_MARKER_RADIUS_M = 0.0026
_MARKER: Colour = (252, 252, 248)
_FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
_FACE_LIGHT = (0.70, 0.84, 0.66, 0.80, 0.5, 1.0)
_SHADOW_STEP = 4
_CIRCLE = np.array([(np.cos(turn), np.sin(turn)) for turn in np.arange(16) * np.pi / 8])
_FARTHEST_SLANT = 1.55
_BEYOND_SIZES = 1.5


class Camera(Protocol):
    """What projects world points."""

    def project(self, points_m: Array) -> tuple[Array, Array, Array]:
        """Return pixels (N, 2), depths (N,) in metres and slants (N,), the tangents of the angle to the axis, of points (N, 3)."""
        ...

    @property
    def focal_px(self) -> float:
        """Focal length in pixels."""
        ...

    @property
    def centre_m(self) -> Array:
        """Camera centre (3,)."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """Something to fill: a polygon grown by a radius (a disc for one point, a capsule for two).

    Attributes:
        depth_m: For painting far to near.
        points_px: (N, 2).
        radius_px: (N,) radius at each point; 0 for a bare polygon.
        colour: Fill.
        edge: Outline, or None.
    """

    depth_m: float
    points_px: Array
    radius_px: Array
    colour: Colour
    edge: Colour | None = None


def _shade(colour: Colour, light: float) -> Colour:
    red, green, blue = (int(min(255, max(0, light * c))) for c in colour)
    return red, green, blue


def _fixed(points_px: Array) -> NDArray[np.int32]:
    return np.asarray(np.round(np.asarray(points_px) * 2**_SHIFT), np.int32)


def _outline(points_px: Array, radius_px: Array) -> Array:
    """Return the convex outline (M, 2) of discs."""
    if not radius_px.any():
        return points_px
    around = (points_px[:, None] + radius_px[:, None, None] * _CIRCLE).reshape(-1, 2).astype(np.float32)
    return np.asarray(cv2.convexHull(around)[:, 0], np.float64)


def paint(picture: Image, shapes: Sequence[Shape]) -> None:
    """Paint shapes onto an (H, W, 3) picture, the farthest first; shapes with NaN points are left out."""
    for shape in sorted(shapes, key=lambda item: -item.depth_m):
        if not np.isfinite(shape.points_px).all():
            continue
        if len(shape.points_px) == 1:
            radius = max(1, round(float(shape.radius_px[0]) * 2**_SHIFT))
            cv2.circle(picture, _fixed(shape.points_px[0]).tolist(), radius, shape.colour, -1, cv2.LINE_AA, _SHIFT)
            continue
        outline = _fixed(_outline(shape.points_px, shape.radius_px))
        cv2.fillConvexPoly(picture, outline, shape.colour, cv2.LINE_AA, _SHIFT)
        if shape.edge is not None:
            cv2.polylines(picture, [outline], True, shape.edge, max(1, picture.shape[1] // 640), cv2.LINE_AA, _SHIFT)


def box_shape(camera: Camera, world_T_box: Array, *, size_m: float, colour: Colour) -> list[Shape]:
    """Return the faces of a cube that the camera sees, each with its light."""
    corners = 0.5 * size_m * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float64)
    world = transform_points(world_T_box, corners)
    pixels, depths, _ = camera.project(world)
    centre = world.mean(axis=0)
    depth = float(depths.mean())
    shapes = []
    for face, light in zip(_FACES, _FACE_LIGHT, strict=True):
        middle = world[list(face)].mean(axis=0)
        if np.dot(middle - centre, camera.centre_m - middle) > 0:
            fill = _shade(colour, light)
            shapes.append(Shape(depth, pixels[list(face)], np.zeros(4), fill, _shade(fill, 0.78)))
    return shapes


def sleeve_shape(camera: Camera, points_m: Array, *, colour: Colour) -> Shape:
    """Return the forearm's sleeve along points (N, 3) from the wrist to the elbow, as far as the camera sees it."""
    pixels, depths, slant = camera.project(points_m)
    seen = np.cumprod((depths > 0.05) & (slant < _FARTHEST_SLANT)).astype(bool)
    pixels, radius = pixels[seen], camera.focal_px * _SLEEVE_RADIUS_M / depths[seen]
    if len(pixels) > 1:
        onward = pixels[-1] + _BEYOND_SIZES * camera.focal_px * _unit(pixels[-1] - pixels[-2])
        pixels, radius = np.vstack([pixels, onward]), np.append(radius, radius[-1])
    return Shape(float(depths[seen].max(initial=0.0)), pixels, radius, colour, _shade(colour, 0.7))


def _unit(vector: Array) -> Array:
    unit: Array = vector / max(float(np.linalg.norm(vector)), 1e-9)
    return unit


def hand_shapes(camera: Camera, points_m: Array, *, skin: Colour, scale: float, markers: bool) -> list[Shape]:
    """Return palm, fingers and joint dots of one hand.

    Args:
        camera: Projects world points.
        points_m: (21, 3) keypoints in the world.
        skin: Colour of skin or glove.
        scale: Size of the hand.
        markers: Whether to add the dots.
    """
    pixels, depths, _ = camera.project(points_m)
    per_m = camera.focal_px * scale / depths
    edge = _shade(skin, 0.66)
    palm = list(_PALM)
    widths = np.array([_WRIST_RADIUS_M, *[_PALM_RADIUS_M] * 5]) * per_m[palm]
    shapes = [Shape(float(depths[palm].mean()), pixels[palm], widths, skin, edge)]
    for finger in _FINGERS:
        radii = _JOINT_RADIUS_M[5 - len(finger) :]
        for bone, (near, far) in enumerate(pairwise(finger)):
            ends = [near, far]
            light = 1.0 - 0.05 * bone
            depth = float(depths[ends].mean())
            width = np.array(radii[bone : bone + 2]) * per_m[ends]
            shapes.append(Shape(depth, pixels[ends], width, _shade(skin, light), edge))
    if markers:
        radius = np.maximum(1.1, _MARKER_RADIUS_M * per_m)
        above = 0.014
        shapes.extend(Shape(float(depths[j]) - above, pixels[j : j + 1], radius[j : j + 1], _MARKER) for j in range(21))
    return shapes


def shade_shadows(picture: Image, blobs: Sequence[tuple[Array, float]]) -> None:
    """Darken an (H, W, 3) picture inside soft polygons (N, 2) in pixels, each by its share."""
    height, width = picture.shape[:2]
    small = np.full((height // _SHADOW_STEP, width // _SHADOW_STEP), 255, np.uint8)
    for points, dark in blobs:
        if np.isfinite(points).all():
            corners = _fixed((points + 0.5) / _SHADOW_STEP - 0.5)
            cv2.fillConvexPoly(small, corners, int(255 * (1 - dark)), cv2.LINE_AA, _SHIFT)
    small = cv2.GaussianBlur(small, (0, 0), 2.2 * width / 640)
    mask = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
    cv2.multiply(picture, cv2.merge([mask, mask, mask]), dst=picture, scale=1 / 255)
