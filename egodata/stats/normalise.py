"""The one implementation of normalise and back, used by training, evaluation and prediction."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Mode = Literal["quantile", "minmax", "zscore"]
MODES: tuple[Mode, ...] = ("quantile", "minmax", "zscore")
FLOOR = 1e-4
"""A range or a standard deviation below this is no scale: the channel normalises to 0 and comes back as its centre."""
MARGIN = 1e-6
"""Added to every range and standard deviation."""


@dataclass(frozen=True, slots=True)
class AffineNormaliser:
    """Normalises each cell by its own offset and gain; float64 inside, so that there and back is the identity to 1e-6.

    Attributes:
        offset: (S, D) or (D,) float64.
        gain: Same shape; 0 for a channel without scale.
        back: Same shape; 1 / gain, or 0.
        shift: Same shape.
    """

    offset: NDArray[np.float64]
    gain: NDArray[np.float64]
    back: NDArray[np.float64]
    shift: NDArray[np.float64]

    def forward(self, values: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Normalise (..., D) or (..., S, D); 0 where not valid. Values are not clipped."""
        scaled = (values - self.offset) * self.gain + self.shift
        return np.where(valid, scaled, 0.0).astype(np.float32)

    def inverse(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Undo `forward` on (..., D) or (..., S, D); a channel without scale gives its centre."""
        return ((values - self.shift) * self.back + self.offset).astype(np.float32)


def mode_range(fields: Mapping[str, NDArray[np.float64]], mode: Mode) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centre and the scale that a mode goes by, per cell: q01..q99, min..max, or mean and std."""
    if mode == "zscore":
        return fields["mean"], fields["std"]
    low, high = (fields["q01"], fields["q99"]) if mode == "quantile" else (fields["min"], fields["max"])
    return (low + high) / 2, high - low


def without_scale(fields: Mapping[str, NDArray[np.float64]], mode: Mode, *, kept: Iterable[int]) -> NDArray[np.bool_]:
    """Say which cells have no scale: below the floor, or without a single value. Channels that are kept as they are never are."""
    scale = mode_range(fields, mode)[1]
    flat = ~(scale >= FLOOR)  # NaN, where nothing was counted, is no scale
    flat[..., list(kept)] = False
    return flat


def affine(fields: Mapping[str, NDArray[np.float64]], mode: Mode, *, kept: Iterable[int]) -> AffineNormaliser:
    """Make the normaliser of a feature.

    Args:
        fields: Statistics, (S, D) or (D,) each.
        mode: ``zscore``: (x - mean) / (std + 1e-6); ``minmax`` and ``quantile``: that range, plus 1e-6, to [-1, 1].
        kept: Channels that stay as they are, such as 6D rotations.
    """
    centre, scale = mode_range(fields, mode)
    flat = without_scale(fields, mode, kept=kept)
    as_is = np.zeros_like(flat)
    as_is[..., list(kept)] = True
    two_sided = mode != "zscore"
    with np.errstate(divide="ignore", invalid="ignore"):
        back = (scale + MARGIN) / (2 if two_sided else 1)
        gain = 1 / back
    offset = centre - scale / 2 if two_sided else centre
    shift = np.full_like(scale, -1.0 if two_sided else 0.0)
    return AffineNormaliser(
        offset=np.where(as_is, 0.0, np.where(flat, np.nan_to_num(centre), offset)),
        gain=np.where(as_is, 1.0, np.where(flat, 0.0, gain)),
        back=np.where(as_is, 1.0, np.where(flat, 0.0, back)),
        shift=np.where(as_is | flat, 0.0, shift),
    )
