"""What it is worth to know little: to hold still, to do the mean action, to copy the nearest training frame."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.sampling import HeadSource, Recipe, Sample
from egodata.sampling.transforms import pack_human, poses_from_rows
from egodata.stats import NormStats

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
    def of(cls, source: HeadSource, stats: NormStats, *, mode: str, samples: int) -> "Neighbours":
        """Take evenly spread frames of the training head.

        Args:
            source: The training head.
            stats: Of the same head.
            mode: How proprio is normalised.
            samples: About how many frames.
        """
        indices = source.evaluation_indices(budget=samples)
        found = source.with_normalisers({}).samples(indices.tolist(), with_images=False)
        actions = np.stack([sample.action for sample in found])
        episodes = np.array([sample.episode_id for sample in found])
        return cls(_keys(found, stats, mode=mode), actions, episodes)

    def copied(self, samples: list[Sample], stats: NormStats, *, mode: str) -> NDArray[np.float32] | None:
        """Return for each sample the action (n, S, D) of the frame with the nearest proprio in another episode.

        Distance is Euclidean over the normalised history; on equal ones the first frame in head order wins.
        None if the training head has no other episode than a sample's own.
        """
        wanted = _keys(samples, stats, mode=mode)
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


def _keys(samples: list[Sample], stats: NormStats, *, mode: str) -> NDArray[np.float32]:
    """Return (n, F): normalised proprio, zero for arms that were not measured, beside a bit that says so."""
    normaliser = stats.normalisers(mode)["proprio"]  # type: ignore[arg-type]
    proprio = np.stack([sample.proprio for sample in samples])
    arms = np.stack([sample.arm_valid for sample in samples])
    valid = np.repeat(arms, proprio.shape[-1] // arms.shape[-1], axis=-1)
    keys = normaliser.forward(proprio, valid)
    return np.concatenate([keys.reshape(len(keys), -1), arms.reshape(len(arms), -1)], axis=1).astype(np.float32)


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
