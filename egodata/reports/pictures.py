"""Frozen and black stretches of an episode's pictures."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeReader, VideoSource, read_all_numeric
from egodata.findings import Finding, Severity
from egodata.reports.limits import Limits
from egodata.reports.quality import Arrays, longest_run, valid_rows
from egodata.schema.features import camera_key
from egodata.video import decode_video

MOVING = ("obs_head_pose", "left.obs_wrist_pose", "right.obs_wrist_pose", "left.obs_ee_pose", "right.obs_ee_pose")
SMALL = (160, 90)
_BLOCK_FRAMES = 32


@dataclass(frozen=True, slots=True)
class Levels:
    """What is kept of each picture.

    Attributes:
        mean: (N,) of 255.
        step: (N,) mean absolute difference to the picture before, of 255; NaN for the first.
    """

    mean: NDArray[np.float64]
    step: NDArray[np.float64]


def measure(frames: Iterable[NDArray[np.uint8]]) -> Levels:
    """Measure pictures (H, W, 3) one after the other; one is kept at a time."""
    means, steps = [], []
    before: NDArray[np.int16] | None = None
    for frame in frames:
        small = frame[:: max(1, frame.shape[0] // SMALL[1]), :: max(1, frame.shape[1] // SMALL[0])].astype(np.int16)
        means.append(float(small.mean()))
        steps.append(float("nan") if before is None else float(np.abs(small - before).mean()))
        before = small
    return Levels(np.array(means), np.array(steps))


def stored_pictures(reader: EpisodeReader, camera: str) -> Iterator[NDArray[np.uint8]]:
    """Yield the pictures of a stored camera in order.

    Raises:
        CorruptEpisodeError: An element cannot be decoded.
    """
    total = reader.meta.total_frames
    for start in range(0, total, _BLOCK_FRAMES):
        yield from reader.frames(camera, range(start, min(start + _BLOCK_FRAMES, total)))


def raw_levels(source: VideoSource) -> Levels:
    """Measure the pictures that a draft shows, from the vendor's file; a file row that is shown twice does not change the second time.

    Raises:
        VideoError: The file cannot be decoded as far as the draft needs it.
    """
    levels = measure(decode_video(source.path, size=SMALL, limit=int(source.rows[-1]) + 1 if len(source.rows) else 0))
    rows = np.clip(source.rows, 0, max(0, len(levels.mean) - 1))
    step = levels.step[rows]
    step[1:][np.diff(source.rows) == 0] = 0.0
    step[:1] = np.nan
    return Levels(levels.mean[rows], step)


def check_pictures(reader: EpisodeReader, camera: str, *, levels: Levels, limits: Limits, content: str) -> list[Finding]:
    """Find the longest frozen and the longest black stretch of one camera.

    Args:
        reader: The episode; says whether something moved meanwhile.
        camera: Its camera.
        levels: Of that camera's pictures, one per frame.
        limits: From where on a stretch is a finding.
        content: Goes into the ids of the findings.
    """
    meta, found = reader.meta, []
    fps, key = float(meta.fps), camera_key(camera)

    def add(code: str, message: str, *, severity: Severity, frames: tuple[int, int]) -> None:
        found.append(Finding(code, severity, meta.episode_id, message, stream=key, frames=frames, content=content))

    black = levels.mean <= limits.black_level
    start, end = longest_run(black)
    if end > start and (end - start) / fps >= limits.black_s:
        message = f"{key}: {black.sum()} black pictures, {end - start} in a row from frame {start}."
        add("video-black", message, severity=Severity.WARNING, frames=(start, end))
    with np.errstate(invalid="ignore"):
        frozen = (levels.step <= limits.frozen_level) & ~black
        small = levels.step <= limits.frozen_key_level
    frozen[1:-1] |= small[1:-1] & frozen[:-2] & frozen[2:]  # a keyframe codes the same picture anew
    start, end = longest_run(frozen)
    if end > start and (end - start) / fps >= limits.frozen_s:
        moved_m = _moved_m(read_all_numeric(reader), start, end)
        how = "head or hands moved" if moved_m >= limits.moved_m else "nothing that is tracked moved"
        message = f"{key}: the picture stands still for {end - start} frames from frame {start}, while {how} ({moved_m:.2f} m)."
        severity = Severity.WARNING if moved_m >= limits.moved_m else Severity.INFO
        add("video-frozen", message, severity=severity, frames=(start - 1, end))
    return found


def _moved_m(arrays: Arrays, start: int, end: int) -> float:
    """Return the longest path in metres of a tracked pose over frames [start - 1, end)."""
    paths = [0.0]
    for key in MOVING:
        if key in arrays:
            rows = np.asarray(arrays[key], np.float64)[max(0, start - 1) : end, :3]
            rows = rows[valid_rows(arrays, key)[max(0, start - 1) : end]]
            paths.append(float(np.linalg.norm(np.diff(rows, axis=0), axis=1).sum()) if len(rows) > 1 else 0.0)
    return max(paths)
