"""Which objective a policy learns; see `objective`. No torch here."""

from dataclasses import dataclass
from typing import Literal

from egodata.config import strict_config
from egodata.errors import ConfigError

LEVELS = 1000
"""Levels of noise of the diffusion objective."""


@strict_config
@dataclass(frozen=True, slots=True)
class ObjectiveConfig:
    """How noise becomes an action.

    Attributes:
        kind: What the network tells.
        steps: Of a prediction.
        draws: Noise draws per sample and training step; what depends on the observation only runs once for all of them.
    """

    kind: Literal["flow", "diffusion"]
    steps: int
    draws: int = 1

    def __post_init__(self) -> None:
        if min(self.steps, self.draws) < 1 or self.steps > LEVELS:
            raise ConfigError(f"objective {self.kind}: expected 1 <= steps <= {LEVELS} and draws >= 1, got {self.steps} and {self.draws}")

    @property
    def carried_share(self) -> float:
        """How much of the noised action a network should hand on before it has learned anything: a velocity is mostly noise."""
        return 1.0 if self.kind == "flow" else 0.0
