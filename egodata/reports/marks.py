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
_QUIET_SHARE = 0.25
_TRACES: tuple[Colour, ...] = ((255, 158, 44), (64, 208, 255), (120, 224, 110), (240, 110, 180), (250, 224, 90), (170, 150, 255))


def _size(picture: Image) -> tuple[int, int]:
    return picture.shape[1], picture.shape[0]


def _light(colour: Colour, share: float) -> Colour:
    red, green, blue = (int(share * c) for c in colour)
    return red, green, blue


def _towards_white(colour: Colour, share: float) -> Colour:
    red, green, blue = (int(c + max(0.0, share) * (255 - c)) for c in colour)
    return red, green, blue


def draw_hand(picture: Image, tracks: Tracks, *, side: str, frame: int) -> None:
    """Draw one hand's skeleton, or nothing where it is invalid."""
    track = tracks.hands[side]
    if track.keypoints_m is None:
        return
    pixels = tracks.pixels(track.keypoints_m[frame], side=side, frame=frame, size=_size(picture))
    unit = picture.shape[1] / 640
    for parent, child in BONES:
        colour = _light(SIDE_COLOURS[side], _FINGER_LIGHT[(child - 1) // 4])
        draw_line(picture, pixels[[parent, child]], colour=colour, width_px=1.3 * unit)
    for joint in range(21):
        draw_dot(picture, pixels[joint], colour=(255, 255, 255) if joint else SIDE_COLOURS[side], radius_px=(1.3 if joint else 2.4) * unit)


def draw_axes(picture: Image, tracks: Tracks, *, side: str, frame: int) -> None:
    """Draw the wrist's coordinate axes: x red, y green, z blue, 5 cm long."""
    pose = _pose(tracks.hands[side], frame)
    if pose is None:
        return
    ends = pose[:3, 3] + _AXIS_M * np.concatenate([np.zeros((1, 3)), pose[:3, :3].T])
    pixels = tracks.pixels(ends, side=side, frame=frame, size=_size(picture))
    for axis, colour in enumerate(_AXES):
        draw_line(picture, pixels[[0, 1 + axis]], colour=colour, width_px=1.6 * picture.shape[1] / 640)


def _pose(track: HandTrack, frame: int) -> Array | None:
    if track.poses is None or not np.isfinite(track.poses[frame]).all():
        return None
    pose: Array = track.poses[frame]
    return pose


def draw_way_ahead(picture: Image, tracks: Tracks, *, side: str, frame: int, frames: int) -> None:
    """Draw where the wrist goes in the frames that follow, as seen from the camera now: white now, its hand's colour later.

    Nothing is drawn where the hand is invalid now, as such a frame is no start of an action.
    """
    track = tracks.hands[side]
    if track.poses is None or _pose(track, frame) is None:
        return
    pixels = tracks.pixels(track.poses[frame : frame + frames + 1, :3, 3], side=side, frame=frame, size=_size(picture))
    unit = picture.shape[1] / 640
    draw_curve(picture, pixels, colour=DARK, width_px=3.4 * unit)
    pieces = np.array_split(np.arange(len(pixels)), 8) if len(pixels) > 8 else [np.arange(len(pixels))]
    for number, piece in enumerate(pieces):
        span = pixels[piece[0] : piece[-1] + 2]
        draw_curve(picture, span, colour=_towards_white(SIDE_COLOURS[side], 0.75 - 0.1 * number), width_px=2.0 * unit)
    for ahead in np.linspace(0, frames, _AHEAD_DOTS)[1:].astype(int):
        if ahead < len(pixels):
            draw_dot(picture, pixels[ahead], colour=SIDE_COLOURS[side], radius_px=2.0 * unit)


def draw_joint_traces(picture: Image, tracks: Tracks, *, frame: int) -> int:
    """Draw every joint over the whole episode in the lower quarter, each scaled to its own range, with a cursor at the frame.

    Commanded joints are drawn where there are no observed ones; nothing is drawn where the episode has no joints.

    Returns:
        The first row that the traces cover; the height of the picture if there are none.
    """
    height, width = int(picture.shape[0]), int(picture.shape[1])
    shown = {key: value for key, value in tracks.joints.items() if "obs_" in key} or tracks.joints
    if not shown:
        return height
    unit, top = width / 640, int(height * 0.72)
    margin, line = round(6 * unit), round(16 * unit)
    darken(picture, (top, height), share=0.72)
    names = ", ".join(f"{key} ({values.shape[1]})" for key, values in shown.items())
    draw_text(picture, names, at=(margin, top + 0.75 * line), height_px=10 * unit)
    x = np.linspace(margin, width - 1 - margin, len(tracks.seconds))
    bottom, tall = height - 1 - margin, height - 1 - margin - top - line
    for values in shown.values():
        for joint, share in enumerate(_own_range(values).T):
            points = np.stack([x, bottom - share * tall], -1)
            draw_curve(picture, points, colour=_TRACES[joint % len(_TRACES)], width_px=0.8 * unit)
    draw_line(picture, np.array([[x[frame], top + line], [x[frame], height - 1.0]]), colour=(255, 255, 255), width_px=unit)
    return top


def _own_range(values: Array) -> Array:
    """Centre each column (T, D) on its finite values and scale it to 0..1, quiet ones at most fourfold against the liveliest."""
    finite = np.isfinite(values)
    low = np.min(values, axis=0, where=finite, initial=np.inf)
    high = np.max(values, axis=0, where=finite, initial=-np.inf)
    span = np.where(np.isfinite(high - low), high - low, 0.0)
    widest = np.maximum(np.maximum(span, _QUIET_SHARE * span.max(initial=0.0)), 1e-9)
    scaled: Array = 0.5 + (values - (low + high) / 2) / widest
    return scaled
