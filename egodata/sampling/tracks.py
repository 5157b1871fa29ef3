"""The numbers of one episode, ready to be cut: prepared once, then windows of any starts come out of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import Array
from egodata.sampling.arms import Limbs, as_targets, finite, joint_limbs, measured, pose_limbs, pose_rows
from egodata.sampling.layouts import KEYPOINTS, ArmLayout
from egodata.sampling.recipe import Recipe, Spec
from egodata.sampling.transforms import (
    ArmParts,
    PackArms,
    Poses,
    Reexpress,
    interpolate_poses,
    interpolate_rows,
    into_frame,
    poses_from_rows,
    rows_from_poses,
)
from egodata.sampling.types import EpisodeWindows, Part
from egodata.sampling.windows import Bools, Ints, frames_in, history_frames, resampling, window_frames
from egodata.schema.features import HEAD_POSE


@dataclass(frozen=True, slots=True)
class Tracks:
    """Whole-episode numbers that a recipe needs; float64, NaN where invalid.

    Attributes:
        action: What actions are cut from.
        proprio: What proprio is cut from.
        ready: (T, A) bool; arms that an action can start from.
        origin: Poses whose coordinate frame actions are in, (T, A) wrists or (T, 1) head; None for the world, bases and joints.
        view: The same for proprio.
        reference: (T, A, 7) rows of the wrist poses that actions start from, in the head's coordinate frame where proprio is,
            else as they are stored; A is 0 for joints.
    """

    action: Limbs
    proprio: Limbs
    ready: Bools
    origin: Poses | None
    view: Poses | None
    reference: Array

    @property
    def total_frames(self) -> int:
        """Frames of the episode."""
        return int(self.action.rows.shape[0])

    @property
    def size_bytes(self) -> int:
        """Memory of the arrays."""
        poses = [part for poses in (self.origin, self.view) if poses is not None for part in (poses.positions, poses.rotations)]
        arrays = [self.ready, self.reference, *self.action.arrays, *self.proprio.arrays, *poses]
        return sum({id(array): array.nbytes for array in arrays}.values())


def prepare(arrays: Mapping[str, NDArray[Any]], recipe: Recipe) -> Tracks:
    """Turn the stored arrays of a whole episode into tracks.

    Args:
        arrays: By key, (T, ...); at least `Layout.keys` of `bind`. A feature without a mask is valid where it is finite.
        recipe: What is needed.
    """
    specs: list[tuple[Spec, ArmLayout]] = [(recipe.action, recipe.action_layout), (recipe.proprio, recipe.proprio_layout)]
    start = recipe.action.reference if recipe.action.coordinate_frame == "wrist" else recipe.action.feature
    names = {spec.feature for spec, layout in specs if not layout.of_joints} | ({start} if not recipe.action_layout.of_joints else set())
    rows = {name: pose_rows(arrays, name) for name in names}
    poses = {name: poses_from_rows(found) for name, found in rows.items()}
    targets = as_targets(arrays)
    wanted = (
        rows if targets is arrays or recipe.action_layout.of_joints else {recipe.action.feature: pose_rows(targets, recipe.action.feature)}
    )
    given = [(targets, wanted), (arrays, rows)]
    action, proprio = (
        joint_limbs(source, spec, layout=layout)
        if layout.of_joints
        else pose_limbs(source, spec, layout=layout, rows=found[spec.feature], poses=poses[spec.feature])
        for (source, found), (spec, layout) in zip(given, specs, strict=True)
    )
    in_head = recipe.proprio.coordinate_frame == "head"
    head = None
    if in_head or recipe.action.coordinate_frame == "head":
        head = poses_from_rows(measured(arrays, HEAD_POSE)[:, None])
    view = {"wrist": proprio.poses, "head": head}.get(recipe.proprio.coordinate_frame)
    if recipe.action_layout.of_joints:
        arms = np.split(action.rows, np.cumsum(action.widths)[:-1], axis=1)
        ready = np.stack([finite(arm, -1) for arm in arms], axis=1)
        return Tracks(action, proprio, ready, None, view, np.zeros((len(action.rows), 0, 7)))
    ready = finite(rows[start], -1)
    if recipe.action.coordinate_frame == "head" and head is not None:
        ready = ready & finite(head.positions, -1)
    origin = {"wrist": poses[start], "head": head}.get(recipe.action.coordinate_frame)
    reference = rows_from_poses(into_frame(poses[start], head)) if in_head and head is not None else rows[start]
    return Tracks(action, proprio, ready, origin, view, reference)


def _actions(tracks: Tracks, recipe: Recipe, starts: Ints, ends: Ints, *, fps: Fraction, steps: range) -> tuple[Array, Bools]:
    length = frames_in(recipe.action.window_s, fps)
    frames, real = window_frames(starts, frames=length, ends=ends)
    plan, some = resampling(length, recipe.action.steps), slice(steps.start, steps.stop)
    lower, upper, share = plan.lower[some], plan.upper[some], plan.share[some]
    recorded = (real[:, lower] & real[:, upper])[..., None]
    before, after, limbs = frames[:, lower], frames[:, upper], tracks.action
    allowed = tracks.ready[starts][:, None]
    if limbs.poses is None:
        values = interpolate_rows(limbs.rows[before], limbs.rows[after], share=np.broadcast_to(share, before.shape))
        cells = np.isfinite(values) & np.repeat(allowed, limbs.widths, axis=-1)
        return np.where(cells, values, np.nan), cells & recorded
    parts = _between(limbs, before, after, share=share)
    if tracks.origin is not None:
        parts = Reexpress(tracks.origin[starts][:, None], with_points=recipe.action.keypoints_frame == "shared").forward(parts)
    values, cells, _ = _packed(parts, recipe.action_layout, allowed=allowed)
    return values, cells & recorded


def _between(limbs: Limbs, before: Ints, after: Ints, *, share: NDArray[np.float64]) -> ArmParts:
    """Interpolate arms between frames (n, S): poses by slerp, keypoints and grips linearly."""
    arms = (*before.shape, len(limbs.widths))
    shares = np.broadcast_to(share[:, None], arms)
    poses = interpolate_poses(limbs.rows[before], limbs.rows[after], share=shares)
    points, grips = limbs.points, limbs.grips
    if points is not None:
        points = interpolate_rows(points[before], points[after], share=np.broadcast_to(share[:, None, None], (*arms, points.shape[2])))
    if grips is not None:
        grips = interpolate_rows(grips[before][..., None], grips[after][..., None], share=shares)[..., 0]
    return ArmParts(poses, points, grips)


def _packed(parts: ArmParts, layout: ArmLayout, *, allowed: Bools | None = None) -> tuple[Array, Bools, Bools]:
    """Pack arms into channels, NaN where invalid.

    A pose that is invalid anywhere is invalid in all of its channels, and so is a keypoint; a measured grip stands for itself.

    Returns:
        Values (..., A x W), which cells are valid, and which arms (..., A): those whose pose is, or any keypoint if that is all.
    """
    values = PackArms(layout).forward(parts)
    pose, points = layout.groups
    cells = np.isfinite(values).reshape(*values.shape[:-1], len(layout.arms), layout.width)
    if pose.stop:
        arm_valid: Bools = np.asarray(cells[..., pose].all(-1))
        cells[..., pose] = arm_valid[..., None]
    if points.stop:
        seen = cells[..., points].reshape(*cells.shape[:-1], KEYPOINTS, 3).all(-1)
        cells[..., points] = np.repeat(seen, 3, axis=-1)
        arm_valid = arm_valid if pose.stop else np.asarray(seen.any(-1))
    if allowed is not None:
        cells &= allowed[..., None]
    flat = cells.reshape(values.shape)
    return np.where(flat, values, np.nan), flat, arm_valid


def _proprio(tracks: Tracks, recipe: Recipe, starts: Ints, *, fps: Fraction, history: int) -> tuple[Array, Bools, Bools, Bools]:
    frames, real = history_frames(starts, count=history, stride=recipe.proprio.stride_in(fps))
    limbs = tracks.proprio
    if limbs.poses is None:
        rows = limbs.rows[frames]
        arms = np.split(np.isfinite(rows), np.cumsum(limbs.widths)[:-1], axis=-1)
        return rows, real, np.stack([arm.all(-1) for arm in arms], axis=-1), np.isfinite(rows)
    parts = ArmParts(
        limbs.poses[frames], None if limbs.points is None else limbs.points[frames], None if limbs.grips is None else limbs.grips[frames]
    )
    if tracks.view is not None:
        parts = Reexpress(tracks.view[starts][:, None], with_points=recipe.proprio.keypoints_frame == "shared").forward(parts)
    values, cells, arm_valid = _packed(parts, recipe.proprio_layout)
    return values, real, arm_valid, cells


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
    history = recipe.proprio.history if part.proprio else 0
    proprio, proprio_mask, arm_valid, proprio_valid = _proprio(tracks, recipe, starts, fps=fps, history=history)
    return EpisodeWindows(
        starts, actions.astype(np.float32), action_mask, proprio.astype(np.float32), proprio_mask, arm_valid, proprio_valid
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
