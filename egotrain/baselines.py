"""What it is worth to know little: to hold still, to do the mean action, to copy the nearest training frame."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.sampling import ArmParts, HeadSource, Poses, Recipe, Sample, evaluation_head
from egodata.sampling.transforms import OwnWrist, PackArms, actions_from_parts, poses_from_rows
from egotrain.metrics import common_frame

Floats = NDArray[np.floating]
HOLD_STILL, MEAN_ACTION, NEAREST = "hold_still", "mean_action", "nearest_neighbour"
_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Training frames that can be copied.

    Attributes:
        keys: (m, F) normalised proprio history and which arms were measured.
        actions: (m, S, D), not normalised.
        episodes: (m,) episode ids.
    """

    keys: NDArray[np.float32]
    actions: NDArray[np.float32]
    episodes: NDArray[np.str_]

    @classmethod
    def of(cls, source: HeadSource, *, samples: int) -> "Neighbours":
        """Take evenly spread frames of the training head, about `samples` of them; the source normalises."""
        indices = evaluation_head(source, budget=samples).indices.tolist()
        found = source.samples(indices, with_images=False)
        actions = [sample.action for sample in source.with_normalisers({}).samples(indices, with_images=False)]
        return cls(_keys(found), np.stack(actions), np.array([sample.episode_id for sample in found]))

    def copied(self, samples: Sequence[Sample]) -> NDArray[np.float32] | None:
        """Return for each normalised sample the action (n, S, D), not normalised, of the frame with the nearest proprio in another episode.

        Distance is Euclidean over the normalised history; on equal ones the first frame in head order wins.
        None if the training head has no other episode than a sample's own.
        """
        wanted = _keys(samples)
        own = np.array([sample.episode_id for sample in samples])
        out = np.empty((len(samples), *self.actions.shape[1:]), np.float32)
        for start in range(0, len(samples), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            square = (wanted[part, None].astype(np.float64) ** 2).sum(-1) + (self.keys.astype(np.float64) ** 2).sum(-1)
            distance = square - 2 * wanted[part].astype(np.float64) @ self.keys.astype(np.float64).T
            distance[own[part, None] == self.episodes[None]] = np.inf
            if np.isinf(distance.min(1)).any():
                return None
            out[part] = self.actions[distance.argmin(1)]
        return out


def _keys(samples: Sequence[Sample]) -> NDArray[np.float32]:
    """Return (n, F): normalised proprio, zero where it was not measured, beside bits that say so."""
    parts = [np.stack([getattr(sample, name) for sample in samples]) for name in ("proprio", "arm_valid")]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1).astype(np.float32)


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
    if recipe.action_layout.of_joints:
        return np.repeat(np.asarray(proprio, np.float64)[:, None], steps, axis=1) if recipe.proprio_layout.of_joints else None
    now = PackArms(recipe.proprio_layout).inverse(proprio)
    shared = recipe.proprio.coordinate_frame == common_frame(recipe)
    wanted, points = recipe.action_layout, now.points
    if "keypoints" in wanted.parts:
        if points is None or not shared:
            return None
        if recipe.proprio.keypoints_frame == "own_wrist":
            points = OwnWrist().inverse(now).points
    if (wanted.measured_grip and now.grips is None) or (recipe.action.coordinate_frame != "wrist" and not shared):
        return None
    grips = now.grips if wanted.measured_grip else None
    parts = ArmParts(poses_from_rows(reference), points if "keypoints" in wanted.parts else None, grips)
    start = actions_from_parts(_repeated(parts, steps), recipe, reference=reference)
    return np.asarray(start, np.float64)


def _repeated(parts: ArmParts, steps: int) -> ArmParts:
    """Repeat arms (n, A) over steps: (n, S, A)."""

    def over(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.repeat(values[:, None], steps, axis=1)

    poses = None if parts.poses is None else Poses(over(parts.poses.positions), over(parts.poses.rotations))
    return ArmParts(poses, None if parts.points is None else over(parts.points), None if parts.grips is None else over(parts.grips))
