"""What the hands do and when: reach, grasp, carry, release and return, one cube after the other."""

from dataclasses import dataclass

import numpy as np

from egodata.geometry.rotation import Array
from egodata.schema.features import SIDES
from egodata.testing.world.habits import Operator
from egodata.testing.world.hands import SIDE_SIGN, hand_rotation_from_angles, pinch_point
from egodata.testing.world.layout import Cube, Layout
from egodata.testing.world.motion import Move
from egodata.testing.world.options import MAX_FRAMES, MIN_FRAMES

REST_GRASP = 0.15
_REST_Z_M = 0.085
_SHOULDER = (-0.15, 0.17)
_NOMINAL_FPS = 30


@dataclass(frozen=True, slots=True)
class Held:
    """When a cube is held: closing ends at `start_s`, opening starts at `end_s`; both take the ramps given."""

    start_s: float
    end_s: float
    close_s: float
    open_s: float


@dataclass(frozen=True, slots=True)
class Step:
    """A named part of the task, in seconds from the first frame, half-open."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole episode.

    Attributes:
        rest: Per side, the six numbers (x y z yaw pitch roll) of the wrist at rest.
        moves: Per side, moves of those six numbers.
        grips: Per side, moves of the grasp.
        holds: Per cube.
        looks: When which point draws the head.
        steps: Subtasks in order of start.
        task: The instruction.
        end_s: Length of the episode.
    """

    rest: dict[str, tuple[float, ...]]
    moves: dict[str, list[Move]]
    grips: dict[str, list[Move]]
    holds: list[Held]
    looks: list[tuple[float, Array]]
    steps: list[Step]
    task: str
    end_s: float


def _wrist_at(operator: Operator, side: str, point_m: Array) -> tuple[float, ...]:
    """Return the wrist's six numbers for holding something at a point (3,)."""
    sign = SIDE_SIGN[side]
    yaw = operator.reach_yaw * np.arctan2(point_m[1] + sign * _SHOULDER[1], point_m[0] - _SHOULDER[0])
    angles = np.array([yaw, operator.pitch_rad, sign * operator.roll_rad])
    position = point_m - hand_rotation_from_angles(angles) @ pinch_point(side=side, scale=operator.hand_scale)
    return (*position, *angles)


def _rest(operator: Operator, side: str) -> tuple[float, ...]:
    sign = SIDE_SIGN[side]
    return (operator.rest_x_m, -sign * operator.rest_y_m, _REST_Z_M, sign * np.radians(12.0), np.radians(8.0), sign * np.radians(4.0))


def _bulge(operator: Operator, side: str, lift: float) -> tuple[float, ...]:
    return (0.0, SIDE_SIGN[side] * operator.bow_m, lift * operator.arc_m, 0.0, 0.0, 0.0)


def _way(start: tuple[float, ...], end: tuple[float, ...]) -> float:
    return float(np.linalg.norm(np.subtract(end[:3], start[:3])))


def make_plan(rng: np.random.Generator, operator: Operator, *, layout: Layout) -> Plan:
    """Plan an episode of an operator on a layout."""
    rest = {side: _rest(operator, side) for side in SIDES}
    names = [cube.colour for cube in layout.cubes]
    task = (
        f"move the {names[0]} cube to the {names[0]} zone"
        if len(names) == 1
        else f"move the {names[0]} cube and the {names[1]} cube to their zones"
    )
    plan = Plan(rest, {s: [] for s in SIDES}, {s: [] for s in SIDES}, [], [], [], task, 0.0)
    clock, last = rng.uniform(0.08, 0.2), 0.0
    for cube in layout.cubes:
        clock, last = _move_cube(rng, operator, cube, plan=plan, start_s=clock)
    end = np.clip(last + rng.uniform(0.1, 0.3), MIN_FRAMES / _NOMINAL_FPS, MAX_FRAMES / _NOMINAL_FPS)
    plan.steps.sort(key=lambda step: step.start_s)
    return Plan(rest, plan.moves, plan.grips, plan.holds, plan.looks, plan.steps, task, float(end))


def _move_cube(rng: np.random.Generator, operator: Operator, cube: Cube, *, plan: Plan, start_s: float) -> tuple[float, float]:
    """Add one cube's moves to a plan; return when the next cube may start and when this hand is back."""
    side, pace = cube.side, operator.speed * rng.uniform(0.95, 1.05)
    home, pick, place = plan.rest[side], _wrist_at(operator, side, cube.centre_m), _wrist_at(operator, side, cube.zone_m)
    reached = start_s + (0.55 + 0.9 * _way(home, pick)) / pace
    closed = reached + 0.2 / pace
    carried = closed + (0.6 + 0.9 * _way(pick, place)) / pace
    opened = carried + 0.17 / pace
    back = opened + (0.55 + 0.7 * _way(place, home)) / pace
    plan.moves[side] += [
        Move(start_s, reached, pick, _bulge(operator, side, 0.8)),
        Move(closed, carried, place, _bulge(operator, side, 1.0)),
        Move(opened, back, home, _bulge(operator, side, 0.5)),
    ]
    plan.grips[side] += [
        Move(start_s, start_s + 0.7 * (reached - start_s), (0.0,)),
        Move(reached - 0.04, closed, (1.0,)),
        Move(carried, opened, (0.0,)),
        Move(opened + 0.1, back, (REST_GRASP,)),
    ]
    plan.holds.append(Held(closed, carried, closed - reached, opened - carried))
    plan.looks.extend([(start_s, cube.centre_m), (closed, cube.zone_m)])
    name = cube.colour
    plan.steps.extend(
        [
            Step(f"reach for the {name} cube", start_s, reached),
            Step(f"grasp the {name} cube", reached, closed),
            Step(f"carry the {name} cube to the {name} zone", closed, carried),
            Step(f"release the {name} cube", carried, opened),
            Step(f"return the {side} hand", opened, back),
        ]
    )
    return opened + operator.pause_s, back
