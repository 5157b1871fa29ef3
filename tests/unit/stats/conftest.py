from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from egodata.catalog.manifest import HeadEpisode
from egodata.sampling import ActionSpec, EpisodeWindows, Layout, ProprioSpec, Recipe

STEPS, HISTORY = 4, 2


@dataclass
class GivenWindows:
    """A head whose windows are given: what statistics are made of, without any store."""

    parts: list[EpisodeWindows]
    recipe: Recipe
    layout: Layout
    episodes: tuple[HeadEpisode, ...]
    walks: int = 0

    def __len__(self) -> int:
        return sum(len(part.frames) for part in self.parts)

    def windows(self, *, part=None):
        self.walks += 1
        for episode, found in zip(self.episodes, self.parts, strict=True):
            steps = slice(None) if part is None else slice(part.steps.start, part.steps.stop)
            history = slice(None) if part is None or part.proprio else slice(0)
            for rows in (slice(0, 30), slice(30, None)):  # in pieces, as long episodes come
                if len(found.frames[rows]):
                    yield (
                        episode,
                        EpisodeWindows(
                            found.frames[rows],
                            found.actions[rows, steps],
                            found.action_mask[rows, steps],
                            found.proprio[rows, history],
                            found.proprio_mask[rows, history],
                            found.arm_valid[rows, history],
                            found.proprio_valid[rows, history],
                        ),
                    )

    def action_values(self, step: int, channel: int) -> np.ndarray:
        """Counted values of one cell, in float64."""
        actions = np.concatenate([part.actions for part in self.parts])[:, step, channel]
        mask = np.concatenate([part.action_mask for part in self.parts])[:, step, channel]
        return actions[mask].astype(np.float64)

    def proprio_values(self, channel: int) -> np.ndarray:
        values = np.concatenate([part.proprio for part in self.parts])[..., channel]
        counted = np.concatenate([part.proprio_valid & part.proprio_mask[..., None] for part in self.parts])[..., channel]
        return values[counted].astype(np.float64)


def one_episode(actions: Any, rng: np.random.Generator) -> EpisodeWindows:
    """Windows with the given actions (n, S, D) and random proprio; masked cells are NaN, repeats are numbers outside the mask."""
    actions = np.asarray(actions, np.float32)
    n, _, width = actions.shape
    mask = rng.random(actions.shape) < 0.9
    hole = ~mask & (rng.random(actions.shape) < 0.5)
    proprio = rng.normal(size=(n, HISTORY, width)).astype(np.float32)
    valid = rng.random(proprio.shape) < 0.9
    proprio[~valid] = np.nan
    return EpisodeWindows(
        frames=np.arange(n),
        actions=np.where(hole, np.float32(np.nan), actions),
        action_mask=mask,
        proprio=proprio,
        proprio_mask=np.repeat(rng.random((n, 1)) < 0.8, HISTORY, axis=1),
        arm_valid=np.ones((n, HISTORY, 1), bool),
        proprio_valid=valid,
    )


@pytest.fixture
def given() -> Callable[..., GivenWindows]:
    """Make a head from the actions of each episode; `human` makes the flagship's layout of 18 channels."""

    def make(*actions: Any, seed: int = 0, human: bool = False) -> GivenWindows:
        rng = np.random.default_rng(seed)
        parts = [one_episode(part, rng) for part in actions]
        width = parts[0].actions.shape[2]
        layouts = ("human_18", "human_20", "wrist", "head") if human else ("joints", "joints", "none", "none")
        recipe = Recipe(
            name="given",
            embodiments=("joint_robot",),
            cameras=(),
            action=ActionSpec(layouts[0], layouts[2], steps=STEPS),
            proprio=ProprioSpec(layouts[1], layouts[3], history=HISTORY),
        )
        names = tuple(f"c{i}" for i in range(width))
        layout = Layout(width, width, names, names, ())
        episodes = tuple(HeadEpisode(f"e{i}", 10, f"{i:064x}") for i in range(len(parts)))
        return GivenWindows(parts, recipe, layout, episodes)

    return make
