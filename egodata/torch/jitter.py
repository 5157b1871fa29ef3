"""Colour jitter of each sample by itself: what it changes follows from (base seed, epoch, sample index), never from the batch around it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import pi

import torch
from torch import Tensor

from egodata.errors import ConfigError
from egodata.sampling.seeds import SEED_BITS, derive_seed

FACTORS = ("brightness", "contrast", "saturation", "hue")
HALF = float(1 << (SEED_BITS - 1))


@dataclass(frozen=True, slots=True)
class ColourJitter:
    """How far colours may change while training.

    Attributes:
        brightness: Pixels are multiplied by 1 - x to 1 + x.
        contrast: Distances to the image's mean grey likewise.
        saturation: Distances of the channels to the pixel's grey likewise.
        hue: Turned by -x to x of a full turn, at most half.
    """

    brightness: float = 0.1
    contrast: float = 0.1
    saturation: float = 0.1
    hue: float = 0.05

    def __post_init__(self) -> None:
        bounds = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.5}
        wrong = [f"{one.name} {getattr(self, one.name)!r}" for one in fields(self) if not 0 <= getattr(self, one.name) <= bounds[one.name]]
        if wrong:
            raise ConfigError(f"colour jitter: {', '.join(wrong)}: expected 0 to 1, and hue 0 to 0.5 of a turn.")

    def draw(self, draws: Sequence[tuple[int, ...]]) -> Tensor:
        """Draw what changes in each of B samples.

        Args:
            draws: Per sample (base seed, epoch, sample index), with the ordinal of a repeat behind it where a sample repeats.

        Returns:
            (B, 4) float32: factors of brightness, contrast and saturation around 1, and the hue's turn in radians around 0.
        """
        rows = [[_spread(draw, name, getattr(self, name)) for name in FACTORS] for draw in draws]
        factors = torch.tensor(rows, dtype=torch.float64).reshape(-1, len(FACTORS))
        return (factors * torch.tensor([1, 1, 1, 2 * pi], dtype=torch.float64) + torch.tensor([1, 1, 1, 0])).to(torch.float32)


def _spread(draw: tuple[int, ...], purpose: str, width: float) -> float:
    """Draw uniformly from [-width, width) by hash, so that the numbers are the same with any version of torch."""
    return width * (derive_seed(*draw, f"jitter {purpose}") / HALF - 1)


def change_colours(images: Tensor, factors: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue of each image, in this order, clipped to [0, 1] after each.

    Args:
        images: (n, 3, h, w) float RGB in [0, 1], on any device.
        factors: (n, 4) as `ColourJitter.draw` gives them.

    Returns:
        New images (n, 3, h, w) in [0, 1].
    """
    from kornia import enhance  # 0.2 s and 30 MB that a worker process need not spend

    turns = bool(factors[:, 3].any())  # looked at where the factors were drawn; turning hues is two thirds of the cost on a CPU
    brightness, contrast, saturation, hue = factors.to(images.device, non_blocking=True).unbind(1)
    images = enhance.adjust_brightness_accumulative(images, brightness)
    images = enhance.adjust_contrast_with_mean_subtraction(images, contrast)
    images = enhance.adjust_saturation_with_gray_subtraction(images, saturation)
    return enhance.adjust_hue(images, hue) if turns else images
