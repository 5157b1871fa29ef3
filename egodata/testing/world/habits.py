"""Who is recorded, where and when: operators with habits, and their collection sessions."""

import hashlib
from dataclasses import dataclass

import numpy as np

Colour = tuple[int, int, int]

FIRST_DAY_S = 1_749_859_200
"""2025-06-14 00:00 UTC."""
DAY_S = 86_400
EPISODES_PER_SESSION = 2
_SKINS: tuple[Colour, ...] = ((233, 190, 160), (205, 152, 116), (164, 110, 76), (112, 74, 52), (92, 96, 108), (196, 200, 206))
_SLEEVES: tuple[Colour, ...] = ((58, 66, 92), (112, 60, 84), (70, 96, 92), (196, 190, 180), (44, 46, 52), (128, 108, 150))
_TABLES: tuple[Colour, ...] = ((176, 138, 98), (206, 200, 190), (122, 92, 70), (146, 152, 158), (216, 188, 150))
_FLOORS: tuple[Colour, ...] = ((96, 92, 88), (132, 124, 112), (74, 82, 88))


def hex_id(*parts: object) -> str:
    """Return a pseudonymous id of 24 hex digits that follows from its parts."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:24]


def generator(*parts: object) -> np.random.Generator:
    """Return a random generator that follows from its parts, whatever else was drawn before."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:16], "big"))


@dataclass(frozen=True, slots=True)
class Operator:
    """One person: how they move and look. Metres, seconds, radians."""

    id: str
    speed: float
    pause_s: float
    arc_m: float
    bow_m: float
    pitch_rad: float
    roll_rad: float
    reach_yaw: float
    hand_scale: float
    eye_height_m: float
    gaze: float
    sway: float
    rest_x_m: float
    rest_y_m: float
    skin: Colour
    sleeve: Colour


@dataclass(frozen=True, slots=True)
class Session:
    """One collection session: a person at one place on one day.

    Attributes:
        environment_id: Of the place.
        start_s: Unix seconds at which recording started.
        table: Colour of the table.
        floor: Colour of the floor.
        light: Brightness, about 1.
        grain: Seed of the table's grain.
    """

    environment_id: str
    start_s: int
    table: Colour
    floor: Colour
    light: float
    grain: int


def make_operator(seed: int, index: int) -> Operator:
    """Return operator `index` of a world."""
    rng = generator(seed, "operator", index)
    return Operator(
        id=hex_id(seed, "operator", index),
        speed=rng.uniform(0.95, 1.2),
        pause_s=rng.uniform(0.06, 0.16),
        arc_m=rng.uniform(0.05, 0.09),
        bow_m=rng.uniform(-0.02, 0.02),
        pitch_rad=np.radians(rng.uniform(18, 28)),
        roll_rad=np.radians(rng.uniform(0, 12)),
        reach_yaw=rng.uniform(0.6, 0.9),
        hand_scale=rng.uniform(0.94, 1.06),
        eye_height_m=rng.uniform(0.43, 0.48),
        gaze=rng.uniform(0.2, 0.4),
        sway=rng.uniform(0.6, 1.2),
        rest_x_m=rng.uniform(0.11, 0.14),
        rest_y_m=rng.uniform(0.19, 0.22),
        skin=_SKINS[(index + seed) % len(_SKINS)],
        sleeve=_SLEEVES[int(rng.integers(len(_SLEEVES)))],
    )


def make_session(seed: int, operator: int, *, index: int) -> Session:
    """Return session `index` of an operator; each lies within one UTC day."""
    rng = generator(seed, "session", operator, index)
    place = (operator + index) % max(2, len(_TABLES))
    return Session(
        environment_id=hex_id(seed, "environment", place),
        start_s=FIRST_DAY_S + (3 * index + operator % 3) * DAY_S + int(rng.integers(8 * 3600, 17 * 3600)),
        table=_TABLES[place],
        floor=_FLOORS[place % len(_FLOORS)],
        light=rng.uniform(0.9, 1.06),
        grain=int(generator(seed, "environment", place).integers(2**31)),
    )
