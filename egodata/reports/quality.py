"""Is an episode good to learn from? Quality checks of numbers, projection and texts, with the figures behind them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeReader, read_all_numeric
from egodata.findings import Finding, Severity
from egodata.geometry.pose import transform_points
from egodata.geometry.reprojection import Reprojection, reproject
from egodata.reports.limits import Limits
from egodata.reports.tracks import Tracks, load_tracks
from egodata.schema.features import HEAD_POSE, SIDES, is_camera, valid_key

Found = Iterator[Finding]
Arrays = Mapping[str, NDArray[Any]]
_HELD_WIDTH = 3


@dataclass(frozen=True, slots=True)
class Quality:
    """What the checks saw in one episode.

    Attributes:
        figures: Plain JSON numbers by name, such as ``missing_left`` or ``inside_share``; None where there is nothing to measure.
        findings: Those beyond a limit.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Look:
    reader: EpisodeReader
    arrays: Arrays
    limits: Limits
    content: str
    figures: dict[str, Any]

    @property
    def total(self) -> int:
        return self.reader.meta.total_frames

    @property
    def fps(self) -> float:
        return float(self.reader.meta.fps)

    def finding(self, code: str, message: str, *, severity: Severity = Severity.WARNING, **more: Any) -> Finding:
        return Finding(code, severity, self.reader.meta.episode_id, message, content=self.content, **more)


def check_quality(reader: EpisodeReader, *, limits: Limits, content: str) -> Quality:
    """Check the numbers, the projection and the texts of an episode; no picture is decoded.

    Args:
        reader: Opened.
        limits: From where on something is a finding.
        content: Goes into the ids of the findings.

    Raises:
        CorruptEpisodeError: An array cannot be read.
    """
    meta = reader.meta
    figures: dict[str, Any] = {"frames": meta.total_frames, "seconds": round(meta.total_frames / float(meta.fps), 3)}
    look = _Look(reader, read_all_numeric(reader), limits, content, figures)
    found = [*_head(look), *_hands(look), *_held(look), *_projection(look), *_coverage(look)]
    return Quality(figures, tuple(found))


def valid_rows(arrays: Arrays, key: str) -> NDArray[np.bool_]:
    """Return which rows (T,) of a float feature are valid: by its mask, else where it is finite and not all zero."""
    mask = arrays.get(valid_key(key))
    if mask is not None:
        return np.asarray(mask, np.bool_)
    rows = np.asarray(arrays[key], np.float64).reshape(len(arrays[key]), -1)
    return np.asarray(np.isfinite(rows).all(1) & (rows != 0).any(1) & (np.abs(rows) < 1e8).all(1), np.bool_)


