"""Samples into a batch."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from egodata.errors import SampleError
from egodata.sampling import Sample


class Batch(TypedDict):
    """B samples; the shapes are those of `egodata.sampling.Sample` behind a batch axis.

    Attributes:
        images: By camera, (B, N, H, W, 3) uint8; empty without images.
        image_mask: By camera, (B, N) bool.
        proprio: (B, K, P) float32.
        proprio_mask: (B, K) bool.
        arm_valid: (B, K, A) bool.
        action: (B, S, D) float32.
        action_mask: (B, S, D) bool.
        reference: (B, A, 7) float32.
        prompt: B texts.
        prompts: B tuples of candidates.
        fps: (B,) float32.
        frame: (B,) int64.
        episode_id: B ids.
        embodiment: B names.
        draws: B times (base seed, epoch, sample index) in training, None in evaluation.
    """

    images: dict[str, Tensor]
    image_mask: dict[str, Tensor]
    proprio: Tensor
    proprio_mask: Tensor
    arm_valid: Tensor
    action: Tensor
    action_mask: Tensor
    reference: Tensor
    prompt: list[str]
    prompts: list[tuple[str, ...]]
    fps: Tensor
    frame: Tensor
    episode_id: list[str]
    embodiment: list[str]
    draws: list[tuple[int, int, int] | None]


def _stacked(samples: Sequence[Sample], name: str) -> Tensor:
    return torch.from_numpy(np.stack([getattr(sample, name) for sample in samples]))


def _images(samples: Sequence[Sample], camera: str) -> Tensor:
    first = samples[0]
    for sample in samples:
        if sample.images[camera].shape != first.images[camera].shape:
            raise SampleError(
                f"episode {sample.episode_id} camera {camera}: images are {sample.images[camera].shape}, those of episode "
                f"{first.episode_id} are {first.images[camera].shape}. Put one image size in a dataset; datasets of several mix per batch."
            )
    return torch.from_numpy(np.stack([sample.images[camera] for sample in samples]))


def collate(samples: Sequence[Sample]) -> Batch:
    """Join samples into a batch; images stay uint8.

    Raises:
        SampleError: Two samples have images of different sizes.
    """
    cameras = tuple(samples[0].images)
    return Batch(
        images={camera: _images(samples, camera) for camera in cameras},
        image_mask={camera: torch.from_numpy(np.stack([s.image_mask[camera] for s in samples])) for camera in cameras},
        proprio=_stacked(samples, "proprio"),
        proprio_mask=_stacked(samples, "proprio_mask"),
        arm_valid=_stacked(samples, "arm_valid"),
        action=_stacked(samples, "action"),
        action_mask=_stacked(samples, "action_mask"),
        reference=_stacked(samples, "reference"),
        prompt=[sample.prompt for sample in samples],
        prompts=[sample.prompts for sample in samples],
        fps=torch.tensor([sample.fps for sample in samples], dtype=torch.float32),
        frame=torch.tensor([sample.frame for sample in samples], dtype=torch.int64),
        episode_id=[sample.episode_id for sample in samples],
        embodiment=[sample.embodiment for sample in samples],
        draws=[sample.draw for sample in samples],
    )
