"""What a predicted chunk of actions is worth, on un-normalised numbers, and what doing nothing would be worth.

Human chunks are scored per hand and step over the recorded steps:

- ``xyz_mse_m2``: mean squared error of x, y and z, each coordinate counted;
- ``xyz_l2_early_m``, ``_mid_m``, ``_late_m``: mean distance in the first 10 %, up to 50 %, and the rest of the chunk;
- ``rotation_deg`` and ``rotation_final_deg``: geodesic angle, mean over all steps and at the last recorded one.

They come in the wrist's coordinate frame at the start of the chunk (``wrist.``) and in the head's or the world's,
after the way back through the reference pose (``head.``, ``world.``). Joint chunks give ``joint.mse`` and ``joint.l2_*``,
over whole rows.
"""

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.rotation import angle_rad
from egodata.sampling import Poses, Recipe, actions_to_poses
from egodata.sampling.recipe import HUMAN_ACTION_WIDTH
from egodata.sampling.transforms import pack_human, poses_from_rows, unpack_human

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
EARLY_SHARE, MID_SHARE = 0.1, 0.5


def phases(steps: int) -> dict[str, slice]:
    """Return the steps of the early, mid and late part of a chunk; each has at least one where there are three.

    >>> phases(100)
    {'early': slice(0, 10, None), 'mid': slice(10, 50, None), 'late': slice(50, 100, None)}
    """
    early, mid = max(1, round(EARLY_SHARE * steps)), max(2, round(MID_SHARE * steps))
    return {"early": slice(0, early), "mid": slice(early, mid), "late": slice(mid, steps)}


def chunk_metrics(predicted: Floats, truth: Floats, *, mask: Bools, recipe: Recipe, reference: Floats) -> dict[str, float]:
    """Score chunks of actions.

    Args:
        predicted: (n, S, D), not normalised.
        truth: (n, S, D), not normalised.
        mask: (n, S, D) recorded cells.
        recipe: Says what the channels are.
        reference: (n, A, 7), `Sample.reference`.

    Returns:
        Metrics by name; NaN where nothing was recorded in that part of any chunk.
    """
    if recipe.action.layout == "joints":
        return {f"joint.{name}": value for name, value in _distances(predicted, truth, np.asarray(mask.all(-1)), unit="").items()}
    hands: Bools = np.asarray(mask.reshape(*mask.shape[:-1], -1, HUMAN_ACTION_WIDTH).all(-1))
    common = "head" if recipe.proprio.coordinate_frame == "head" else "world"
    there, true = (actions_to_poses(chunk, recipe, reference=reference) for chunk in (predicted, truth))
    out = _pose_metrics(there, true, hands, common)
    if recipe.action.coordinate_frame == "wrist":
        out.update(_pose_metrics(unpack_human(predicted, grip=False), unpack_human(truth, grip=False), hands, "wrist"))
    return out


def _pose_metrics(predicted: Poses, truth: Poses, hands: Bools, frame: str) -> dict[str, float]:
    out = {f"{frame}.xyz_{name}": value for name, value in _distances(predicted.positions, truth.positions, hands, unit="_m").items()}
    angle = np.degrees(angle_rad(predicted.rotations, truth.rotations))
    last = hands & (np.cumsum(hands[:, ::-1], axis=1)[:, ::-1] == 1)
    return {**out, f"{frame}.rotation_deg": _mean(angle, hands), f"{frame}.rotation_final_deg": _mean(angle, last)}


def _distances(predicted: Floats, truth: Floats, mask: Bools, *, unit: str) -> dict[str, float]:
    square = (np.asarray(predicted, np.float64) - truth) ** 2
    distance = np.sqrt(square.sum(-1))
    out = {f"mse{unit}2" if unit else "mse": _mean(square.mean(-1), mask)}
    for name, part in phases(mask.shape[1]).items():
        out[f"l2_{name}{unit}"] = _mean(distance[:, part], mask[:, part])
    return out


def _mean(values: Floats, mask: Bools) -> float:
    return float(values[mask].mean()) if mask.any() else float("nan")


def hold_still(recipe: Recipe, *, steps: int, reference: Floats, proprio: Floats) -> NDArray[np.float64] | None:
    """Return the chunks of someone who does not move.

    Args:
        recipe: Says what the channels are.
        steps: S.
        reference: (n, A, 7), `Sample.reference`.
        proprio: (n, P), the current step, not normalised.

    Returns:
        (n, S, D); None where the start is not known in the action's own coordinates.
    """
    if recipe.action.layout == "joints":
        return np.repeat(np.asarray(proprio, np.float64)[:, None], steps, axis=1)
    if recipe.action.coordinate_frame == "wrist":
        poses = np.zeros(reference.shape)
        poses[..., 3] = 1.0
    elif recipe.action.coordinate_frame == recipe.proprio.coordinate_frame:
        poses = np.asarray(reference, np.float64)
    else:
        return None
    start = pack_human(poses_from_rows(poses), grip=False)
    return np.repeat(start[:, None], steps, axis=1)
