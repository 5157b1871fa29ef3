"""Which frames of an episode may start a sample, and why the others may not. Each frame that is left out is counted once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Span
from egodata.sampling.prompts import Roles
from egodata.sampling.recipe import Recipe
from egodata.sampling.specs import SpanSelection

NO_VALID_ARM = "no_valid_arm"
OUTSIDE_SPANS = "outside_selected_spans"
NO_SPANS = "no_span_key"


@dataclass(frozen=True, slots=True)
class UsableFrames:
    """Frames of one episode that may start a sample.

    Attributes:
        mask: (T,) bool.
        excluded: How many of the others are left out, by reason.
    """

    mask: NDArray[np.bool_]
    excluded: Mapping[str, int]


def chosen_spans(selection: SpanSelection, spans: Sequence[Span]) -> tuple[Span, ...]:
    """Choose the spans of one episode that windows may start in.

    Args:
        selection: The rule.
        spans: In stored order.

    Returns:
        The chosen ones in stored order; shorter ones than asked for are never among them.
    """
    long = [span for span in spans if span.end - span.start >= selection.min_frames]
    if selection.rule == "index":
        places = {index if index >= 0 else index + len(spans) for index in selection.indices}
        return tuple(span for place, span in enumerate(spans) if place in places and span in long)
    if selection.rule == "all" or not long:
        return tuple(long)
    if selection.rule == "longest":
        return (max(long, key=lambda span: (span.end - span.start, -span.start)),)
    by_start = sorted(long, key=lambda span: (span.start, span.end))
    return (by_start[0] if selection.rule == "first" else by_start[-1],)


def usable_frames(recipe: Recipe, ready: NDArray[np.bool_], *, spans: Roles) -> UsableFrames:
    """Mark the frames of an episode that may start a sample: inside a chosen span, with an arm to act.

    Args:
        recipe: Says which spans are chosen, if any.
        ready: (T, A) arms that an action can start from.
        spans: By key; None where the episode lacks the key.
    """
    inside = np.ones(len(ready), bool)
    reason, selection = OUTSIDE_SPANS, recipe.span_selection
    if selection is not None:
        found = spans.get(selection.key)
        reason = NO_SPANS if found is None else OUTSIDE_SPANS
        inside[:] = False
        for span in chosen_spans(selection, found or ()):
            inside[span.start : span.end] = True
    armed = np.asarray(ready.any(1))
    counts = {reason: int((~inside).sum()), NO_VALID_ARM: int((inside & ~armed).sum())}
    return UsableFrames(inside & armed, {name: count for name, count in counts.items() if count})
