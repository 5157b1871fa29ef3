"""Sizes that a policy is built for. No torch here, so that configs can be checked without it.

Letters as in `base`: B batch, N images of a camera, K proprio history steps, P proprio channels, A arms, S action steps, D action channels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from egodata.errors import ConfigError, SampleError

DEFAULT_BODY = "any"


@dataclass(frozen=True, slots=True)
class BodyDims:
    """Sizes of one embodiment in a policy for several.

    Attributes:
        name: Of the embodiment.
        action_dim: Its action channels, at most D; it uses the first of them.
        proprio_dim: Its proprio channels, at most P; it uses the first of them.
        arms: Its arms, at most A; it uses the first of them.
        cameras: Its cameras, in the policy's order; empty for all of the policy's.
    """

    name: str
    action_dim: int
    proprio_dim: int
    arms: int
    cameras: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "BodyDims":
        """Read plain types."""
        return cls(**{**value, "cameras": tuple(value.get("cameras", ()))})


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

    Sizes of action, proprio and arms are those of the largest body; a batch of one body comes in its own.
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
                raise ConfigError(f"policy: embodiment {body.name} is wider than the policy: {body} in {sizes}")
            strange = [camera for camera in body.cameras if camera not in self.cameras]
            if strange:
                raise ConfigError(f"policy: embodiment {body.name} has camera {strange[0]}, the policy has {', '.join(self.cameras)}")

    @property
    def all_bodies(self) -> tuple[BodyDims, ...]:
        """The embodiments; one without a name of its own if none is given."""
        return self.bodies or (BodyDims(DEFAULT_BODY, self.action_dim, self.proprio_dim, self.arms),)

    def only(self, names: Iterable[str]) -> "PolicyDims":
        """Return the sizes of a policy for the named ones of its embodiments only, in a fixed order; of all where none is named."""
        wanted = set(names) or {body.name for body in self.bodies}
        kept = [replace(body, cameras=body.cameras or self.cameras) for body in self.bodies if body.name in wanted]
        if not kept:
            return self
        return replace(
            self,
            action_dim=max(body.action_dim for body in kept),
            proprio_dim=max(body.proprio_dim for body in kept),
            arms=max(body.arms for body in kept),
            cameras=tuple(camera for camera in self.cameras if any(camera in body.cameras for body in kept)),
            bodies=tuple(sorted(kept, key=lambda body: body.name)),
        )

    def in_order(self, cameras: Sequence[str]) -> "PolicyDims":
        """Return the same sizes with cameras in the order given; those that it does not name come last."""
        place = {camera: at for at, camera in enumerate(cameras)}

        def ordered(own: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(sorted(own, key=lambda camera: place.get(camera, len(place))))

        bodies = tuple(replace(body, cameras=ordered(body.cameras)) for body in self.bodies)
        return replace(self, cameras=ordered(self.cameras), bodies=bodies)

    def cameras_of(self, embodiments: Iterable[str]) -> tuple[str, ...]:
        """Return the cameras that samples of the embodiments have, in order; of all bodies where none is named.

        Raises:
            SampleError: Two of them have different cameras.
        """
        named = set(embodiments)
        found = {body.cameras or self.cameras for body in self.all_bodies if not named or body.name in named}
        if len(found) > 1:
            raise SampleError(f"policy: embodiments {', '.join(sorted(named)) or '(any)'} have different cameras. Batch them apart.")
        return found.pop() if found else self.cameras

    def to_json(self) -> dict[str, Any]:
        """Return plain types for the checkpoint."""
        bodies = [{**asdict(body), "cameras": list(body.cameras)} for body in self.bodies]
        return {**asdict(self), "cameras": list(self.cameras), "bodies": bodies}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PolicyDims":
        """Read what `to_json` wrote."""
        bodies = tuple(BodyDims.from_json(body) for body in value.get("bodies", ()))
        return cls(**{**value, "cameras": tuple(value["cameras"]), "bodies": bodies})
