"""The numbers of one episode, ready to be cut: prepared once, then windows of any starts come out of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import Array
from egodata.sampling.recipe import Recipe
from egodata.sampling.transforms import Poses, interpolate_poses, interpolate_rows, into_frame, pack_human, poses_from_rows, rows_from_poses
from egodata.sampling.types import EpisodeWindows, Part
from egodata.sampling.windows import Bools, Ints, frames_in, history_frames, resampling, window_frames
from egodata.schema.features import HEAD_POSE, SIDES, valid_key


@dataclass(frozen=True, slots=True)
class Tracks:
    """Whole-episode numbers that a recipe needs; float64, NaN where invalid.

    Attributes:
        action: (T, A, 7) rows of poses in the world, or (T, D) joints.
        ready: (T, A) bool; arms that an action can start from.
        joints: (T, P) joints of proprio; None for hands.
        arms: (T, A) poses of proprio in the world; None for joints.
        origin: Poses whose coordinate frame actions are in, (T, A) wrists or (T, 1) head; None for the world and for joints.
        head: (T, 1) head poses; None where proprio is not in their coordinate frame.
        reference: (T, A, 7) rows of the wrist poses that actions start from, in the head's coordinate frame where proprio is,
            else in the world; A is 0 for joints.
    """

    action: Array
    ready: Bools
    joints: Array | None
    arms: Poses | None
    origin: Poses | None
    head: Poses | None
    reference: Array

    @property
    def total_frames(self) -> int:
        """Frames of the episode."""
        return int(self.action.shape[0])

    @property
    def size_bytes(self) -> int:
        """Memory of the arrays."""
        poses = [part for poses in (self.arms, self.origin, self.head) if poses is not None for part in (poses.positions, poses.rotations)]
        rows = [array for array in (self.action, self.ready, self.joints, self.reference, *poses) if array is not None]
        return sum({id(array): array.nbytes for array in rows}.values())


def _measured(arrays: Mapping[str, NDArray[Any]], key: str) -> Array:
    rows = np.array(arrays[key], np.float64)
    mask = arrays.get(valid_key(key))
    if mask is not None:
        rows[~np.asarray(mask, bool)] = np.nan
    if rows.shape[1] == 7:
        rows[~np.isfinite(rows).all(1)] = np.nan
    return rows


def _finite(values: Array, axis: int | tuple[int, ...]) -> Bools:
    return np.asarray(np.isfinite(values).all(axis))


def prepare(arrays: Mapping[str, NDArray[Any]], recipe: Recipe) -> Tracks:
    """Turn the stored arrays of a whole episode into tracks.

    Args:
        arrays: By key, (T, ...); at least `Layout.keys` of `bind`. A feature without a mask is valid where it is finite.
        recipe: What is needed.
    """
    if recipe.action.layout == "joints":
        action = _measured(arrays, recipe.action.feature)
        nothing = np.zeros((len(action), 0, 7))
        return Tracks(action, _finite(action, 1)[:, None], _measured(arrays, recipe.proprio.feature), None, None, None, nothing)
    return _prepare_hands(arrays, recipe)


def _prepare_hands(arrays: Mapping[str, NDArray[Any]], recipe: Recipe) -> Tracks:
    frame = recipe.action.coordinate_frame
    features = (recipe.action.feature, recipe.action.reference if frame == "wrist" else recipe.action.feature, recipe.proprio.feature)
    rows = {name: np.stack([_measured(arrays, f"{side}.{name}") for side in SIDES], axis=1) for name in set(features)}
    poses = {name: poses_from_rows(found) for name, found in rows.items()}
    action, reference, arms = rows[features[0]], poses[features[1]], poses[features[2]]
    head = None
    if "head" in (frame, recipe.proprio.coordinate_frame):
        head = poses_from_rows(_measured(arrays, HEAD_POSE)[:, None])
    origin = {"wrist": reference, "head": head}.get(frame)
    ready = _finite(rows[features[1]], -1)
    if frame == "head" and head is not None:
        ready = ready & _finite(head.positions, -1)
    in_head = head if recipe.proprio.coordinate_frame == "head" else None
    seen = rows[features[1]] if in_head is None else rows_from_poses(into_frame(reference, in_head))
    return Tracks(action, ready, None, arms, origin, in_head, seen)


def _actions(tracks: Tracks, recipe: Recipe, starts: Ints, ends: Ints, *, fps: Fraction, steps: range) -> tuple[Array, Bools]:
    length = frames_in(recipe.action.window_s, fps)
    frames, real = window_frames(starts, frames=length, ends=ends)
    plan, some = resampling(length, recipe.action.steps), slice(steps.start, steps.stop)
    lower, upper, share = plan.lower[some], plan.upper[some], plan.share[some]
    before, after = tracks.action[frames[:, lower]], tracks.action[frames[:, upper]]
    recorded = (real[:, lower] & real[:, upper])[..., None]
    if tracks.arms is None:
        values = interpolate_rows(before, after, share=np.broadcast_to(share, before.shape[:2]))
        return values, recorded & np.isfinite(values)
    poses = interpolate_poses(before, after, share=np.broadcast_to(share[:, None], before.shape[:3]))
    if tracks.origin is not None:
        poses = into_frame(poses, tracks.origin[starts][:, None])
    return _packed(poses, recorded, grip=False, allowed=tracks.ready[starts][:, None])


def _packed(poses: Poses, recorded: Bools | np.bool_, *, grip: bool, allowed: Bools | np.bool_) -> tuple[Array, Bools]:
    """Pack arms into channels; an arm that is invalid anywhere in a step, or not allowed, is invalid in all its channels there."""
    valid = _finite(poses.positions, -1) & _finite(poses.rotations, (-1, -2)) & allowed
    values = pack_human(poses, grip=grip)
    cells = np.repeat(valid, values.shape[-1] // valid.shape[-1], axis=-1)
    return np.where(cells, values, np.nan), cells & recorded


def _proprio(tracks: Tracks, recipe: Recipe, starts: Ints, *, history: int) -> tuple[Array, Bools, Bools]:
    frames, real = history_frames(starts, count=history, stride=recipe.proprio.stride_frames)
    if tracks.arms is None:
        rows = np.asarray(tracks.joints)[frames]
        return rows, real, _finite(rows, -1)[..., None]
    poses = tracks.arms[frames]
    if tracks.head is not None:
        poses = into_frame(poses, tracks.head[starts][:, None])
    values, cells = _packed(poses, np.True_, grip=True, allowed=np.True_)
    return values, real, cells[..., :: values.shape[-1] // len(recipe.arms)]


def windows_of(
    tracks: Tracks, recipe: Recipe, *, starts: Ints, fps: Fraction, ends: Ints | None = None, part: Part | None = None
) -> EpisodeWindows:
    """Cut the actions and proprio of many start frames out of prepared tracks; see `episode_windows`.

    With `part` only that is made, bit for bit as in the whole: statistics take a few steps at a time.
    """
    starts = np.asarray(starts, np.int64)
    part = Part(range(recipe.action.steps)) if part is None else part
    ends = np.full(starts.shape, tracks.total_frames, np.int64) if ends is None else np.asarray(ends, np.int64)
    actions, action_mask = _actions(tracks, recipe, starts, ends, fps=fps, steps=part.steps)
    proprio, proprio_mask, arm_valid = _proprio(tracks, recipe, starts, history=recipe.proprio.history if part.proprio else 0)
    return EpisodeWindows(
        starts,
        actions.astype(np.float32),
        action_mask,
        proprio.astype(np.float32),
        proprio_mask,
        arm_valid,
        np.isfinite(proprio),
    )


def episode_windows(
    arrays: Mapping[str, NDArray[Any]], recipe: Recipe, *, starts: Ints, fps: Fraction, ends: Ints | None = None
) -> EpisodeWindows:
    """Cut the windows of many start frames of one episode: the numbers that statistics are made of.

    A sample of the loader holds the same numbers for its frame, then normalised.

    Args:
        arrays: Stored arrays of the whole episode by key, (T, ...); at least `Layout.keys` of `bind`.
        recipe: What is needed.
        starts: (n,) start frames in [0, T).
        fps: Frames per second.
        ends: (n,) frame after the last usable one per start, from `cutoff_ends`; None where only the episode ends it.

    Raises:
        WindowError: A start lies outside the episode.
    """
    return windows_of(prepare(arrays, recipe), recipe, starts=starts, fps=fps, ends=ends)
