"""Eva's rows of numbers: poses, grippers and joints per arm, and which of them are no measurement."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.geometry.pose import compose, pose_from_matrix
from egodata.geometry.rotation import matrix_from_zyx
from egodata.schema.features import FeatureSpec, pose_spec
from egodata.vendors.base import Notes
from egodata.vendors.eva.config import EvaConfig
from egodata.vendors.hdf5 import read_numbers
from egodata.vendors.human import MISSING_M, Arrays, Specs, add_feature

PER_ARM = 7
SOURCES: Mapping[str, tuple[str, ...]] = {
    "obs_pose": ("observations/eepose",),
    "obs_joints": ("observations/joints", "observations/joint_positions"),
    "cmd_pose": ("actions/eepose",),
    "cmd_joints": ("actions/joints", "action"),
}
"""Where each stream is; of several names the first counts, and the others must agree with it."""

AGREEMENT = 1e-4


def read_streams(file: Any, *, config: EvaConfig, notes: Notes) -> dict[str, NDArray[np.float64]]:
    """Read the streams that are there.

    Returns:
        By name of `SOURCES`, (N, arms, 7): per arm six numbers and the gripper.

    Raises:
        SetAside: There is no stream of observed poses, a stream has another width, or data sets of one stream disagree.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for stream, names in SOURCES.items():
        given = {name: rows for name in names if (rows := _rows(file, name, config, notes)) is not None}
        if not given:
            continue
        first = next(iter(given))
        found[stream] = given[first]
        for other, rows in given.items():
            _require_agreement(given[first], rows, f"{first} and {other}", notes)
    if "obs_pose" not in found:
        notes.refuse(
            "stream-missing", "observations/eepose: not in the file, an episode needs it. Ask for the file again.", stream="eepose"
        )
    absent = sorted(set(SOURCES) - set(found))
    if absent:
        notes.counts["absent_streams"] = absent
        notes.add("stream-absent", f"not in the file: {', '.join(' or '.join(SOURCES[name]) for name in absent)}; the episode lacks it")
    return found


def _rows(file: Any, name: str, config: EvaConfig, notes: Notes) -> NDArray[np.float64] | None:
    rows = read_numbers(file, name, notes=notes)
    if rows is None:
        return None
    width = PER_ARM * len(config.arms)
    if rows.ndim != 2 or rows.shape[1] != width:
        text = f"{name}: shape {rows.shape}, expected (N, {width}) for {' and '.join(config.arms)}. Say whose arms they are with `arms`."
        notes.refuse("hdf5-unusable", text, stream=name, expected=str(width), got=str(rows.shape))
    return rows.reshape(-1, len(config.arms), PER_ARM)


def _require_agreement(first: NDArray[np.float64], other: NDArray[np.float64], names: str, notes: Notes) -> None:
    rows = min(len(first), len(other))
    with np.errstate(invalid="ignore"):
        apart = np.abs(first[:rows] - other[:rows]).max((1, 2))
    if (apart > AGREEMENT).any():
        at = int(np.flatnonzero(apart > AGREEMENT)[0])
        notes.refuse(
            "streams-disagree",
            f"{names}: differ by {apart[at]:.3g} at row {at}, expected the same numbers. Ask which of them counts.",
            stream=names,
            frames=(at, at + 1),
        )


def zero_tail(streams: Mapping[str, NDArray[np.float64]], rows: int) -> int:
    """Return how many rows at the end hold nothing but zeros in every stream."""
    still = np.ones(rows, bool)
    for values in streams.values():
        still &= (values[:rows] == 0).all((1, 2))
    moving = np.flatnonzero(~still)
    return rows - (int(moving[-1]) + 1 if len(moving) else 0)


def arm_numbers(streams: Mapping[str, NDArray[np.float64]], arms: Sequence[str], *, notes: Notes) -> tuple[Arrays, Specs]:
    """Make the arrays of both arms.

    An arm's pose row of seven zeros is no measurement: its pose, gripper and joints are invalid there.

    Args:
        streams: As `read_streams` gives them, all of T rows.
        arms: Sides in the order of the rows.
        notes: Told of rows that are invalid.

    Returns:
        Per side `obs_ee_pose`, `obs_gripper`, `obs_joints` and the same for `cmd_`, as far as they are there. Poses in the arm's base.
    """
    arrays: Arrays = {}
    specs: Specs = {}
    for index, side in enumerate(arms):
        for prefix in ("obs", "cmd"):
            poses, joints = streams.get(f"{prefix}_pose"), streams.get(f"{prefix}_joints")
            lost = np.zeros(len(streams["obs_pose"]), bool)
            if poses is not None:
                rows = poses[:, index]
                lost = (rows == 0).all(1)
                usable = ~lost & np.isfinite(rows).all(1) & (np.abs(rows) < MISSING_M).all(1)
                _report(f"{side}.{prefix}_ee_pose", usable, notes)
                kept = np.where(usable[:, None], rows, np.nan)
                add_feature(
                    (arrays, specs), (f"{side}.{prefix}_ee_pose", pose_spec("base")), values=poses_from_xyz_ypr(kept[:, :6]), notes=notes
                )
                add_feature((arrays, specs), (f"{side}.{prefix}_gripper", _gripper_spec()), values=kept[:, 6:], notes=notes)
            if joints is not None:
                rows = joints[:, index]
                usable = ~(lost & (rows == 0).all(1)) & np.isfinite(rows).all(1) & (np.abs(rows) < MISSING_M).all(1)
                _report(f"{side}.{prefix}_joints", usable, notes)
                kept = np.where(usable[:, None], rows, np.nan)
                add_feature((arrays, specs), (f"{side}.{prefix}_joints", _joints_spec()), values=kept[:, :6], notes=notes)
                if poses is None:
                    add_feature((arrays, specs), (f"{side}.{prefix}_gripper", _gripper_spec()), values=kept[:, 6:], notes=notes)
    return arrays, specs


def poses_from_xyz_ypr(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn rows (N, 6), x y z in metres and yaw pitch roll in radians (ZYX), into poses (N, 7); NaN stays NaN."""
    return pose_from_matrix(compose(matrix_from_zyx(rows[:, 3], rows[:, 4], rows[:, 5]), rows[:, :3]))


def _gripper_spec() -> FeatureSpec:
    return FeatureSpec("float32", (1,), ("gripper",))


def _joints_spec() -> FeatureSpec:
    return FeatureSpec("float32", (6,), tuple(f"joint_{number}" for number in range(1, 7)), "rad", "base")


def _report(key: str, usable: NDArray[np.bool_], notes: Notes) -> None:
    if not usable.all():
        bad = np.flatnonzero(~usable)
        text = f"{key}: {len(bad)} of {len(usable)} rows are all zero or hold what is no number, first row {bad[0]}; masked"
        notes.add("rows-invalid", text, stream=key, frames=(int(bad[0]), int(bad[-1]) + 1))
