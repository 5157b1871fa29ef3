"""A small human episode as a vendor reader would give it, with a real mp4 behind it: input for everyone's tests."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import SUBTASK, TASK, Annotations, Span
from egodata.calibration import Calibration, CameraCalibration, pinhole_matrix
from egodata.episode import Clip, EpisodeDraft, EpisodeMeta, VideoSource
from egodata.geometry.hand import hand_poses
from egodata.schema.features import (
    HEAD_POSE,
    SIDES,
    TIMESTAMPS,
    FeatureSpec,
    keypoints_spec,
    mask_spec,
    pose_spec,
    timestamps_spec,
    valid_key,
)
from egodata.video import EncodeSettings, encode_frames

FPS = Fraction(30)
SOURCE_SETTINGS = EncodeSettings(profile="test-source", crf=12, preset="ultrafast", tune="", gop=12, bframes=0, frames_per_chunk=3000)
_FIRST_STAMP_NS = 1_700_000_000_000_000_000
_INVALID_LEFT = slice(10, 20)


def moving_frames(frames: int, size: tuple[int, int], seed: int) -> NDArray[np.uint8]:
    """Draw a gradient that drifts and a square that moves, so that every frame differs.

    Args:
        frames: How many.
        size: (width, height) in pixels.
        seed: Colours and speeds.

    Returns:
        (frames, H, W, 3) uint8 RGB.
    """
    rng = np.random.default_rng(seed)
    width, height = size
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    speed, tint = rng.uniform(1.0, 2.5, 3).astype(np.float32), rng.integers(60, 200, 3)
    out = np.empty((frames, height, width, 3), np.uint8)
    side = max(4, height // 6)
    for t in range(frames):
        waves = [np.sin((x + speed[c] * t) * (0.05 + 0.01 * c) + y * 0.03 * (c + 1)) for c in range(3)]
        out[t] = np.clip(np.stack(waves, -1) * 50 + tint, 0, 255).astype(np.uint8)
        left, top = (3 * t) % max(1, width - side), (2 * t) % max(1, height - side)
        out[t, top : top + side, left : left + side] = ((37 * t) % 256, 255 - (11 * t) % 256, (91 * t) % 256)
    return out


def write_source(path: Path, frames: NDArray[np.uint8], *, fps: Fraction = FPS) -> Path:
    """Write frames (T, H, W, 3) as one mp4, as a vendor would deliver it; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(next(encode_frames(iter(frames), fps=fps, settings=SOURCE_SETTINGS)))
    return path


