"""The values that sampling hands out: one sample, many windows of one episode, and what normalises them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


class Normaliser(Protocol):
    """Makes numbers comparable before a policy sees them, and undoes it afterwards. Plain arrays inside, so it pickles."""

    def forward(self, values: Floats, valid: Bools) -> Floats:
        """Normalise.

        Args:
            values: (..., D), or (..., S, D) where statistics are kept per step; NaN only where not valid.
            valid: Same shape; cells that hold a measured number.

        Returns:
            A new array of the same shape: 0 where not valid, finite everywhere.
        """
        ...

    def inverse(self, values: Floats) -> Floats:
        """Undo `forward` on (..., D) or (..., S, D)."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of windows to make: some steps of the action, and whether proprio too (else it has no history step)."""

    steps: range
    proprio: bool = True


@dataclass(frozen=True, slots=True)
class EpisodeWindows:
    """The numbers of many samples of one episode, before normalisation: what statistics are made of.

    A cell that was not measured is NaN and never in a mask, so whoever forgets the mask notices.
    Past the end of the episode (or of the span) the last action repeats: a number, but not in the mask.

    Attributes:
        frames: (n,) int64 start frames.
        actions: (n, S, D) float32; metres, 6D rotations or joint units, in the recipe's coordinate frame.
        action_mask: (n, S, D) bool; recorded cells, the ones that statistics and losses count.
        proprio: (n, K, P) float32, oldest step first, the current one last.
        proprio_mask: (n, K) bool; steps that lie inside the episode.
        arm_valid: (n, K, A) bool; arms that were measured at that step.
        proprio_valid: (n, K, P) bool; measured cells, whether or not their step is a repeated one.
    """

    frames: NDArray[np.int64]
    actions: Floats
    action_mask: Bools
    proprio: Floats
    proprio_mask: Bools
    arm_valid: Bools
    proprio_valid: Bools


@dataclass(frozen=True, slots=True)
class Sample:
    """One training or evaluation sample. No NaN anywhere.

    Attributes:
        images: By camera, (N, H, W, 3) uint8 RGB, oldest first; empty if read without images.
        image_mask: By camera, (N,) bool; frames that lie inside the episode and that the camera recorded.
        proprio: (K, P) float32, normalised if the source has normalisers; 0 where the arm is not valid.
        proprio_mask: (K,) bool; steps that lie inside the episode.
        arm_valid: (K, A) bool.
        action: (S, D) float32, normalised likewise; 0 where invalid, the repeated last action past the end.
        action_mask: (S, D) bool; the cells that a loss counts.
        reference: (A, 7) float32, the wrist poses at this frame in the head's coordinate frame where proprio is, else as stored
            (world or base); the identity where invalid; (0, 7) for joints. `actions_to_parts` takes it.
        prompts: Every active text of the recipe's roles, in the order of its keys.
        prompt: The chosen one; the recipe's default where none is active.
        fps: Frames per second of the episode.
        draw: (base seed, epoch, sample index) in training: what else is drawn for this sample follows from it. None in evaluation.
    """

    episode_id: str
    frame: int
    images: Mapping[str, NDArray[np.uint8]]
    image_mask: Mapping[str, Bools]
    proprio: Floats
    proprio_mask: Bools
    arm_valid: Bools
    action: Floats
    action_mask: Bools
    reference: Floats
    prompts: tuple[str, ...]
    prompt: str
    fps: float
    embodiment: str
    draw: tuple[int, int, int] | None = None