def longest_run(mask: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the longest half-open range in which a mask (T,) is True; (0, 0) if there is none."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))).reshape(-1, 2)
    if not len(edges):
        return 0, 0
    best = edges[int(np.argmax(edges[:, 1] - edges[:, 0]))]
    return int(best[0]), int(best[1])


def _head(look: _Look) -> Found:
    if HEAD_POSE not in look.arrays:
        return
    valid = valid_rows(look.arrays, HEAD_POSE)
    rows = np.asarray(look.arrays[HEAD_POSE], np.float64)[valid, :3]
    look.figures["missing_head"] = round(float(np.mean(~valid)), 4) if len(valid) else None
    if len(rows) < 2:
        return
    steps = np.linalg.norm(np.diff(rows, axis=0), axis=1)
    look.figures["head_path_m"] = round(float(steps.sum()), 3)
    look.figures["head_step_m"] = round(float(steps.max()), 4)
    reach = float(np.ptp(rows, axis=0).max())
    if reach < look.limits.head_still_m:
        message = (
            f"{HEAD_POSE}: stays within {1000 * reach:.2g} mm over {len(rows)} frames; tracking did not run, or the camera stood still."
        )
        yield look.finding(
            "head-constant", message, stream=HEAD_POSE, expected=f"over {look.limits.head_still_m:g} m", got=f"{reach:.2g} m"
        )


def _hands(look: _Look) -> Found:
    for side in SIDES:
        key = next(
            (f"{side}.{name}" for name in ("obs_wrist_pose", "obs_ee_pose", "obs_keypoints") if f"{side}.{name}" in look.arrays), None
        )
        if key is None or f"{side}.obs_gripper" in look.arrays:
            continue
        missing = ~valid_rows(look.arrays, key)
        share = float(missing.mean()) if len(missing) else 0.0
        look.figures[f"missing_{side}"] = round(share, 4)
        if share >= look.limits.missing_hand_share:
            message = f"no {side} hand in {share:.1%} of {look.total} frames."
            limit = f"under {look.limits.missing_hand_share:.0%}"
            yield look.finding("hand-missing", message, stream=f"{side}.obs_wrist_pose", expected=limit, got=f"{share:.1%}")


def _held(look: _Look) -> Found:
    """Find streams that repeat themselves bit by bit: what moves never does that when it is measured."""
    for key in look.reader.meta.numeric_keys:
        spec = look.reader.meta.features[key]
        width = int(np.prod(spec.shape)) if spec.shape else 1
        if not spec.dtype.startswith("float") or width < _HELD_WIDTH or is_camera(key, spec) or look.total < 2:
            continue
        rows = np.asarray(look.arrays[key]).reshape(look.total, -1)
        valid = valid_rows(look.arrays, key)
        same = np.concatenate([[False], (rows[1:] == rows[:-1]).all(axis=1) & valid[1:] & valid[:-1]])
        start, end = longest_run(same)
        share = float(same.sum()) / max(1, int(valid.sum()) - 1)
        if same.all(where=valid & (np.arange(look.total) > int(np.argmax(valid)))) and same.any():
            continue  # never changes at all: that is `rows-identical`
        if (end - start) / look.fps >= look.limits.held_s or share >= look.limits.held_share:
            severity = Severity.INFO if "joints" in key or key.startswith("images.") else Severity.WARNING
            message = f"{key}: {share:.1%} of the rows repeat the one before, at most {end - start} in a row from frame {start}."
            limit = f"under {look.limits.held_s:g} s and {look.limits.held_share:.0%}"
            yield look.finding(
                "samples-held", message, severity=severity, stream=key, frames=(max(0, start - 1), end), expected=limit, got=f"{share:.1%}"
            )


def _projection(look: _Look) -> Found:
    camera = look.reader.meta.reference_camera
    if camera not in look.reader.meta.cameras:
        return
    tracks = load_tracks(look.reader, camera)
    points = _camera_points(tracks)
    if tracks.camera is None or points is None:
        return
    model, distortion = tracks.camera.lens
    seen = reproject(points, k=np.array(tracks.camera.k), distortion=distortion, model=model, size=tracks.camera.resolution)
    if not seen.points:
        return
    look.figures |= {"behind_share": round(seen.behind, 4), "inside_share": round(seen.inside, 4)}
    look.figures["spread_px"] = [round(value, 1) for value in seen.spread_px]
    look.figures["centre_px"] = [round(value, 1) if np.isfinite(value) else None for value in seen.centre_px]
    if seen.behind > look.limits.behind_share:
        behind = points[..., 2] <= 0  # NaN is not
        frames = np.flatnonzero(behind.any(axis=1))
        many = f"{behind.sum()} of {seen.points} keypoints"
        message = f"{many} lie behind camera {camera}, first in frame {frames[0]}: axes or head poses are wrong."
        yield look.finding("keypoints-behind", message, stream=f"images.{camera}", frames=(int(frames[0]), int(frames[-1]) + 1))
    yield from _outside(look, seen, size=tracks.camera.resolution)


def _camera_points(tracks: Tracks) -> NDArray[np.float64] | None:
    """Return all keypoints (T, N, 3) in the camera, NaN where missing; None where nothing can be projected."""
    hands = [track.keypoints_m for track in tracks.hands.values() if track.keypoints_m is not None]
    if tracks.camera_T_world is None or not hands:
        return None
    return np.asarray(transform_points(tracks.camera_T_world, np.concatenate(hands, axis=1)), np.float64)


def _outside(look: _Look, seen: Reprojection, *, size: tuple[int, int]) -> Found:
    width, height = size
    stream = f"images.{look.reader.meta.reference_camera}"
    if seen.inside < look.limits.inside_share:
        message = (
            f"{seen.inside:.1%} of the keypoints project into the {width}x{height} picture: K, axes or the pairing of files may be wrong."
        )
        limit = f"at least {look.limits.inside_share:.0%}"
        yield look.finding("projection-outside", message, stream=stream, expected=limit, got=f"{seen.inside:.1%}")
    elif max(seen.spread_px) < look.limits.spread_share * width:
        message = f"projected keypoints spread over {max(seen.spread_px):.1f} px of {width}: a hand is larger than that."
        yield look.finding("projection-narrow", message, stream=stream, got=f"{max(seen.spread_px):.1f} px")


def _coverage(look: _Look) -> Found:
    shares = {}
    for key in look.reader.annotation_keys:
        covered = np.zeros(look.total, np.bool_)
        for span in look.reader.spans(key) or ():
            covered[span.start : span.end] = True
        shares[key] = round(float(covered.mean()), 4) if look.total else 0.0
        if shares[key] < look.limits.coverage_share:
            message = f"{key}: its spans cover {shares[key]:.1%} of {look.total} frames."
            limit = f"at least {look.limits.coverage_share:.0%}"
            yield look.finding("annotation-coverage", message, stream=key, expected=limit, got=f"{shares[key]:.1%}")
    look.figures["coverage"] = shares
    if not shares:
        yield look.finding("annotations-none", "no annotations: prompts of this episode are empty.", severity=Severity.INFO)
