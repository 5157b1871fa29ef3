"""Drawing primitives: filled outlines and dots with a depth, painted far to near with sub-pixel corners.

Corners are int32 in sixteenths of a pixel, which is how OpenCV takes them; pixel-centre coordinates as in `geometry.camera`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import Array

Image = NDArray[np.uint8]
Fixed = NDArray[np.int32]
Colour = tuple[int, int, int]
_SHIFT = 4
_FINGERS = ((0, 1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), (13, 14, 15, 16), (17, 18, 19, 20))
_PALM = [0, 1, 5, 9, 13, 17]
_FINGER_RADIUS_M = np.array([0.0135, 0.0115, 0.0105, 0.0095, 0.0085, *([0.0115, 0.0105, 0.0095, 0.0085] * 4)])
_PALM_RADIUS_M = np.array([0.024, *[0.0115] * 5])
_SLEEVE_RADIUS_M, _MARKER_RADIUS_M = 0.037, 0.0026
_MARKER_ABOVE_M = 0.014
_MARKER: Colour = (252, 252, 248)
_FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
_FACE_LIGHT = (0.70, 0.84, 0.66, 0.80, 0.5, 1.0)
_SHADOW_STEP = 4
_CIRCLE = np.array([(np.cos(turn), np.sin(turn)) for turn in np.arange(16) * np.pi / 8])
_NEAREST_M, _FARTHEST_SLANT = 0.05, 1.55
_BEYOND_SIZES = 1.5


@dataclass(frozen=True, slots=True)
class Shape:
    """Something to fill.

    Attributes:
        depth_m: For painting far to near.
        outline: (N, 2) corners of a convex outline; one point for a dot.
        colour: Fill.
        edge: Outline's colour, or None.
        radius: Of a dot, in sixteenths of a pixel.
    """

    depth_m: float
    outline: Fixed
    colour: Colour
    edge: Colour | None = None
    radius: int = 0


def shade(colour: Colour, light: float) -> Colour:
    """Return a colour made brighter or darker."""
    red, green, blue = (int(min(255, max(0, light * c))) for c in colour)
    return red, green, blue


def fixed(points_px: Array) -> Fixed:
    """Turn pixels into sixteenths."""
    return np.asarray(np.rint(points_px * 2**_SHIFT), np.int32)


def _discs(points_px: Array, radius_px: Array) -> Fixed:
    """Return the rims (N, 16, 2) of discs."""
    return fixed(points_px[:, None] + radius_px[:, None, None] * _CIRCLE)


def _hull(discs: Fixed) -> Fixed:
    return np.asarray(cv2.convexHull(discs.reshape(-1, 2)), np.int32)


def paint(picture: Image, shapes: Sequence[Shape]) -> None:
    """Paint shapes onto an (H, W, 3) picture, the farthest first."""
    line = max(1, picture.shape[1] // 640)
    for shape in sorted(shapes, key=lambda item: -item.depth_m):
        if shape.radius:
            cv2.circle(picture, shape.outline[0].tolist(), shape.radius, shape.colour, -1, cv2.LINE_AA, _SHIFT)
            continue
        cv2.fillConvexPoly(picture, shape.outline, shape.colour, cv2.LINE_AA, _SHIFT)
        if shape.edge is not None:
            cv2.polylines(picture, [shape.outline], True, shape.edge, line, cv2.LINE_AA, _SHIFT)


def box_shapes(pixels: Array, depth_m: float, *, colour: Colour) -> list[Shape]:
    """Return the faces of a box that the camera sees, each with its light.

    Args:
        pixels: (8, 2), corners in the order x, y, z each from - to +, z fastest.
        depth_m: Of its centre.
        colour: Where light falls straight on it.
    """
    corners = fixed(pixels)
    shapes = []
    for face, light in zip(_FACES, _FACE_LIGHT, strict=True):
        quad = corners[list(face)]
        (ax, ay), (bx, by) = (quad[2] - quad[0]).tolist(), (quad[3] - quad[1]).tolist()
        if ax * by - ay * bx < 0:
            fill = shade(colour, light)
            shapes.append(Shape(depth_m, quad, fill, shade(fill, 0.78)))
    return shapes


def sleeve_shapes(pixels: Array, depths_m: Array, *, slant: Array, focal_px: float, colour: Colour) -> list[Shape]:
    """Return the forearm's sleeve, as far as the lens model is meant to see it and straight on from there.

    Args:
        pixels: (N, 2) from the wrist to the elbow.
        depths_m: (N,).
        slant: (N,) tangent of the angle to the optical axis; beyond some value the distortion polynomial folds back.
        focal_px: Focal length.
        colour: Of the sleeve.
    """
    seen = np.cumprod((depths_m > _NEAREST_M) & (slant < _FARTHEST_SLANT)).astype(bool)
    if seen.sum() < 2:
        return []
    pixels, radius = pixels[seen], focal_px * _SLEEVE_RADIUS_M / depths_m[seen]
    along = pixels[-1] - pixels[-2]
    onward = pixels[-1] + _BEYOND_SIZES * focal_px * along / max(float(np.linalg.norm(along)), 1e-9)
    pixels, radius = np.vstack([pixels, onward]), np.append(radius, radius[-1])
    return [Shape(float(depths_m[seen].max()), _hull(_discs(pixels, radius)), colour, shade(colour, 0.7))]


def hand_shapes(pixels: Array, depths_m: Array, *, px_per_rad: float, skin: Colour, markers: bool) -> list[Shape]:
    """Return palm, fingers and joint dots of one hand.

    Args:
        pixels: (21, 2) keypoints.
        depths_m: (21,).
        px_per_rad: Focal length times the hand's scale.
        skin: Colour of skin or glove.
        markers: Whether to add the dots.
    """
    per_m = px_per_rad / depths_m
    edge = shade(skin, 0.66)
    depths = depths_m.tolist()
    palm = _discs(pixels[_PALM], _PALM_RADIUS_M * per_m[_PALM])
    shapes = [Shape(sum(depths[j] for j in _PALM) / len(_PALM), _hull(palm), skin, edge)]
    rims = _discs(pixels, _FINGER_RADIUS_M * per_m)
    for finger in _FINGERS:
        for bone, (near, far) in enumerate(pairwise(finger)):
            outline = _hull(rims[[near, far]])
            shapes.append(Shape((depths[near] + depths[far]) / 2, outline, shade(skin, 1.0 - 0.05 * bone), edge))
    if markers:
        dots = fixed(pixels)
        radii = fixed(np.maximum(1.1, _MARKER_RADIUS_M * per_m)).tolist()
        shapes.extend(Shape(depths[j] - _MARKER_ABOVE_M, dots[j : j + 1], _MARKER, radius=radii[j]) for j in range(21))
    return shapes


def shade_shadows(picture: Image, blobs: Sequence[tuple[Array, float]]) -> None:
    """Darken an (H, W, 3) picture inside the soft hulls of points (N, 2) in pixels, each by its share."""
    height, width = picture.shape[:2]
    small = np.full((height // _SHADOW_STEP, width // _SHADOW_STEP), 255, np.uint8)
    for points, dark in blobs:
        corners = _hull(fixed((points + 0.5) / _SHADOW_STEP - 0.5))
        cv2.fillConvexPoly(small, corners, int(255 * (1 - dark)), cv2.LINE_AA, _SHIFT)
    small = np.asarray(cv2.GaussianBlur(small, (0, 0), 2.2 * width / 640), np.uint8)
    mask = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
    cv2.multiply(picture, cv2.merge([mask, mask, mask]), dst=picture, scale=1 / 255)
