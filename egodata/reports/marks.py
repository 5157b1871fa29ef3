"""What a preview draws of hands and joints: skeletons, wrist axes, the wrist's way ahead, joint traces."""

import numpy as np

from egodata.geometry.hand import BONES
from egodata.geometry.rotation import Array
from egodata.reports.sketch import DARK, Colour, Image, darken, draw_curve, draw_dot, draw_line, draw_text
from egodata.reports.tracks import HandTrack, Tracks

SIDE_COLOURS: dict[str, Colour] = {"left": (64, 208, 255), "right": (255, 158, 44)}
_FINGER_LIGHT = (0.62, 1.0, 0.86, 0.74, 0.64)
_AXES: tuple[Colour, Colour, Colour] = ((238, 58, 58), (70, 214, 84), (84, 122, 255))
_AXIS_M = 0.05
_AHEAD_DOTS = 6
_TRACES: tuple[Colour, ...] = ((255, 158, 44), (64, 208, 255), (120, 224, 110), (240, 110, 180), (250, 224, 90), (170, 150, 255))


def _size(picture: Image) -> tuple[int, int]:
    return picture.shape[1], picture.shape[0]


def _light(colour: Colour, share: float) -> Colour:
    red, green, blue = (int(share * c) for c in colour)
    return red, green, blue


def draw_hand(picture: Image, tracks: Tracks, side: str, frame: int) -> None:
    """Draw one hand's skeleton, or nothing where it is invalid."""
    track = tracks.hands[side]
    if track.keypoints_m is None:
        return
    pixels = tracks.pixels(track.keypoints_m[frame], frame, _size(picture))
    unit = picture.shape[1] / 640
    for parent, child in BONES:
        colour = _light(SIDE_COLOURS[side], _FINGER_LIGHT[(child - 1) // 4])
        draw_line(picture, pixels[parent], pixels[child], colour=colour, width_px=1.3 * unit)
    for joint in range(21):
        draw_dot(picture, pixels[joint], colour=(255, 255, 255) if joint else SIDE_COLOURS[side], radius_px=(1.3 if joint else 2.4) * unit)


def draw_axes(picture: Image, tracks: Tracks, side: str, frame: int) -> None:
    """Draw the wrist's coordinate axes: x red, y green, z blue, 5 cm long."""
    pose = _pose(tracks.hands[side], frame)
    if pose is None:
        return
    ends = pose[:3, 3] + _AXIS_M * np.concatenate([np.zeros((1, 3)), pose[:3, :3].T])
    pixels = tracks.pixels(ends, frame, _size(picture))
    for axis, colour in enumerate(_AXES):
        draw_line(picture, pixels[0], pixels[1 + axis], colour=colour, width_px=1.6 * picture.shape[1] / 640)


def _pose(track: HandTrack, frame: int) -> Array | None:
    if track.poses is None or not np.isfinite(track.poses[frame]).all():
        return None
    pose: Array = track.poses[frame]
    return pose


def draw_way_ahead(picture: Image, tracks: Tracks, side: str, frame: int, *, frames: int) -> None:
    """Draw where the wrist goes in the frames that follow, as seen from the camera now; it fades with time."""
    track = tracks.hands[side]
    if track.poses is None:
        return
    pixels = tracks.pixels(track.poses[frame : frame + frames + 1, :3, 3], frame, _size(picture))
    unit = picture.shape[1] / 640
    draw_curve(picture, pixels, colour=DARK, width_px=3.0 * unit)
    pieces = np.array_split(np.arange(len(pixels)), 8) if len(pixels) > 8 else [np.arange(len(pixels))]
    for number, piece in enumerate(pieces):
        span = pixels[piece[0] : piece[-1] + 2]
        draw_curve(picture, span, colour=_light(SIDE_COLOURS[side], 1 - 0.08 * number), width_px=1.5 * unit)
    for ahead in np.linspace(0, frames, _AHEAD_DOTS)[1:].astype(int):
        if ahead < len(pixels):
            draw_dot(picture, pixels[ahead], colour=SIDE_COLOURS[side], radius_px=1.6 * unit)


def draw_joint_traces(picture: Image, tracks: Tracks, frame: int) -> None:
    """Draw every joint over the whole episode in the lower quarter, each scaled to its own range, with a cursor at the frame.

    Observed joints are full, commanded ones thin; nothing is drawn where the episode has no joints.
    """
    if not tracks.joints:
        return
    height, width = picture.shape[:2]
    unit, top = width / 640, int(height * 0.72)
    darken(picture, (top, height), (0, width), share=0.7)
    margin = round(6 * unit)
    for key, values in tracks.joints.items():
        finite = np.where(np.isfinite(values), values, np.nan)
        low, high = (
            np.array([f(c[np.isfinite(c)], initial=0.0) if np.isfinite(c).any() else 0.0 for c in finite.T]) for f in (np.min, np.max)
        )
        span = np.maximum(high - low, 1e-6)
        x = np.linspace(margin, width - 1 - margin, len(values))
        for joint in range(values.shape[1]):
            y = height - 1 - margin - (finite[:, joint] - low[joint]) / span[joint] * (height - top - 2 * margin)
            colour = _TRACES[joint % len(_TRACES)]
            commanded = "cmd" in key
            draw_curve(picture, np.stack([x, y], -1), colour=_light(colour, 0.5) if commanded else colour, width_px=unit)
    at = margin + (width - 1 - 2 * margin) * frame / max(1, len(tracks.seconds) - 1)
    draw_line(picture, np.array([at, top]), np.array([at, height - 1]), colour=(255, 255, 255), width_px=unit)
    names = ", ".join(f"{key} ({values.shape[1]})" for key, values in tracks.joints.items())
    draw_text(picture, names, (margin, top + 12 * unit), height_px=10 * unit)
