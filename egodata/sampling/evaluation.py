"""What is evaluated of a head: evenly spaced frames of every episode, and its pins as whole clips. Nothing is drawn, nothing shuffled."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.errors import GateError
from egodata.names import nearest
from egodata.sampling.order import AUTO_BUDGET, auto_per_episode, stride_indices
from egodata.sampling.source import HeadSource


@dataclass(frozen=True, slots=True)
class PinClip:
    """A pinned episode as one clip.

    Attributes:
        episode_id: The pin.
        indices: (n,) int64 samples, neighbours in the global index, in the order of time.
        frames: (n,) int64 their frames.
        left_out: Frames of the episode that are not usable, so that no sample exists for them; a video shows them without a prediction.
    """

    episode_id: str
    indices: NDArray[np.int64]
    frames: NDArray[np.int64]
    left_out: int


@dataclass(frozen=True, slots=True)
class EvaluationHead:
    """A head as it is scored; any head can be, the training one too.

    Attributes:
        indices: (n,) int64 samples that metrics use, in head order.
        per_episode: At most so many of each episode.
        clips: Pins in the order of the rule.
    """

    indices: NDArray[np.int64]
    per_episode: int
    clips: tuple[PinClip, ...]


def evaluation_head(
    source: HeadSource, *, pins: Sequence[str] = (), per_episode: int | None = None, budget: int = AUTO_BUDGET
) -> EvaluationHead:
    """Plan the evaluation of a head.

    Args:
        source: The head.
        pins: Its pinned episodes, in the order shown: ``manifest.pins.get(head, ())``.
        per_episode: Frames of each episode; None takes as many as `budget` allows over all episodes, at least 1.
        budget: Samples in all.

    Raises:
        GateError: A pin is not in this head.
    """
    each = per_episode or auto_per_episode(len(source.episodes), budget)
    return EvaluationHead(stride_indices(source.index.offsets, each), each, pin_clips(source, pins))


def pin_clips(source: HeadSource, pins: Sequence[str]) -> tuple[PinClip, ...]:
    """Return the clips of pinned episodes, in the order given.

    Raises:
        GateError: A pin is not in this head.
    """
    ordinal = {episode.episode_id: at for at, episode in enumerate(source.episodes)}
    clips = []
    for pin in pins:
        if pin not in ordinal:
            raise GateError(f"pin {pin}: not in this head of {len(ordinal)} episodes; {nearest(pin, ordinal)}")
        start, end = source.index.offsets[ordinal[pin] : ordinal[pin] + 2].tolist()
        frames = source.index.frames[start:end].astype(np.int64)
        clips.append(PinClip(pin, np.arange(start, end, dtype=np.int64), frames, source.episodes[ordinal[pin]].frames - len(frames)))
    return tuple(clips)
