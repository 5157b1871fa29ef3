"""Poses, keypoints and grips to channels and back: coordinate frames, interpolation, packing.

Transforms are frozen pairs, `forward` for training and `inverse` for metrics and prediction, over any leading axes. `action_chain` is
what a recipe does to actions after they are resampled; normalisation comes after it (`Normaliser`, the same pair).

Rows of poses are (..., 7), ``x y z qw qx qy qz``, metres, float64 inside; NaN where invalid, and NaN stays NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egodata.errors import RecipeError
from egodata.geometry.pose import compose, pose_from_matrix
from egodata.geometry.rotation import (
    Array,
    matrix_from_quat,
    matrix_from_rot6d,
    matrix_from_zyx,
    quat_from_matrix,
    rot6d_from_matrix,
    slerp,
    zyx_from_matrix,
)
from egodata.sampling.layouts import KEYPOINTS, LAYOUTS, ArmLayout, Part
from egodata.sampling.recipe import Recipe


def interpolate_rows(before: NDArray[np.floating], after: NDArray[np.floating], *, share: NDArray[np.floating]) -> Array:
    """Interpolate rows (..., D) linearly; share (...) from 0 (`before`) to 1 (`after`)."""
    before = np.asarray(before, np.float64)
    return before + share[..., None] * (np.asarray(after, np.float64) - before)


@dataclass(frozen=True, slots=True)
class Poses:
    """Poses taken apart, in some coordinate frame A; NaN where invalid.

    Attributes:
        positions: (..., 3) metres.
        rotations: (..., 3, 3).
    """

    positions: Array
    rotations: Array

    def __getitem__(self, at: Any) -> "Poses":
        """Index the leading axes."""
        return Poses(self.positions[at], self.rotations[at])


def poses_from_rows(rows: NDArray[np.floating]) -> Poses:
    """Take rows (..., 7) apart."""
    values: Array = np.asarray(rows, np.float64)
    return Poses(values[..., :3], matrix_from_quat(values[..., 3:]))


def rows_from_poses(poses: Poses) -> Array:
    """Undo `poses_from_rows`, with qw >= 0."""
    return pose_from_matrix(compose(poses.rotations, poses.positions))


def into_frame(poses: Poses, frame: Poses) -> Poses:
    """Express poses, given in A, in the coordinate frame B of another pose A_T_B. Leading axes are broadcast."""
    inverse = np.swapaxes(frame.rotations, -1, -2)
    return Poses((inverse @ (poses.positions - frame.positions)[..., None])[..., 0], inverse @ poses.rotations)


def from_frame(poses: Poses, frame: Poses) -> Poses:
    """Undo `into_frame`: express poses, given in B, in A, by the pose A_T_B."""
    return Poses((frame.rotations @ poses.positions[..., None])[..., 0] + frame.positions, frame.rotations @ poses.rotations)


def interpolate_poses(before: Array, after: Array, *, share: NDArray[np.floating]) -> Poses:
    """Interpolate rows (..., 7): translation linearly, rotation by slerp on the shorter arc."""
    positions = interpolate_rows(before[..., :3], after[..., :3], share=share)
    return Poses(positions, matrix_from_quat(slerp(before[..., 3:], after[..., 3:], share)))


def points_into_frame(points: Array, frame: Poses) -> Array:
    """Express points (..., N, 3), given in A, in the coordinate frame B of poses A_T_B (...)."""
    return np.asarray((points - frame.positions[..., None, :]) @ frame.rotations)


def points_from_frame(points: Array, frame: Poses) -> Array:
    """Undo `points_into_frame`."""
    return points @ np.swapaxes(frame.rotations, -1, -2) + frame.positions[..., None, :]


@dataclass(frozen=True, slots=True)
class ArmParts:
    """Numbers of arms, taken apart; NaN where invalid, None where a layout has no such part.

    Attributes:
        poses: (..., A). Where a layout writes positions without rotations, those of `PackArms.inverse` are NaN.
        points: (..., A, 21, 3) metres.
        grips: (..., A).
    """

    poses: Poses | None = None
    points: Array | None = None
    grips: Array | None = None


class Transform(Protocol):
    """A pair of functions on arms; `inverse` undoes `forward` wherever the numbers are valid and not degenerate."""

    def forward(self, parts: ArmParts) -> ArmParts:
        """Apply it, as training does."""
        ...

    def inverse(self, parts: ArmParts) -> ArmParts:
        """Undo it, as metrics and prediction do."""
        ...


@dataclass(frozen=True, slots=True)
class Reexpress:
    """From a common coordinate frame A into that of a pose A_T_B.

    Attributes:
        frame: A_T_B, its axes broadcast against those of the arms: one for all of them, or one per arm.
        with_points: Whether keypoints move too, or stay in their own wrists.
    """

    frame: Poses
    with_points: bool = True

    def forward(self, parts: ArmParts) -> ArmParts:
        """Express everything in B."""
        return self._moved(parts, into_frame, points_into_frame)

    def inverse(self, parts: ArmParts) -> ArmParts:
        """Express everything in A."""
        return self._moved(parts, from_frame, points_from_frame)

    def _moved(self, parts: ArmParts, pose: Callable[[Poses, Poses], Poses], point: Callable[[Array, Poses], Array]) -> ArmParts:
        poses = None if parts.poses is None else pose(parts.poses, self.frame)
        moves = self.with_points and parts.points is not None
        return ArmParts(poses, point(parts.points, self.frame) if moves and parts.points is not None else parts.points, parts.grips)


@dataclass(frozen=True, slots=True)
class OwnWrist:
    """Keypoints from the coordinate frame of the wrist poses beside them into each of those wrists."""

    def forward(self, parts: ArmParts) -> ArmParts:
        """Express points in the wrist of their own step."""
        return self._moved(parts, points_into_frame)

    def inverse(self, parts: ArmParts) -> ArmParts:
        """Express points in the coordinate frame of the poses."""
        return self._moved(parts, points_from_frame)

    def _moved(self, parts: ArmParts, point: Callable[[Array, Poses], Array]) -> ArmParts:
        if parts.poses is None or parts.points is None:
            return parts
        return replace(parts, points=point(parts.points, parts.poses))


def _encode_rotation(form: Part, rotations: Array) -> Array:
    encode: dict[Part, Callable[[Array], Array]] = {"ypr": zyx_from_matrix, "quat": quat_from_matrix, "rot6d": rot6d_from_matrix}
    return encode[form](rotations)


def _decode_rotation(form: Part, values: Array) -> Array:
    if form == "ypr":
        return matrix_from_zyx(values[..., 0], values[..., 1], values[..., 2])
    return matrix_from_quat(values) if form == "quat" else matrix_from_rot6d(values)


@dataclass(frozen=True, slots=True)
class PackArms:
    """Arms to channels of a layout, left first. A grip that is not given is 0."""

    layout: ArmLayout

    def forward(self, parts: ArmParts) -> Array:
        """Pack arms (..., A) into channels (..., A x width).

        Raises:
            RecipeError: The layout needs a part that is not there.
        """
        packed = np.concatenate([self._channels(part, parts) for part in self.layout.parts], axis=-1)
        return packed.reshape(*packed.shape[:-2], packed.shape[-2] * packed.shape[-1])

    def _channels(self, part: Part, parts: ArmParts) -> Array:
        if part == "keypoints" and parts.points is not None:
            return parts.points.reshape(*parts.points.shape[:-2], 3 * KEYPOINTS)
        if part == "grip" and parts.grips is not None:
            return parts.grips[..., None]
        if parts.poses is None or part == "keypoints":
            raise RecipeError(f"channels {part}: the arms have no such numbers")
        if part == "grip":
            return np.zeros((*parts.poses.positions.shape[:-1], 1))
        return parts.poses.positions if part == "xyz" else _encode_rotation(part, parts.poses.rotations)

    def inverse(self, values: NDArray[np.floating]) -> ArmParts:
        """Take channels apart into arms (..., A), in float64; a 6D rotation is made orthonormal by Gram-Schmidt.

        Raises:
            RecipeError: The last axis is not a whole number of arms.
        """
        layout = self.layout
        if values.shape[-1] % layout.width:
            raise RecipeError(f"{layout.body} channels: expected a multiple of {layout.width}, got {values.shape[-1]}")
        arms = np.asarray(values, np.float64).reshape(*values.shape[:-1], -1, layout.width)
        poses, points = None, None
        if "xyz" in layout.parts:
            positions = arms[..., layout.at("xyz")]
            form = layout.rotation
            unknown = np.full((*positions.shape, 3), np.nan)
            poses = Poses(positions, unknown if form is None else _decode_rotation(form, arms[..., layout.at(form)]))
        if "keypoints" in layout.parts:
            points = arms[..., layout.at("keypoints")].reshape(*arms.shape[:-1], KEYPOINTS, 3)
        return ArmParts(poses, points, arms[..., layout.at("grip")][..., 0] if "grip" in layout.parts else None)


def pack_human(poses: Poses, *, grip: bool) -> Array:
    """Pack poses per arm into xyz and 6D rotation, and a zero grip where asked: (..., A) to (..., 9 A) or (..., 10 A)."""
    return PackArms(LAYOUTS["human_20" if grip else "human_18"]).forward(ArmParts(poses))


def unpack_human(values: NDArray[np.floating], *, grip: bool) -> Poses:
    """Undo `pack_human`; the 6D rotation is made orthonormal by Gram-Schmidt.

    Raises:
        RecipeError: The last axis is not a whole number of arms.
    """
    found = PackArms(LAYOUTS["human_20" if grip else "human_18"]).inverse(values).poses
    if found is None:
        raise RecipeError("human channels: no poses")
    return found


def action_chain(recipe: Recipe, *, reference: NDArray[np.floating]) -> tuple[Transform, ...]:
    """Return what turns resampled arms in a common coordinate frame into what `PackArms` packs.

    Args:
        recipe: Says which coordinate frames its actions and keypoints are in.
        reference: (..., A, 7), the wrist poses at the start in the common coordinate frame; read for wrist-frame actions only.
    """
    own = "keypoints" in recipe.action_layout.parts and recipe.action.keypoints_frame == "own_wrist"
    chain: list[Transform] = [OwnWrist()] if own else []
    if recipe.action.coordinate_frame == "wrist":
        chain.append(Reexpress(poses_from_rows(np.asarray(reference)[..., None, :, :]), with_points=not own))
    return tuple(chain)


def actions_from_parts(parts: ArmParts, recipe: Recipe, *, reference: NDArray[np.floating]) -> Array:
    """Turn arms (..., S, A) in a common coordinate frame into actions (..., S, D); see `actions_to_parts`."""
    for transform in action_chain(recipe, reference=reference):
        parts = transform.forward(parts)
    return PackArms(recipe.action_layout).forward(parts)


def actions_to_parts(actions: NDArray[np.floating], recipe: Recipe, *, reference: NDArray[np.floating]) -> ArmParts:
    """Turn actions back into poses, keypoints and grips in one common coordinate frame, for metrics and overlays.

    Args:
        actions: (..., S, D), not normalised.
        recipe: Says what the channels are and which coordinate frame they are in.
        reference: (..., A, 7), the wrist poses at the start (`Sample.reference`); read for wrist-frame actions only.

    Returns:
        Arms (..., S, A), in the coordinate frame of `reference` for wrist-frame actions, else in the recipe's own.

    Raises:
        RecipeError: The recipe's actions are joints.
    """
    if recipe.action_layout.of_joints:
        raise RecipeError(f"recipe {recipe.name}: joints have no poses. Compare joint actions as they are.")
    parts = PackArms(recipe.action_layout).inverse(actions)
    for transform in reversed(action_chain(recipe, reference=reference)):
        parts = transform.inverse(parts)
    return parts


def actions_to_poses(actions: NDArray[np.floating], recipe: Recipe, *, reference: NDArray[np.floating]) -> Poses:
    """Turn actions back into poses in one common coordinate frame; see `actions_to_parts`.

    Raises:
        RecipeError: The recipe's actions have no poses: joints, or keypoints alone.
    """
    poses = actions_to_parts(actions, recipe, reference=reference).poses
    if poses is None:
        raise RecipeError(f"recipe {recipe.name}: layout {recipe.action.layout} has no poses. Compare its keypoints (actions_to_parts).")
    return poses
