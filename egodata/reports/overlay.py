"""Previews of an episode: hands projected through its calibration, the way ahead, spans and validity, on the stored frames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from egodata.episode import EpisodeReader
from egodata.errors import InputError, VideoError, WindowError
from egodata.progress import Progress, silent
from egodata.reports.marks import SIDE_COLOURS, draw_axes, draw_hand, draw_joint_traces, draw_way_ahead
from egodata.reports.room import Room, draw_head, empty_room, load_room
from egodata.reports.sketch import Image, darken, draw_text, shorten, stack_grid, text_size
from egodata.reports.tracks import Tracks, load_tracks, pick_camera
from egodata.video.write import write_mp4

CANVAS_WIDTH_PX = 1280
AHEAD_S = 1.0
_BATCH_FRAMES = 16
_WARNING = (255, 96, 84)
_MUTED = (190, 190, 196)


def preview_frame(reader: EpisodeReader, frame: int, *, camera: str | None = None, width_px: int | None = None) -> Image:
    """Draw one frame of an episode with everything known about it.

    Hands are projected with the lens distortion where the calibration has one; robots without hands get joint traces. An episode
    without a camera is seen from outside, on an empty ground.

    Args:
        reader: The episode, of any format.
        frame: 0 <= frame < T.
        camera: Name, or None for the reference camera.
        width_px: Width of the picture; None enlarges small frames to about 1280 pixels.

    Returns:
        (H, W, 3) uint8 RGB, both sides even.

    Raises:
        FeatureNotFoundError: No such camera.
        WindowError: The frame is outside the episode.
    """
    scene = _scene(reader, camera)
    (picture,) = scene.pictures([frame])
    return _compose(scene, enlarged(picture, width_px), frame)


def write_preview(
    reader: EpisodeReader,
    out: Path,
    *,
    start: int = 0,
    end: int | None = None,
    camera: str | None = None,
    width_px: int | None = None,
    progress: Progress = silent,
) -> int:
    """Write the preview of a frame range as an mp4 at the episode's own rate.

    Args:
        reader: The episode, of any format.
        out: File to write; its folder is made.
        start: First frame.
        end: Frame after the last one; None for the end of the episode.
        camera: Name, or None for the reference camera.
        width_px: As in `preview_frame`.
        progress: Told of every frame.

    Returns:
        The number of frames written.

    Raises:
        FeatureNotFoundError: No such camera.
        WindowError: The range is empty or outside the episode.
    """
    total = reader.meta.total_frames
    stop = total if end is None else end
    if not 0 <= start < stop <= total:
        raise WindowError(f"episode {reader.meta.episode_id}: frames [{start}, {stop}) are empty or outside [0, {total})")
    scene = _scene(reader, camera)

    def pictures() -> Iterator[Image]:
        for first in range(start, stop, _BATCH_FRAMES):
            batch = range(first, min(first + _BATCH_FRAMES, stop))
            for frame, picture in zip(batch, scene.pictures(batch), strict=True):
                progress("preview", frame - start, stop - start)
                yield _compose(scene, enlarged(picture, width_px), frame)

    out.parent.mkdir(parents=True, exist_ok=True)
    count = write_mp4(out, pictures(), fps=reader.meta.fps, preset="veryfast", crf=20)
    progress("preview", count, count)
    return count


def contact_sheet(reader: EpisodeReader, *, camera: str | None = None, tiles: int = 6, columns: int = 3, tile_width_px: int = 480) -> bytes:
    """Draw evenly spaced frames of an episode as one PNG.

    Args:
        reader: The episode, of any format.
        camera: Name, or None for the reference camera.
        tiles: How many frames; fewer where the episode is shorter.
        columns: Tiles per row.
        tile_width_px: Width of one frame.

    Returns:
        PNG bytes.

    Raises:
        FeatureNotFoundError: No such camera.
        InputError: `tiles` or `columns` is below 1.
    """
    if min(tiles, columns) < 1:
        raise InputError(f"contact sheet: expected at least 1 tile and 1 column, got {tiles} and {columns}")
    scene = _scene(reader, camera)
    total = reader.meta.total_frames
    chosen = sorted({round(i * (total - 1) / max(1, tiles - 1)) for i in range(tiles)})
    drawn = [_compose(scene, enlarged(p, tile_width_px), f) for f, p in zip(chosen, scene.pictures(chosen), strict=True)]
    grid = stack_grid(drawn, columns=min(columns, len(drawn)), gap_px=4)
    done, png = cv2.imencode(".png", grid[..., ::-1])
    if not done:
        raise VideoError(f"episode {reader.meta.episode_id}: its contact sheet could not be made into a PNG")
    return bytes(png)


def enlarged(picture: Image, width_px: int | None) -> Image:
    """Return a picture of another width, both sides even; None enlarges small ones to about 1280 pixels."""
    height, width = picture.shape[:2]
    wanted = width_px or width * max(1, round(CANVAS_WIDTH_PX / width))
    size = (max(2, wanted - wanted % 2), max(2, 2 * round(height * wanted / width / 2)))
    how = cv2.INTER_AREA if size[0] < width else cv2.INTER_CUBIC
    return np.ascontiguousarray(cv2.resize(np.asarray(picture), size, interpolation=how), np.uint8)


@dataclass(frozen=True, slots=True)
class _Scene:
    """An episode and the camera it is seen by; `room` where it has none of its own."""

    reader: EpisodeReader
    camera: str
    tracks: Tracks
    room: Room | None = None

    def pictures(self, frames: Sequence[int]) -> Sequence[Image]:
        if self.room is not None:
            return [empty_room() for _ in frames]
        return list(self.reader.frames(self.camera, frames))


def _scene(reader: EpisodeReader, camera: str | None) -> _Scene:
    if camera is None and not reader.meta.cameras:
        room = load_room(reader)
        return _Scene(reader, "", room.tracks, room)
    name = pick_camera(reader, camera)
    return _Scene(reader, name, load_tracks(reader, name))


def _compose(scene: _Scene, picture: Image, frame: int) -> Image:
    reader, tracks = scene.reader, scene.tracks
    if scene.room is not None:
        draw_head(picture, scene.room, frame=frame)
    ahead = max(1, round(AHEAD_S * float(reader.meta.fps)))
    for side in tracks.hands:
        draw_hand(picture, tracks, side=side, frame=frame)
        draw_way_ahead(picture, tracks, side=side, frame=frame, frames=ahead)
        draw_axes(picture, tracks, side=side, frame=frame)
    bottom = draw_joint_traces(picture, tracks, frame=frame)
    _write_header(scene, picture, frame)
    _write_spans(reader, picture, frame, bottom=bottom)
    return picture


def _letters_px(picture: Image) -> float:
    return max(9.0, float(picture.shape[1]) / 64)


def _write_header(scene: _Scene, picture: Image, frame: int) -> None:
    """Write id, frame, time and operator above the picture, and which hands are valid."""
    reader, tracks = scene.reader, scene.tracks
    letters, width = _letters_px(picture), picture.shape[1]
    meta = reader.meta
    darken(picture, (0, round(1.75 * letters)))
    line, right = 1.25 * letters, width - letters
    for side in reversed(tracks.hands):
        valid = bool(tracks.hands[side].valid[frame])
        word = side if valid else f"{side} invalid"
        right -= text_size(word, height_px=letters) + letters
        draw_text(picture, word, at=(right, line), height_px=letters, colour=SIDE_COLOURS[side] if valid else _WARNING)
    text = f"{meta.episode_id} | {frame}/{meta.total_frames} | {tracks.seconds[frame]:.2f} s | {meta.operator or 'operator unknown'}"
    draw_text(picture, shorten(text, height_px=letters, width_px=right - 2 * letters), at=(letters, line), height_px=letters)
    if tracks.why_not and (tracks.hands or scene.room is not None):
        draw_text(picture, tracks.why_not, at=(letters, line + 1.7 * letters), height_px=letters, colour=_WARNING)


def _write_spans(reader: EpisodeReader, picture: Image, frame: int, *, bottom: int) -> None:
    """Write the texts active at a frame, with the role of each, so that they end at row `bottom`."""
    letters = _letters_px(picture)
    lines: list[tuple[str, str]] = []
    for key in reader.annotation_keys:
        role = key.removeprefix("annotations").lstrip("_") or "annotation"
        lines += [(role, span.text) for span in reader.spans(key) or () if span.start <= frame < span.end]
    lines = lines or [("", "no annotations" if not reader.annotation_keys else "no span active")]
    width = picture.shape[1]
    top = bottom - round((1.6 * len(lines) + 0.5) * letters)
    darken(picture, (top, bottom))
    column = 2 * letters + max(text_size(role, height_px=letters) for role, _ in lines)
    for number, (role, text) in enumerate(lines):
        line = top + (1.6 * number + 1.4) * letters
        draw_text(picture, role, at=(letters, line), height_px=letters, colour=_MUTED)
        shown = shorten(text, height_px=letters, width_px=width - column - letters)
        draw_text(picture, shown, at=(column, line), height_px=letters)