def small_draft(
    tmp_path: Path,
    *,
    frames: int = 130,
    size: tuple[int, int] = (64, 48),
    seed: int = 0,
    episode_id: str = "5f0c00000000000000000001",
    operator: str | None = "operator_a",
    annotations: Annotations | None = None,
) -> EpisodeDraft:
    """Make a two-hand human episode: moving hands, the left one invalid in frames 10-19, time stamps, one camera.

    Args:
        tmp_path: Where the source mp4 is written.
        frames: Episode length.
        size: (width, height) in pixels of source and stored video.
        seed: Decides everything that moves.
        episode_id: Id of episode and recording.
        operator: The vendor's user id, or None.
        annotations: None gives one task span and two subtask spans; ``{}`` gives no keys.
    """
    arrays, specs = _hands(frames, seed)
    if annotations is None:
        half = max(1, frames // 2)
        steps = [Span("reach for the cube", 0, half)] + ([Span("place the cube", half, frames)] if frames > half else [])
        annotations = {TASK: [Span("move the cube", 0, frames)], SUBTASK: steps}
    path = write_source(tmp_path / f"{episode_id}-{seed}-{frames}_video.mp4", moving_frames(frames, size, seed=seed))
    k = pinhole_matrix(0.4 * size[0], 0.4 * size[0], (size[0] - 1) / 2, (size[1] - 1) / 2)
    camera = CameraCalibration(k, "OPENCV", (0.05, -0.03, 0.007, 0.0002), size)
    meta = EpisodeMeta(
        episode_id=episode_id,
        recording_id=episode_id,
        clip=Clip(0, 0, frames, aliased=True),
        vendor="mecka",
        dataset="small",
        delivery="small-delivery",
        operator=operator,
        session=None if operator is None else f"{operator}/kitchen/2023-11-14",
        embodiment="human_bimanual",
        task_name="move_cube",
        task_description="Move the cube between the zones.",
        total_frames=frames,
        fps=FPS,
        clock="unix",
        reference_camera="front_1",
        hand_frame_convention="anat-v1",
        features=specs,
        provenance={"raw_uri": path.name},
        processing={"converter": "testing.drafts", "version": "1"},
        extra={"scene_desc": "a table with a cube"},
    )
    source = VideoSource(path, np.arange(frames, dtype=np.int64), size)
    return EpisodeDraft(meta, arrays, {"front_1": source}, annotations, Calibration("head", {"front_1": camera}))


def _hands(frames: int, seed: int) -> tuple[dict[str, NDArray[Any]], dict[str, FeatureSpec]]:
    rng = np.random.default_rng(seed + 1)
    t = np.arange(frames, dtype=np.float64)
    head = np.zeros((frames, 7))
    head[:, :3] = np.stack([0.05 * np.sin(t / 40), 0.02 * np.cos(t / 30), 1.5 + 0.001 * t], -1)
    angle = 0.1 * np.sin(t / 50)
    head[:, 3], head[:, 5] = np.cos(angle / 2), np.sin(angle / 2)
    arrays: dict[str, NDArray[Any]] = {HEAD_POSE: head.astype(np.float32), valid_key(HEAD_POSE): np.ones(frames, np.bool_)}
    specs = {HEAD_POSE: pose_spec(), valid_key(HEAD_POSE): mask_spec()}
    arrays[TIMESTAMPS] = _FIRST_STAMP_NS + (np.arange(frames, dtype=np.int64) * 1_000_000_003) // 30
    specs[TIMESTAMPS] = timestamps_spec()
    for index, side in enumerate(SIDES):
        bent = rng.normal(0, 0.01, (21, 3)) + _flat_hand(mirrored=index == 0)
        path = np.stack([0.1 * np.sin(t / (15 + 5 * index) + seed), 0.08 * np.cos(t / 20), 0.4 + 0.05 * np.sin(t / 33)], -1)
        points = bent[None] + path[:, None] + 0.002 * np.sin(t[:, None, None] / 7 + np.arange(21)[None, :, None])
        if index == 0:
            points[_INVALID_LEFT] = np.nan
        wrist, effector, valid = hand_poses(points)
        named = {"obs_keypoints": points.reshape(frames, 63), "obs_wrist_pose": wrist, "obs_ee_pose": effector}
        for name, values in named.items():
            key = f"{side}.{name}"
            arrays[key], arrays[valid_key(key)] = values.astype(np.float32), valid.copy()
            specs[key], specs[valid_key(key)] = (keypoints_spec() if name == "obs_keypoints" else pose_spec()), mask_spec()
        points_valid = np.asarray(np.isfinite(points).all(axis=-1), np.bool_)
        point_key = f"{side}.obs_keypoints_point_valid"
        arrays[point_key], specs[point_key] = points_valid, mask_spec(21)
    return arrays, specs


def _flat_hand(*, mirrored: bool) -> NDArray[np.float64]:
    """An open hand, fingers along +y, palm down, 9 cm long; mirrored for the left."""
    points = np.zeros((21, 3))
    for finger in range(5):
        for joint in range(4):
            points[1 + 4 * finger + joint] = (0.02 * (finger - 2), 0.04 + 0.02 * joint - (0.03 if finger == 0 else 0.0), 0.004 * joint)
    points[:, 0] *= 1.0 if mirrored else -1.0
    return points
