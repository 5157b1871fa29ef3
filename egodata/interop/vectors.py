"""`observation.state` and `action`: which features they are made of, and what stands where nothing was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeMeta
from egodata.errors import InputError
from egodata.schema.features import HEAD_POSE, SIDES, FeatureSpec, valid_key


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector that is put together from features, in this order.

    Attributes:
        key: Its LeRobot name.
        blocks: Feature key and spec of each part.
    """

    key: str
    blocks: tuple[tuple[str, FeatureSpec], ...]

    @property
    def names(self) -> list[str]:
        """One name per number: ``left.obs_ee_pose.x``."""
        return [f"{key}.{name}" for key, spec in self.blocks for name in (spec.names or map(str, range(_width(spec))))]

    @property
    def width(self) -> int:
        """Numbers per frame."""
        return sum(_width(spec) for _, spec in self.blocks)


def _width(spec: FeatureSpec) -> int:
    return int(np.prod(spec.shape, dtype=int))


def choose_vectors(meta: EpisodeMeta) -> tuple[Vector, Vector]:
    """Choose what state and action are for an episode's embodiment.

    Joint robots: measured and commanded joints. Arms with commanded poses: pose and gripper per arm, measured and commanded, in the arm's
    base frame. Hands: end-effector poses of both hands and the head pose in the world frame; the action is the hands' poses themselves.

    Raises:
        InputError: The episode has none of these features.
    """
    has = meta.features
    hands = [f"{side}.obs_ee_pose" for side in SIDES if f"{side}.obs_ee_pose" in has]
    commanded = [f"{side}.cmd_ee_pose" for side in SIDES if f"{side}.cmd_ee_pose" in has]
    if "obs_joints" in has and "cmd_joints" in has:
        state, action = ["obs_joints"], ["cmd_joints"]
    elif commanded:
        arms = [key.partition(".")[0] for key in commanded]
        state = [key for arm in arms for key in (f"{arm}.obs_ee_pose", f"{arm}.obs_gripper") if key in has]
        action = [key for arm in arms for key in (f"{arm}.cmd_ee_pose", f"{arm}.cmd_gripper") if key in has]
    elif hands:
        state, action = [*hands, *([HEAD_POSE] if HEAD_POSE in has else [])], hands
    else:
        raise InputError(
            f"episode {meta.episode_id}: no joints, arm poses or hand poses to make observation.state and action of; "
            f"it has {', '.join(meta.numeric_keys) or 'no numbers'}. Leave it out of the dataset."
        )
    return Vector("observation.state", tuple((key, has[key]) for key in state)), Vector("action", tuple((key, has[key]) for key in action))


@dataclass(frozen=True, slots=True)
class Filled:
    """A vector's rows without gaps.

    Attributes:
        rows: (T, D) float32.
        valid: (T, blocks) bool, what was measured.
        held: Cells of `valid` that repeat the nearest earlier measured row, or the first one.
        unknown: Keys that were never measured; their numbers are zero.
    """

    rows: NDArray[np.float32]
    valid: NDArray[np.bool_]
    held: int
    unknown: tuple[str, ...]


def fill_vector(vector: Vector, arrays: Mapping[str, NDArray[Any]]) -> Filled:
    """Put a vector together, holding the last measured row where a part is invalid; loaders there cannot take NaN."""
    parts, masks, unknown = [], [], []
    for key, _ in vector.blocks:
        rows = np.asarray(arrays[key], np.float32).reshape(len(arrays[key]), -1)
        valid: NDArray[np.bool_] = np.asarray(np.isfinite(rows).all(axis=1))
        if valid_key(key) in arrays:
            valid = valid & np.asarray(arrays[valid_key(key)], np.bool_)
        parts.append(_hold(rows, valid))
        masks.append(valid)
        if not valid.any():
            unknown.append(key)
    mask = np.stack(masks, axis=1)
    measured = mask.any(axis=0)
    return Filled(np.concatenate(parts, axis=1), mask, int((~mask[:, measured]).sum()), tuple(unknown))


def _hold(rows: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.float32]:
    if not valid.any():
        return np.zeros_like(rows)
    last = np.maximum.accumulate(np.where(valid, np.arange(len(rows)), -1))
    return rows[np.where(last < 0, int(np.argmax(valid)), last)]


def require_same_vectors(found: Sequence[Vector], expected: Sequence[Vector], *, episode_id: str) -> None:
    """Refuse episodes whose state or action has another make-up than the first one's.

    Raises:
        InputError: They differ.
    """
    for mine, theirs in zip(found, expected, strict=True):
        if mine.names != theirs.names:
            raise InputError(
                f"episode {episode_id}: {mine.key} is {' + '.join(key for key, _ in mine.blocks)} ({mine.width} numbers), "
                f"the first episode's is {' + '.join(key for key, _ in theirs.blocks)} ({theirs.width}). Export one embodiment at a time."
            )
