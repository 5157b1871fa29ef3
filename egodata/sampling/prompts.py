"""The one place that decides what text a sample carries, on every format.

Texts come from the recipe's annotation keys only: no fallback to other keys, to the task name or to the scene.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Span, active_texts
from egodata.sampling.recipe import Recipe
from egodata.sampling.seeds import choose, derive_seed

Roles = Mapping[str, Sequence[Span] | None]


def prompt_candidates(recipe: Recipe, spans: Roles, *, frame: int) -> tuple[str, ...]:
    """Return every text of the recipe's roles that is active at a frame, in the order of its keys, then as stored."""
    return tuple(text for role in recipe.prompt_roles for text in active_texts(spans.get(role), frame))


def choose_prompt(candidates: Sequence[str], *, default: str, draw: tuple[int, int, int] | None) -> str:
    """Choose the prompt of a sample.

    Args:
        candidates: Active texts.
        default: Used where there is none.
        draw: (base seed, epoch, sample index) to draw uniformly, as training does; None takes the first, as evaluation does.
    """
    if not candidates:
        return default
    if draw is None:
        return candidates[0]
    return candidates[choose(len(candidates), derive_seed(*draw, "prompt"))]


def frames_with_text(recipe: Recipe, spans: Roles, *, total: int) -> NDArray[np.bool_]:
    """Mark the frames (T,) of an episode at which some text of the recipe's roles is active."""
    covered = np.zeros(total, bool)
    for role in recipe.prompt_roles:
        for span in spans.get(role) or ():
            covered[span.start : span.end] = True
    return covered
