"""Episodes held in memory behind the same protocol as stored ones, for oracle tests: every number is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Annotations, Span
from egodata.calibration import Calibration
from egodata.episode import Clip, EpisodeMeta, EpisodeReader, VideoInfo
from egodata.errors import EpisodeNotFoundError, FeatureNotFoundError, WindowError
from egodata.names import nearest
from egodata.schema.canonical import sha256_hex
from egodata.schema.digests import EpisodeDigests
from egodata.schema.features import (
    HEAD_POSE,
    SIDES,
    FeatureSpec,
    camera_key,
    keypoints_spec,
    mask_spec,
    point_valid_key,
    pose_spec,
    valid_key,
)
from egodata.schema.ids import ANNOTATION_PREFIX, sorted_ids

IMAGE_SHAPE = (4, 6, 3)


@dataclass
class MemoryEpisode:
    """An `EpisodeReader` over arrays; frame f is filled with f in red, f // 256 in green and the camera's number in blue.

    Attributes:
        meta: Attributes.
        arrays: Numeric arrays by key.
        annotations: Spans by key, structural ones too.
        row_reads: Keys and ranges of each `rows` call so far.
        frame_reads: Camera and indices of each `frames` call so far.
        broken_frames: Frames that fail when decoded.
    """

    meta: EpisodeMeta
    arrays: Mapping[str, NDArray[Any]]
    annotations: Annotations = field(default_factory=dict)
    calibration: Calibration | None = None
    row_reads: list[list[tuple[str, tuple[int, int]]]] = field(default_factory=list)
    frame_reads: list[tuple[str, list[int]]] = field(default_factory=list)
    broken_frames: frozenset[int] = frozenset()

    @property
    def digests(self) -> EpisodeDigests:
        """Digests of the id, which is enough to tell episodes apart."""
        return EpisodeDigests(
            *(sha256_hex(f"{part}/{self.meta.episode_id}".encode()) for part in ("media", "annotations", "calibration", "meta"))
        )

    @property
    def annotation_keys(self) -> tuple[str, ...]:
        """Keys of texts that are present, sorted."""
        return tuple(sorted(key for key in self.annotations if key.startswith(ANNOTATION_PREFIX)))

    @property
    def structure_keys(self) -> tuple[str, ...]:
        """Keys of structural spans that are present, sorted."""
        return tuple(sorted(key for key in self.annotations if not key.startswith(ANNOTATION_PREFIX)))

    def spans(self, key: str) -> tuple[Span, ...] | None:
        """Return the spans of a key, None if absent."""
        return tuple(self.annotations[key]) if key in self.annotations else None

    def rows(self, keys: Sequence[str], ranges: Sequence[tuple[int, int]]) -> dict[str, NDArray[Any]]:
        """Return copies of row ranges and note the read."""
        self.row_reads.append(list(zip(keys, ranges, strict=True)))
        out = {}
        for key, (start, end) in zip(keys, ranges, strict=True):
            if key not in self.arrays:
                raise FeatureNotFoundError(f"episode {self.meta.episode_id}: no {key}; {nearest(key, self.arrays)}")
            if not 0 <= start <= end <= self.meta.total_frames:
                raise WindowError(f"episode {self.meta.episode_id} {key}: rows [{start}, {end}) outside [0, {self.meta.total_frames}]")
            out[key] = self.arrays[key][start:end].copy()
        return out

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return painted frames (N, 4, 6, 3) and note the read."""
        self.frame_reads.append((camera, list(indices)))
        bad = sorted(self.broken_frames & set(indices))
        if bad:
            raise OSError(f"frame {bad[0]} does not decode")
        out = np.zeros((len(indices), *IMAGE_SHAPE), np.uint8)
        out[..., 0] = np.array(indices)[:, None, None] % 256
        out[..., 1] = np.array(indices)[:, None, None] // 256
        out[..., 2] = self.meta.cameras.index(camera)
        return out

    def video_info(self, camera: str) -> VideoInfo:
        """Return a description of the painted stream."""
        return VideoInfo(IMAGE_SHAPE[1], IMAGE_SHAPE[0], self.meta.total_frames, 300, self.meta.fps, {})

    def video_chunk(self, camera: str, index: int) -> bytes:
        """Not stored here."""
        raise FeatureNotFoundError(f"episode {self.meta.episode_id}: painted frames have no stored video")

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class MemoryStore:
    """An `EpisodeStore` over memory episodes; calling it returns itself, so it is its own opener and pickles."""

    episodes: Mapping[str, MemoryEpisode]

    def __call__(self) -> "MemoryStore":
        """Return itself, as an opener does."""
        return self

    def episode_ids(self) -> list[str]:
        """Return the ids in order."""
        return sorted_ids(self.episodes)

    def open(self, episode_id: str, *, content: str | None = None) -> EpisodeReader:
        """Return an episode by id, of the content asked for."""
        found = self.episodes.get(episode_id)
        if found is None or content not in (None, found.digests.content):
            raise EpisodeNotFoundError(f"episode {episode_id}: not in memory with content {content}")
        return found


def episode_meta(episode_id: str, *, frames: int, features: Mapping[str, FeatureSpec], fps: Fraction, embodiment: str) -> EpisodeMeta:
    """Make the attributes of an episode in memory; its recording is itself."""
    return EpisodeMeta(
        episode_id=episode_id,
        recording_id=episode_id,
        clip=Clip(0, 0, frames, aliased=True),
        vendor="memory",
        dataset="memory",
        delivery="memory",
        operator="op",
        session=None,
        embodiment=embodiment,
        task_name="t",
        task_description="",
        total_frames=frames,
        fps=fps,
        clock="frame0",
        reference_camera="front_1",
        hand_frame_convention="anat-v1" if embodiment.startswith("human") else None,
        features=dict(features),
    )


