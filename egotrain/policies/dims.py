"""Sizes that a policy is built for. No torch here, so that configs can be checked without it.

Letters as in `base`: B batch, N images of a camera, K proprio history steps, P proprio channels, A arms, S action steps, D action channels.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from egodata.errors import ConfigError

DEFAULT_BODY = "any"


@dataclass(frozen=True, slots=True)
class BodyDims:
    """Sizes of one embodiment in a policy for several.

    Attributes:
        name: Of the embodiment.
        action_dim: Its action channels, at most D; it uses the first of them.
        proprio_dim: Its proprio channels, at most P; it uses the first of them.
        arms: Its arms, at most A; it uses the first of them.
    """

    name: str
    action_dim: int
    proprio_dim: int
    arms: int


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
        bodies: Embodiments by name, each with adaptors or a head of its own; empty stands for one body of the sizes above.
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
    bodies: tuple[BodyDims, ...] = ()

    def __post_init__(self) -> None:
        names = [body.name for body in self.bodies]
        if len(set(names)) != len(names):
            raise ConfigError(f"policy: embodiments {', '.join(names)}: expected each once")
        for body in self.bodies:
            if body.action_dim > self.action_dim or body.proprio_dim > self.proprio_dim or body.arms > self.arms:
                sizes = f"{self.action_dim} action and {self.proprio_dim} proprio channels, {self.arms} arms"
                raise ConfigError(f"policy: embodiment {body.name} is wider than the batch: {body} in {sizes}")

    @property
    def all_bodies(self) -> tuple[BodyDims, ...]:
        """The embodiments; one without a name of its own if none is given."""
        return self.bodies or (BodyDims(DEFAULT_BODY, self.action_dim, self.proprio_dim, self.arms),)

    def to_json(self) -> dict[str, Any]:
        """Return plain types for the checkpoint."""
        return {**asdict(self), "cameras": list(self.cameras), "bodies": [asdict(body) for body in self.bodies]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PolicyDims":
        """Read what `to_json` wrote."""
        bodies = tuple(BodyDims(**body) for body in value.get("bodies", ()))
        return cls(**{**value, "cameras": tuple(value["cameras"]), "bodies": bodies})
