"""One frame with what a policy predicts at it: where the wrists were, where they went, where they were said to go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.errors import VideoError
from egodata.geometry.rotation import Array
from egodata.reports.marks import SIDE_COLOURS
from egodata.reports.sketch import DARK, Colour, Image, darken, draw_curve, draw_dot, draw_line, draw_text, shorten
from egodata.reports.tracks import Tracks

PAST_S = 1.0
HORIZON: tuple[Colour, Colour, Colour] = ((255, 232, 84), (255, 120, 60), (226, 46, 150))
"""Colours of a prediction at its start, middle and end."""
_PAST: Colour = (176, 176, 184)
_PIECES = 12
_MUTED: Colour = (190, 190, 196)
_JOINTS: tuple[Colour, ...] = ((255, 158, 44), (64, 208, 255), (120, 224, 110), (240, 110, 180), (250, 224, 90), (170, 150, 255))


@dataclass(frozen=True, slots=True)
class ChunkPath:
    """A chunk of one hand's positions in the episode's own coordinate frame.

    Attributes:
        truth_m: (S, 3), NaN where not recorded.
        predicted_m: (S, 3).
    """

    truth_m: Array
    predicted_m: Array


@dataclass(frozen=True, slots=True)
class JointChunk:
    """A chunk of joint rows.

    Attributes:
        truth: (S, D), NaN where not recorded.
        predicted: (S, D).
    """

    truth: Array
    predicted: Array


def horizon_colour(share: float) -> Colour:
    """Return the colour of a step of a prediction, from 0 at its start to 1 at its end."""
    low, high = (HORIZON[0], HORIZON[1]) if share < 0.5 else (HORIZON[1], HORIZON[2])
    part = 2 * share if share < 0.5 else 2 * share - 1
    red, green, blue = (round(a + part * (b - a)) for a, b in zip(low, high, strict=True))
    return red, green, blue


def draw_prediction(
    picture: Image,
    tracks: Tracks,
    *,
    frame: int,
    paths: Mapping[str, ChunkPath],
    joints: JointChunk | None,
    header: str,
    lines: Sequence[str],
) -> Image:
    """Draw a prediction on a frame, in place: the past in grey, the truth in the hand's colour, the prediction by horizon.

    Args:
        picture: The frame.
        tracks: Of the episode.
        frame: Its number.
        paths: By side; empty where nothing is predicted at this frame.
        joints: A chunk of joints instead, drawn as curves.
        header: One line above.
        lines: Captions below.
    """
    unit = picture.shape[1] / 640
    size = (picture.shape[1], picture.shape[0])
    for side, track in tracks.hands.items():
        if track.poses is not None:
            start = max(0, frame - round(PAST_S / max(1e-6, _step_s(tracks))))
            draw_curve(
                picture,
                tracks.pixels(track.poses[start : frame + 1, :3, 3], side=side, frame=frame, size=size),
                colour=_PAST,
                width_px=2 * unit,
            )
        if side in paths:
            truth, predicted = (
                tracks.pixels(path, side=side, frame=frame, size=size) for path in (paths[side].truth_m, paths[side].predicted_m)
            )
            _draw_horizon(picture, predicted, unit=unit)
            draw_curve(picture, truth, colour=DARK, width_px=3.2 * unit)  # on top and thin, so that neither hides the other
            draw_curve(picture, truth, colour=SIDE_COLOURS[side], width_px=1.6 * unit)
    if joints is not None:
        _draw_joints(picture, joints, unit=unit)
    _caption(picture, header, lines, hands=bool(tracks.hands), why_not=tracks.why_not)
    return picture


def png_bytes(picture: Image) -> bytes:
    """Return a picture as PNG.

    Raises:
        VideoError: It cannot be encoded.
    """
    done, png = cv2.imencode(".png", picture[..., ::-1])
    if not done:
        raise VideoError(f"a picture of {picture.shape[1]}x{picture.shape[0]} could not be made into a PNG")
    return bytes(png)


def _step_s(tracks: Tracks) -> float:
    return float(np.median(np.diff(tracks.seconds))) if len(tracks.seconds) > 1 else PAST_S


def _draw_horizon(picture: Image, pixels: NDArray[np.floating], *, unit: float) -> None:
    draw_curve(picture, pixels, colour=DARK, width_px=4.4 * unit)
    pieces = np.array_split(np.arange(len(pixels)), min(_PIECES, len(pixels)))
    for number, piece in enumerate(pieces):
        colour = horizon_colour(number / max(1, len(pieces) - 1))
        draw_curve(picture, pixels[piece[0] : piece[-1] + 2], colour=colour, width_px=2.4 * unit)
    draw_dot(picture, pixels[-1], colour=HORIZON[2], radius_px=2.4 * unit)


def _draw_joints(picture: Image, joints: JointChunk, *, unit: float) -> None:
    """Draw every joint over the chunk in the lower third: truth thin, prediction as dots, each scaled to the truth's own range."""
    height, width = int(picture.shape[0]), int(picture.shape[1])
    top, bottom = round(height * 0.58), round(height * 0.84)
    darken(picture, (top, bottom), share=0.72)
    x = np.linspace(12 * unit, width - 12 * unit, len(joints.truth))
    for joint in range(joints.truth.shape[1]):
        known = joints.truth[:, joint][np.isfinite(joints.truth[:, joint])]
        low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
        colour = _JOINTS[joint % len(_JOINTS)]
        rows = [
            bottom - (0.15 + 0.7 * (part[:, joint] - low) / max(high - low, 1e-3)) * (bottom - top)
            for part in (joints.truth, joints.predicted)
        ]
        draw_curve(picture, np.stack([x, rows[0]], -1), colour=colour, width_px=1.2 * unit)
        inside = np.where((rows[1] > top) & (rows[1] < bottom), rows[1], np.nan)
        for at in range(0, len(x), max(1, len(x) // 20)):
            draw_dot(picture, np.array([x[at], inside[at]]), colour=colour, radius_px=1.4 * unit)


def _caption(picture: Image, header: str, lines: Sequence[str], *, hands: bool, why_not: str) -> None:
    height, width = int(picture.shape[0]), int(picture.shape[1])
    letters = max(9.0, width / 64)
    darken(picture, (0, round(1.75 * letters)))
    draw_text(picture, shorten(header, height_px=letters, width_px=width - 2 * letters), at=(letters, 1.25 * letters), height_px=letters)
    if why_not and hands:
        draw_text(picture, why_not, at=(letters, 3 * letters), height_px=letters, colour=(255, 96, 84))
    top = height - round((1.6 * (len(lines) + 1) + 0.5) * letters)
    darken(picture, (top, height))
    for number, text in enumerate(lines):
        shown = shorten(text, height_px=letters, width_px=width - 2 * letters)
        draw_text(picture, shown, at=(letters, top + (1.6 * number + 1.4) * letters), height_px=letters)
    _legend(picture, at=top + (1.6 * len(lines) + 1.4) * letters, letters=letters, hands=hands)


def _legend(picture: Image, *, at: float, letters: float, hands: bool) -> None:
    """Write what the colours mean."""
    words = [("past", [_PAST]), ("truth", [SIDE_COLOURS["left"], SIDE_COLOURS["right"]]), ("prediction, start to end", list(HORIZON))]
    x = letters
    for word, colours in words if hands else [("truth: lines, prediction: dots, over the chunk", [])]:
        for colour in colours:
            draw_line(
                picture, np.array([[x, at - 0.35 * letters], [x + 1.4 * letters, at - 0.35 * letters]]), colour=colour, width_px=letters / 4
            )
            x += 1.6 * letters
        draw_text(picture, word, at=(x + 0.3 * letters, at), height_px=letters, colour=_MUTED)
        x += (len(word) * 0.85 + 2) * letters
