"""Lines, dots and captions on pictures, with sub-pixel positions and a dark rim that keeps them readable on anything.

Pictures are (H, W, 3) uint8 RGB and are changed in place; positions are pixel-centre coordinates; NaN positions are left out.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Colour = tuple[int, int, int]
DARK: Colour = (16, 16, 20)
WHITE: Colour = (245, 245, 245)
_SHIFT = 4
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_FAR_PX = 1e4


def _fixed(points_px: NDArray[np.floating]) -> NDArray[np.int32]:
    return np.asarray(np.rint(np.asarray(points_px, np.float64) * 2**_SHIFT), np.int32)


def drawable(points_px: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which points (N, 2) are finite and not absurdly far outside any picture."""
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(points_px) < _FAR_PX).all(axis=-1), np.bool_)


def draw_line(picture: Image, ends_px: NDArray[np.floating], *, colour: Colour, width_px: float) -> None:
    """Draw one line between two points (2, 2) with a dark rim."""
    if drawable(ends_px).all():
        a, b = _fixed(ends_px).tolist()
        cv2.line(picture, a, b, DARK, max(1, round(width_px * 1.7)), cv2.LINE_AA, _SHIFT)
        cv2.line(picture, a, b, colour, max(1, round(width_px)), cv2.LINE_AA, _SHIFT)


def draw_dot(picture: Image, centre: NDArray[np.floating], *, colour: Colour, radius_px: float) -> None:
    """Draw one disc with a dark rim."""
    if drawable(np.asarray(centre)[None]).all():
        (at,) = _fixed(np.asarray(centre)[None]).tolist()
        cv2.circle(picture, at, round((radius_px + 1) * 2**_SHIFT), DARK, -1, cv2.LINE_AA, _SHIFT)
        cv2.circle(picture, at, round(radius_px * 2**_SHIFT), colour, -1, cv2.LINE_AA, _SHIFT)


def draw_curve(picture: Image, points_px: NDArray[np.floating], *, colour: Colour, width_px: float) -> None:
    """Draw a polyline (N, 2) without rim, broken at NaN."""
    good = drawable(points_px)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], good.astype(np.int8), [0]])))
    for start, end in edges.reshape(-1, 2).tolist():
        if end - start > 1:
            cv2.polylines(picture, [_fixed(points_px[start:end])], False, colour, max(1, round(width_px)), cv2.LINE_AA, _SHIFT)


def darken(picture: Image, rows: tuple[int, int], *, share: float = 0.55) -> None:
    """Darken a half-open range of a picture's rows."""
    area = picture[max(0, rows[0]) : max(0, rows[1])]
    area[:] = (area.astype(np.uint16) * int(256 * (1 - share)) >> 8).astype(np.uint8)


def text_size(text: str, *, height_px: float) -> int:
    """Return the width of a text in pixels, drawn with capitals of about that height."""
    return int(cv2.getTextSize(printable(text), _FONT, height_px / 22, 1)[0][0])


def draw_text(picture: Image, text: str, *, at: tuple[float, float], height_px: float, colour: Colour = WHITE) -> None:
    """Write one line; `at` is the left end of its base line (x, y)."""
    place = (round(at[0]), round(at[1]))
    thick = max(1, round(height_px / 13))
    cv2.putText(picture, printable(text), place, _FONT, height_px / 22, colour, thick, cv2.LINE_AA)


def printable(text: str) -> str:
    """Return a text with what the drawing font lacks replaced by question marks; line breaks become spaces."""
    return " ".join(text.split()).encode("ascii", "replace").decode()


def shorten(text: str, *, height_px: float, width_px: float) -> str:
    """Cut a text to a width in pixels, ending in dots where it was cut."""
    text = printable(text)
    if text_size(text, height_px=height_px) <= width_px:
        return text
    while text and text_size(text + "...", height_px=height_px) > width_px:
        text = text[: max(0, len(text) - max(1, len(text) // 12))]
    return text + "..."


def stack_grid(tiles: Sequence[Image], *, columns: int, gap_px: int) -> Image:
    """Lay equally sized pictures out in rows, dark between them."""
    height, width = tiles[0].shape[:2]
    rows = -(-len(tiles) // columns)
    grid = np.full((rows * (height + gap_px) + gap_px, columns * (width + gap_px) + gap_px, 3), 24, np.uint8)
    for index, tile in enumerate(tiles):
        top, left = (gap_px + (index // columns) * (height + gap_px), gap_px + (index % columns) * (width + gap_px))
        grid[top : top + height, left : left + width] = tile
    return grid
