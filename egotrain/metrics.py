"""What a predicted chunk of actions is worth, on un-normalised numbers. docs/training.md says what each name means.

Human chunks are scored per hand and step over the recorded steps:

- ``xyz_mse_m2``: mean squared error of x, y and z, each coordinate counted, prediction and truth paired step by step;
- ``xyz_l2_early_m``, ``_mid_m``, ``_late_m``: mean distance in the first 10 %, up to 50 %, and the rest of the chunk;
- ``dtw_m``: distance after the best alignment in time (see `egotrain.warp`);
- ``rotation_deg`` and ``rotation_final_deg``: geodesic angle, mean over all steps and at the last recorded one;
- ``keypoint_l2_m``: mean distance of the hand's keypoints, where the recipe's actions have them.

They come in the wrist's coordinate frame at the start of the chunk (``wrist.``) and in the head's or the world's,
after the way back through the reference pose (``head.``, ``world.``). Joint chunks give ``joint.mse`` and ``joint.l2_*``,
over whole rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import angle_rad
from egodata.sampling import Poses, Recipe, actions_to_poses
from egodata.sampling.recipe import HUMAN_ACTION_WIDTH
from egodata.sampling.transforms import unpack_human
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
    if recipe.action.layout == "joints":
        rows: Bools = np.asarray(mask.all(-1))
        return Errors({f"joint.{name}": found for name, found in _distances(predicted, truth, rows, unit="").items()})
    hands: Bools = np.asarray(mask.reshape(*mask.shape[:-1], -1, HUMAN_ACTION_WIDTH).all(-1))
    common = "head" if recipe.proprio.coordinate_frame == "head" else "world"
    there, true = (actions_to_poses(chunk, recipe, reference=reference) for chunk in (predicted, truth))
    out = _pose_errors(there, true, hands, common)
    if recipe.action.coordinate_frame == "wrist":
        out.update(_pose_errors(unpack_human(predicted, grip=False), unpack_human(truth, grip=False), hands, "wrist"))
    return Errors(out)


def _pose_errors(predicted: Poses, truth: Poses, hands: Bools, frame: str) -> dict[str, tuple[Floats, Bools]]:
    out = {f"{frame}.xyz_{name}": found for name, found in _distances(predicted.positions, truth.positions, hands, unit="_m").items()}
    count, steps, arms = hands.shape
    paths = [np.swapaxes(poses.positions, 1, 2).reshape(count * arms, steps, 3) for poses in (predicted, truth)]
    warped = warped_distance(*paths, mask=np.swapaxes(hands, 1, 2).reshape(count * arms, steps)).reshape(count, arms)
    out[f"{frame}.dtw_m"] = warped, np.isfinite(warped)
    angle = np.degrees(angle_rad(predicted.rotations, truth.rotations))
    last = hands & (np.cumsum(hands[:, ::-1], axis=1)[:, ::-1] == 1)
    return {**out, f"{frame}.rotation_deg": (angle, hands), f"{frame}.rotation_final_deg": (angle, last)}


def _distances(predicted: Floats, truth: Floats, mask: Bools, *, unit: str) -> dict[str, tuple[Floats, Bools]]:
    square = (np.asarray(predicted, np.float64) - truth) ** 2
    distance = np.sqrt(square.sum(-1))
    out: dict[str, tuple[Floats, Bools]] = {f"mse{unit}2" if unit else "mse": (square.mean(-1), mask)}
    for name, part in phases(mask.shape[1]).items():
        out[f"l2_{name}{unit}"] = (distance[:, part], mask[:, part])
    return out


def _mean(values: Floats, mask: Bools) -> float:
    return float(values[mask].mean()) if mask.any() else float("nan")
