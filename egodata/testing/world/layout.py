"""What stands on the table: coloured zones, and cubes that belong on the zone of their own colour.

The rules that make the world learnable from images: a cube goes to the zone of its colour, the nearer cube goes first,
and the hand on the cube's side takes it.
"""

from dataclasses import dataclass

import numpy as np

from egodata.geometry.rotation import Array
from egodata.testing.world.habits import Colour

COLOURS: dict[str, Colour] = {"red": (214, 44, 44), "green": (40, 158, 70), "blue": (42, 92, 222), "yellow": (244, 200, 36)}
CUBE_M = 0.062
ZONE_M = 0.15
_SLOT_Y_M = (0.21, 0.0, -0.21)
_SLOT_X_M = (0.50, 0.535, 0.50)
_TWO_CUBES, _SPARE_ZONE = 0.65, 0.4


@dataclass(frozen=True, slots=True)
class Zone:
    """A coloured square on the table.

    Attributes:
        colour: Name in `COLOURS`.
        centre_m: (3,) in the world, on the table.
    """

    colour: str
    centre_m: Array


@dataclass(frozen=True, slots=True)
class Cube:
    """A cube at its start.

    Attributes:
        colour: Name in `COLOURS`.
        centre_m: (3,) in the world.
        yaw_rad: Turn about the vertical.
        side: Hand that will take it.
        zone_m: (3,) where its centre ends up.
    """

    colour: str
    centre_m: Array
    yaw_rad: float
    side: str
    zone_m: Array


@dataclass(frozen=True, slots=True)
class Layout:
    """Zones, and cubes in the order in which they are moved."""

    zones: tuple[Zone, ...]
    cubes: tuple[Cube, ...]


def make_layout(rng: np.random.Generator) -> Layout:
    """Draw one or two cubes, a zone for each, and sometimes a zone that no cube belongs to."""
    two = rng.random() < _TWO_CUBES
    count = (2 if two else 1) + int(rng.random() < _SPARE_ZONE)
    names = [str(name) for name in rng.permutation(list(COLOURS))[:count]]
    slots = rng.permutation(3)[:count]
    zones = tuple(
        Zone(name, np.array([_SLOT_X_M[slot] + rng.uniform(-0.02, 0.02), _SLOT_Y_M[slot] + rng.uniform(-0.02, 0.02), 0.0]))
        for name, slot in zip(names, slots, strict=True)
    )
    side = "left" if rng.random() < 0.5 else "right"
    sides = (side, "right" if side == "left" else "left") if two else (side,)
    reaches = ((0.285, 0.325), (0.37, 0.41)) if two else ((0.285, 0.41),)
    picks = rng.permutation(count)[: len(sides)]
    cubes = []
    for name, reach, pick in zip(sides, reaches, picks, strict=True):
        y = rng.uniform(0.05, 0.20) * (1 if name == "left" else -1)
        centre = np.array([rng.uniform(*reach), y, CUBE_M / 2])
        target = zones[pick].centre_m + np.array([0.0, 0.0, CUBE_M / 2])
        cubes.append(Cube(zones[pick].colour, centre, rng.uniform(-0.4, 0.4), name, target))
    return Layout(zones, tuple(cubes))
