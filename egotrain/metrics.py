"""What a predicted chunk of actions is worth, on un-normalised numbers. docs/training.md says what each name means.

Human chunks are scored per hand and step over the recorded steps:

- ``xyz_mse_m2``: mean squared error of x, y and z, each coordinate counted, prediction and truth paired step by step;
- ``xyz_l2_early_m``, ``_mid_m``, ``_late_m``: mean distance in the first 10 %, up to 50 %, and the rest of the chunk;
- ``dtw_m``: distance after the best alignment in time (see `egotrain.warp`);
- ``rotation_deg`` and ``rotation_final_deg``: geodesic angle, mean over all steps and at the last recorded one;
- ``keypoint_l2_m``: mean distance of the hand's keypoints, where the recipe's actions have them;
- ``grip.l1``: mean difference of a gripper's opening, where it is measured.

They come as the policy says them, in the wrist's coordinate frame (``wrist.``; keypoints in the wrist of their own step), and after the
way back through the reference pose in the head's, the world's or the arm's base (``head.``, ``world.``, ``base.``).
Joint chunks give ``joint.mse`` and ``joint.l2_*``, over whole rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import angle_rad
from egodata.sampling import ArmParts, Poses, Recipe, actions_to_parts
from egodata.sampling.transforms import PackArms
from egotrain.warp import warped_distance

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
EARLY_SHARE, MID_SHARE = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of n chunks, cell by cell, so that they can be averaged over any of the chunks.

    Attributes:
        cells: By metric, values (n, ...) and which of them count.
    """

    cells: Mapping[str, tuple[Floats, Bools]]

    def mean(self, rows: Bools | slice = slice(None)) -> dict[str, float]:
        """Return the mean of every metric over the cells of some chunks that count; NaN where none does."""
        return {name: _mean(values[rows], mask[rows]) for name, (values, mask) in self.cells.items()}


def phases(steps: int) -> dict[str, slice]:
    """Return the steps of the early, mid and late part of a chunk; each has at least one where there are three.

    >>> phases(100)
    {'early': slice(0, 10, None), 'mid': slice(10, 50, None), 'late': slice(50, 100, None)}
    """
    early, mid = max(1, round(EARLY_SHARE * steps)), max(2, round(MID_SHARE * steps))
    return {"early": slice(0, early), "mid": slice(early, mid), "late": slice(mid, steps)}


def chunk_metrics(predicted: Floats, truth: Floats, *, mask: Bools, recipe: Recipe, reference: Floats) -> dict[str, float]:
    """Score chunks of actions: the means of `chunk_errors` over all of them."""
    return chunk_errors(predicted, truth, mask=mask, recipe=recipe, reference=reference).mean()


def chunk_errors(predicted: Floats, truth: Floats, *, mask: Bools, recipe: Recipe, reference: Floats) -> Errors:
    """Score chunks of actions.

    Args:
        predicted: (n, S, D), not normalised.
        truth: (n, S, D), not normalised.
        mask: (n, S, D) recorded cells.
        recipe: Says what the channels are.
        reference: (n, A, 7), `Sample.reference`.
    """
    if recipe.action_layout.of_joints:
        rows: Bools = np.asarray(mask.all(-1))
        return Errors({f"joint.{name}": found for name, found in _distances(predicted, truth, rows, unit="").items()})
    known = arm_masks(mask, recipe)
    there, true = (actions_to_parts(chunk, recipe, reference=reference) for chunk in (predicted, truth))
    out = _arm_errors(there, true, known, common_frame(recipe))
    if recipe.action.coordinate_frame == "wrist":
        pack = PackArms(recipe.action_layout)
        out.update(_arm_errors(pack.inverse(predicted), pack.inverse(truth), known, "wrist"))
    return Errors(out)


@dataclass(frozen=True, slots=True)
class ArmMasks:
    """Which parts of arms were recorded.

    Attributes:
        poses: (..., A).
        points: (..., A, 21), None where the layout has none.
        grips: (..., A), None where nothing is measured.
    """

    poses: Bools
    points: Bools | None
    grips: Bools | None


def arm_masks(mask: Bools, recipe: Recipe) -> ArmMasks:
    """Take a mask of channels (..., D) apart; see `ArmMasks`."""
    layout = recipe.action_layout
    arms = mask.reshape(*mask.shape[:-1], len(layout.arms), layout.width)
    points = arms[..., layout.at("keypoints")]
    seen = np.asarray(points.reshape(*points.shape[:-1], -1, 3).all(-1)) if "keypoints" in layout.parts else None
    poses = np.asarray(arms[..., layout.at("xyz")].all(-1)) if "xyz" in layout.parts or seen is None else np.asarray(seen[..., 0])
    return ArmMasks(poses, seen, np.asarray(arms[..., layout.at("grip")].all(-1)) if layout.measured_grip else None)


def common_frame(recipe: Recipe) -> str:
    """Return the coordinate frame that `actions_to_parts` gives: ``head``, ``world`` or ``base``."""
    if recipe.action.coordinate_frame != "wrist":
        return recipe.action.coordinate_frame
    if recipe.proprio.coordinate_frame == "head":
        return "head"
    return "base" if recipe.action_layout.body == "robot" else "world"


def _arm_errors(predicted: ArmParts, truth: ArmParts, known: ArmMasks, frame: str) -> dict[str, tuple[Floats, Bools]]:
    out: dict[str, tuple[Floats, Bools]] = {}
    if predicted.poses is not None and truth.poses is not None:
        out.update(_pose_errors(predicted.poses, truth.poses, known.poses, frame))
    if predicted.points is not None and truth.points is not None and known.points is not None:
        out[f"{frame}.keypoint_l2_m"] = np.linalg.norm(predicted.points - truth.points, axis=-1), known.points
    if predicted.grips is not None and truth.grips is not None and known.grips is not None:
        out["grip.l1"] = np.abs(predicted.grips - truth.grips), known.grips
    return out


def _pose_errors(predicted: Poses, truth: Poses, hands: Bools, frame: str) -> dict[str, tuple[Floats, Bools]]:
    out = {f"{frame}.xyz_{name}": found for name, found in _distances(predicted.positions, truth.positions, hands, unit="_m").items()}
    count, steps, arms = hands.shape
    paths = [np.swapaxes(poses.positions, 1, 2).reshape(count * arms, steps, 3) for poses in (predicted, truth)]
    warped = warped_distance(*paths, mask=np.swapaxes(hands, 1, 2).reshape(count * arms, steps)).reshape(count, arms)
    out[f"{frame}.dtw_m"] = warped, np.isfinite(warped)
    if np.isfinite(truth.rotations).any():
        angle = np.degrees(angle_rad(predicted.rotations, truth.rotations))
        last = hands & (np.cumsum(hands[:, ::-1], axis=1)[:, ::-1] == 1)
        out.update({f"{frame}.rotation_deg": (angle, hands), f"{frame}.rotation_final_deg": (angle, last)})
    return out


def _distances(predicted: Floats, truth: Floats, mask: Bools, *, unit: str) -> dict[str, tuple[Floats, Bools]]:
    square = (np.asarray(predicted, np.float64) - truth) ** 2
    distance = np.sqrt(square.sum(-1))
    out: dict[str, tuple[Floats, Bools]] = {f"mse{unit}2" if unit else "mse": (square.mean(-1), mask)}
    for name, part in phases(mask.shape[1]).items():
        out[f"l2_{name}{unit}"] = (distance[:, part], mask[:, part])
    return out


def _mean(values: Floats, mask: Bools) -> float:
    return float(values[mask].mean()) if mask.any() else float("nan")