def _with_camera(meta: EpisodeMeta, *cameras: str) -> EpisodeMeta:
    spec = FeatureSpec("h264", IMAGE_SHAPE, ("height", "width", "channel"))
    return replace(meta, features={**meta.features, **{camera_key(camera): spec for camera in cameras or ("front_1",)}})


def ramp_joints(episode_id: str, *, frames: int, dim: int = 3, fps: Fraction = Fraction(30)) -> MemoryEpisode:
    """Make a joint robot whose commands are [t, d] = 1000 t + d and whose measured joints are the same plus 0.5."""
    ramp = (1000.0 * np.arange(frames)[:, None] + np.arange(dim)).astype(np.float32)
    names = tuple(f"joint{d}" for d in range(dim))
    arrays: dict[str, NDArray[Any]] = {"cmd_joints": ramp, "obs_joints": ramp + np.float32(0.5)}
    features = {key: FeatureSpec("float32", (dim,), names, "rad") for key in arrays}
    for key in tuple(arrays):
        arrays[valid_key(key)], features[valid_key(key)] = np.ones(frames, np.bool_), mask_spec()
    return MemoryEpisode(
        _with_camera(episode_meta(episode_id, frames=frames, features=features, fps=fps, embodiment="joint_robot")), arrays
    )


def ramp_poses(frames: int, *, step_deg: float, offset_m: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Make poses (T, 7) that walk 1 m per frame, with axis offsets of 0.001 m, and turn about a tilted axis."""
    axis = rng.normal(size=3)
    half = np.radians(step_deg) * np.arange(frames) / 2
    pose = np.empty((frames, 7))
    pose[:, :3] = np.arange(frames)[:, None] + offset_m + 0.001 * np.arange(3)
    pose[:, 3], pose[:, 4:] = np.cos(half), np.sin(half)[:, None] * axis / np.linalg.norm(axis)
    return pose.astype(np.float32)


def ramp_hands(episode_id: str, *, frames: int, fps: Fraction = Fraction(30), seed: int = 0) -> MemoryEpisode:
    """Make two hands and a head that walk on ramps, 1 m per frame and axis offsets of 0.001 m, and turn about tilted axes.

    The left hand turns 3 degrees per frame, the right one 5, the head 2, each about its own axis, so rotations are asymmetric.
    Wrists turn 4 and 6 degrees per frame; keypoint coordinate d of a hand is t + d / 1000 m and an offset of its own.
    """
    rng = np.random.default_rng(seed)
    arrays: dict[str, NDArray[Any]] = {}
    features: dict[str, FeatureSpec] = {}
    named = [(f"{SIDES[0]}.obs_ee_pose", 3.0), (f"{SIDES[1]}.obs_ee_pose", 5.0), (HEAD_POSE, 2.0)]
    named += [(f"{SIDES[0]}.obs_wrist_pose", 4.0), (f"{SIDES[1]}.obs_wrist_pose", 6.0)]
    for number, (key, step_deg) in enumerate(named):
        arrays[key], features[key] = ramp_poses(frames, step_deg=step_deg, offset_m=10 * number, rng=rng), pose_spec()
    for number, side in enumerate(SIDES):
        key = f"{side}.obs_keypoints"
        ramp = np.arange(frames)[:, None] + 30 + 10 * number + 0.001 * np.arange(63)
        arrays[key], features[key] = ramp.astype(np.float32), keypoints_spec()
        arrays[point_valid_key(key)], features[point_valid_key(key)] = np.ones((frames, 21), np.bool_), mask_spec(21)
    for key in [key for key in arrays if not key.endswith("_valid")]:
        arrays[valid_key(key)], features[valid_key(key)] = np.ones(frames, np.bool_), mask_spec()
    return MemoryEpisode(
        _with_camera(episode_meta(episode_id, frames=frames, features=features, fps=fps, embodiment="human_bimanual")), arrays
    )


def ramp_eva(episode_id: str, *, frames: int, fps: Fraction = Fraction(30), seed: int = 0) -> MemoryEpisode:
    """Make a robot with two arms, three cameras, grippers and joints, all on ramps and each different from the others.

    Measured and commanded poses turn 3, 5, 4 and 6 degrees per frame about tilted axes; joint d of an arm is 1000 t + d and an offset.
    """
    rng = np.random.default_rng(seed)
    arrays: dict[str, NDArray[Any]] = {}
    features: dict[str, FeatureSpec] = {}
    turns = iter((3.0, 5.0, 4.0, 6.0))
    for number, (kind, side) in enumerate([(kind, side) for kind in ("obs", "cmd") for side in SIDES]):
        pose, grip, joints = f"{side}.{kind}_ee_pose", f"{side}.{kind}_gripper", f"{side}.{kind}_joints"
        arrays[pose], features[pose] = ramp_poses(frames, step_deg=next(turns), offset_m=10 * number, rng=rng), pose_spec("base")
        arrays[grip] = (np.arange(frames)[:, None] + 0.1 * number).astype(np.float32)
        features[grip] = FeatureSpec("float32", (1,), ("gripper",))
        arrays[joints] = (1000.0 * np.arange(frames)[:, None] + 10 * number + np.arange(6)).astype(np.float32)
        features[joints] = FeatureSpec("float32", (6,), tuple(f"joint{d}" for d in range(6)), "rad")
    for key in tuple(arrays):
        arrays[valid_key(key)], features[valid_key(key)] = np.ones(frames, np.bool_), mask_spec()
    meta = episode_meta(episode_id, frames=frames, features=features, fps=fps, embodiment="eva_bimanual")
    return MemoryEpisode(_with_camera(meta, "front_1", "left_wrist", "right_wrist"), arrays)
