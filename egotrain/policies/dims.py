"""Sizes that a policy is built for. No torch here, so that configs can be checked without it.

Letters as in `base`: B batch, N images of a camera, K proprio history steps, P proprio channels, A arms, S action steps, D action channels.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PolicyDims:
    """Sizes that a dataset and its recipe decide; a policy is built for exactly these.

    Attributes:
        action_steps: S.
        action_dim: D.
        proprio_history: K.
        proprio_dim: P.
        arms: A.
        cameras: Names, in the recipe's order.
        images: N, frames per camera.
        image_height: Of the batch path, pixels.
        image_width: Of the batch path, pixels.
    """

    action_steps: int
    action_dim: int
    proprio_history: int
    proprio_dim: int
    arms: int
    cameras: tuple[str, ...]
    images: int
    image_height: int
    image_width: int

    def to_json(self) -> dict[str, Any]:
        """Return plain types for the checkpoint."""
        return {**asdict(self), "cameras": list(self.cameras)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PolicyDims":
        """Read what `to_json` wrote."""
        return cls(**{**value, "cameras": tuple(value["cameras"])})
