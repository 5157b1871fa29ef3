"""The numbers of one episode, ready to be cut: prepared once, then windows of any starts come out of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import Array, matrix_from_quat
from egodata.sampling.recipe import ActionSpec, ProprioSpec, Recipe
from egodata.sampling.transforms import interpolate_poses, interpolate_rows, into_frame, pack_human, relative_poses
from egodata.sampling.types import EpisodeWindows
from egodata.sampling.windows import Bools, Ints, frames_in, history_frames, resampling, window_frames
from egodata.schema.features import HEAD_POSE, SIDES, valid_key


@dataclass(frozen=True, slots=True)
class Tracks:
    """Whole-episode numbers that a recipe needs; float64, NaN where invalid.

    Attributes:
        action: (T, A, 7) poses in the world, or (T, D) joints.
        proprio: The same for proprio.
        reference: (T, A, 7) wrist poses that actions start from; None for joints.
        head: (T, 7) head poses; None where the recipe does not use them.
    """

    action: Array
    proprio: Array
    reference: Array | None
    head: Array | None

    @property
    def total_frames(self) -> int:
        """Frames of the episode."""
        return int(self.action.shape[0])

    @property
    def size_bytes(self) -> int:
        """Memory of the distinct arrays."""
        arrays = {id(array): array.nbytes for array in (self.action, self.proprio, self.reference, self.head) if array is not None}
        return sum(arrays.values())


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
    made: dict[str, Array] = {}

    def poses(feature: str) -> Array:
        if feature not in made:
            made[feature] = np.stack([_measured(arrays, f"{side}.{feature}") for side in SIDES], axis=1)
        return made[feature]

    def track(spec: ActionSpec | ProprioSpec) -> Array:
        return _measured(arrays, spec.feature) if spec.layout == "joints" else poses(spec.feature)

    frames = (recipe.action.coordinate_frame, recipe.proprio.coordinate_frame)
    reference = None
    if recipe.action.layout != "joints":
        reference = poses(recipe.action.reference if recipe.action.coordinate_frame == "wrist" else recipe.action.feature)
    return Tracks(track(recipe.action), track(recipe.proprio), reference, _measured(arrays, HEAD_POSE) if "head" in frames else None)


def arms_ready(tracks: Tracks, recipe: Recipe) -> Bools:
    """Mark the arms (T, A) that an action can start from at each frame.

    Their reference pose is valid, and the head's where actions are in its coordinate frame.
    """
    if tracks.reference is None:
        return _finite(tracks.action, 1)[:, None]
    ready = _finite(tracks.reference, -1)
    if recipe.action.coordinate_frame == "head" and tracks.head is not None:
        ready = ready & _finite(tracks.head, -1)[:, None]
    return ready


def _actions(tracks: Tracks, recipe: Recipe, starts: Ints, ends: Ints, *, fps: Fraction) -> tuple[Array, Bools]:
    length = frames_in(recipe.action.window_s, fps)
    frames, real = window_frames(starts, frames=length, ends=ends)
    plan = resampling(length, recipe.action.steps)
    before, after = tracks.action[frames[:, plan.lower]], tracks.action[frames[:, plan.upper]]
    recorded = (real[:, plan.lower] & real[:, plan.upper])[..., None]
    if tracks.reference is None:
        values = interpolate_rows(before, after, np.broadcast_to(plan.share, before.shape[:2]))
        return values, recorded & np.isfinite(values)
    positions, rotations = interpolate_poses(before, after, np.broadcast_to(plan.share[:, None], before.shape[:3]))
    if recipe.action.coordinate_frame == "wrist":
        positions, rotations = into_frame(positions, rotations, frame=tracks.reference[starts][:, None])
    elif recipe.action.coordinate_frame == "head" and tracks.head is not None:
        positions, rotations = into_frame(positions, rotations, frame=tracks.head[starts][:, None, None])
    positions = np.where(arms_ready(tracks, recipe)[starts][:, None, :, None], positions, np.nan)
    return _packed(positions, rotations, recorded, grip=False)


def _packed(positions: Array, rotations: Array, recorded: Bools, *, grip: bool) -> tuple[Array, Bools]:
    """Pack arms into channels; an arm that is invalid anywhere in a step is invalid in all its channels there."""
    valid = _finite(positions, -1) & _finite(rotations, (-1, -2))
    values = pack_human(positions, rotations, grip=grip)
    cells = np.repeat(valid, values.shape[-1] // valid.shape[-1], axis=-1)
    return np.where(cells, values, np.nan), cells & recorded


def _proprio(tracks: Tracks, recipe: Recipe, starts: Ints) -> tuple[Array, Bools, Bools]:
    frames, real = history_frames(starts, count=recipe.proprio.history, stride=recipe.proprio.stride_frames)
    rows = tracks.proprio[frames]
    if recipe.proprio.layout == "joints":
        return rows, real, _finite(rows, -1)[..., None]
    positions, rotations = rows[..., :3], matrix_from_quat(rows[..., 3:])
    if recipe.proprio.coordinate_frame == "head" and tracks.head is not None:
        positions, rotations = into_frame(positions, rotations, frame=tracks.head[starts][:, None, None])
    values, cells = _packed(positions, rotations, np.ones((*real.shape, 1), bool), grip=True)
    return values, real, cells[..., :: values.shape[-1] // len(recipe.arms)]


def windows_of(tracks: Tracks, recipe: Recipe, *, starts: Ints, fps: Fraction, ends: Ints | None = None) -> EpisodeWindows:
    """Cut the actions and proprio of many start frames out of prepared tracks; see `episode_windows`."""
    starts = np.asarray(starts, np.int64)
    ends = np.full(starts.shape, tracks.total_frames, np.int64) if ends is None else np.asarray(ends, np.int64)
    actions, action_mask = _actions(tracks, recipe, starts, ends, fps=fps)
    proprio, proprio_mask, arm_valid = _proprio(tracks, recipe, starts)
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


def reference_poses(tracks: Tracks, recipe: Recipe, *, starts: Ints) -> Array:
    """Wrist poses at the start frames, for turning actions back into poses.

    Returns:
        (n, A, 7): in the head's coordinate frame where the recipe's proprio is, else in the world; NaN where invalid.
        Without arms, (n, 0, 7), for joints.
    """
    starts = np.asarray(starts, np.int64)
    if tracks.reference is None:
        return np.zeros((len(starts), 0, 7))
    poses = tracks.reference[starts]
    if recipe.proprio.coordinate_frame == "head" and tracks.head is not None:
        return relative_poses(poses, frame=tracks.head[starts][:, None])
    return poses
