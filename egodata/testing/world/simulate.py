"""Simulate one episode: the ground truth that a delivery is written from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.pose import compose, transform_points
from egodata.geometry.rotation import Array
from egodata.schema.features import SIDES
from egodata.testing.world.camera import VENDOR_DISTORTION, HeadMotion, intrinsics, move_head
from egodata.testing.world.habits import EPISODES_PER_SESSION, Operator, Session, generator, hex_id, make_operator, make_session
from egodata.testing.world.hands import hand_keypoints, hand_rotation_from_angles, pinch_point
from egodata.testing.world.layout import Layout, make_layout
from egodata.testing.world.motion import follow, minimum_jerk, sway
from egodata.testing.world.options import WorldOptions
from egodata.testing.world.plan import REST_GRASP, Plan, Step, make_plan

ANNOTATED_SHARE = 0.75
GAP_SHARE = 0.35
_JITTER_NS = 800_000
_TREMOR_M, _TREMOR_RAD = 0.0012, 0.010


@dataclass(frozen=True, slots=True)
class SimulatedEpisode:
    """Everything that is true about one episode. T frames, C cubes, hands in the order left, right.

    Attributes:
        id: 24 hex digits.
        index: Position in the order of making.
        size: (width, height) of the video in pixels.
        k: 3x3 intrinsics at that size.
        times_s: (T,) nominal seconds from the first frame.
        stamps_ns: (T,) int64 unix time with jitter, whole microseconds.
        head: The camera's motion.
        world_T_wrist: (T, 2, 4, 4), each hand's own coordinate frame (x right, y palm, z fingers, palm down).
        keypoints_m: (T, 2, 21, 3) in the world.
        delivered: (T, 2) whether the vendor delivers this hand.
        grasp: (T, 2), 0 open to 1 closed.
        cubes_m: (C, T, 3) centres in the world.
        cubes_yaw_rad: (C, T).
        steps: Subtasks.
        task: The instruction.
        annotated: Whether annotations are delivered.
        distortion: k1 k2 p1 p2 of the lens; zeros for a vendor that delivers rectified frames.
    """

    id: str
    index: int
    operator: Operator
    session: Session
    size: tuple[int, int]
    k: Array
    layout: Layout
    times_s: Array
    stamps_ns: NDArray[np.int64]
    head: HeadMotion
    world_T_wrist: Array
    keypoints_m: Array
    delivered: NDArray[np.bool_]
    grasp: Array
    cubes_m: Array
    cubes_yaw_rad: Array
    steps: tuple[Step, ...]
    task: str
    annotated: bool
    distortion: tuple[float, float, float, float] = VENDOR_DISTORTION

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.times_s)


def simulate_episode(options: WorldOptions, index: int) -> SimulatedEpisode:
    """Simulate episode `index` of a world; it depends on the seed, the number of operators, size and fps only."""
    who, count = index % options.operators, index // options.operators
    operator = make_operator(options.seed, who)
    session = make_session(options.seed, who, index=count // EPISODES_PER_SESSION)
    rng = generator(options.seed, "episode", options.operators, index)
    layout = make_layout(rng)
    plan = make_plan(rng, operator, layout=layout)
    times = np.arange(round(plan.end_s * options.fps)) / options.fps
    head = move_head(rng, operator, times_s=times, looks=plan.looks)
    wrists, grasp, keypoints = _move_hands(rng, operator, plan, times_s=times)
    cubes, yaws = _carry_cubes(operator, layout, plan, times_s=times, world_T_wrist=wrists)
    stamps = _stamps(rng, session, times, place=count % EPISODES_PER_SESSION)
    return SimulatedEpisode(
        id=hex_id(options.seed, "episode", options.operators, options.fps, options.size, index),
        index=index,
        operator=operator,
        session=session,
        size=options.size,
        k=intrinsics(options.size),
        layout=layout,
        times_s=times,
        stamps_ns=stamps,
        head=head,
        world_T_wrist=wrists,
        keypoints_m=keypoints,
        delivered=_delivered(rng, len(times)),
        grasp=grasp,
        cubes_m=cubes,
        cubes_yaw_rad=yaws,
        steps=tuple(plan.steps),
        task=plan.task,
        annotated=bool(rng.random() < ANNOTATED_SHARE),
    )


def _move_hands(rng: np.random.Generator, operator: Operator, plan: Plan, *, times_s: Array) -> tuple[Array, Array, Array]:
    wrists, grasps, keypoints = [], [], []
    for side in SIDES:
        six = follow(plan.moves[side], plan.rest[side], times_s=times_s)
        six += sway(rng, times_s, amplitude=(_TREMOR_M,) * 3 + (_TREMOR_RAD,) * 3, period_s=1.1)
        grasp = follow(plan.grips[side], (REST_GRASP,), times_s=times_s)[:, 0]
        pose = compose(hand_rotation_from_angles(six[:, 3:]), six[:, :3])
        wrists.append(pose)
        grasps.append(grasp)
        keypoints.append(transform_points(pose, hand_keypoints(grasp, side=side, scale=operator.hand_scale)))
    return np.stack(wrists, 1), np.stack(grasps, 1), np.stack(keypoints, 1)


def _carry_cubes(operator: Operator, layout: Layout, plan: Plan, *, times_s: Array, world_T_wrist: Array) -> tuple[Array, Array]:
    centres, yaws = [], []
    for cube, held in zip(layout.cubes, plan.holds, strict=True):
        wrist = world_T_wrist[:, SIDES.index(cube.side)]
        pinch = transform_points(wrist, pinch_point(side=cube.side, scale=operator.hand_scale)[None])[:, 0]
        taken = minimum_jerk((times_s - held.start_s) / held.close_s + 1)[:, None]
        given = minimum_jerk((times_s - held.end_s) / held.open_s)[:, None]
        before = cube.centre_m + taken * (pinch - cube.centre_m)
        centres.append(before + given * (cube.zone_m - before))
        hand_yaw = np.unwrap(np.arctan2(wrist[:, 1, 2], wrist[:, 0, 2]))
        first, last = np.searchsorted(times_s, (held.start_s, held.end_s))
        rows = np.clip(np.arange(len(times_s)), first, min(int(last), len(times_s) - 1))
        yaws.append(cube.yaw_rad + hand_yaw[rows] - hand_yaw[first])
    return np.stack(centres), np.stack(yaws)


def _stamps(rng: np.random.Generator, session: Session, times_s: Array, *, place: int) -> NDArray[np.int64]:
    start_ns = (session.start_s + 75 * place) * 1_000_000_000 + int(rng.integers(20_000_000)) * 1000
    jitter = np.clip(rng.normal(0, _JITTER_NS, len(times_s)), -3 * _JITTER_NS, 3 * _JITTER_NS)
    nominal = start_ns + np.round(times_s * 1e6).astype(np.int64) * 1000
    stamps: NDArray[np.int64] = nominal + np.round(jitter / 1000).astype(np.int64) * 1000
    return stamps


def _delivered(rng: np.random.Generator, frames: int) -> NDArray[np.bool_]:
    delivered = np.ones((frames, 2), bool)
    if rng.random() < GAP_SHARE:
        # at 5 frames a second an episode can have fewer than 20: its gap begins with it
        start, length, side = rng.integers(max(1, frames - 20)), rng.integers(5, 15), rng.integers(2)
        delivered[start : start + length, side] = False
    return delivered
