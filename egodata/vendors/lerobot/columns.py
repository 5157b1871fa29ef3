"""The number columns of an episode: joints as they are, or a head track and hands of a human data set."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from egodata.schema.features import FeatureSpec, mask_spec, valid_key
from egodata.vendors.base import Notes, RecordingRef
from egodata.vendors.frames import cast_float32
from egodata.vendors.human import Arrays, Specs, clean_points, human_numbers, poses_from_xyz_quat, report_missing
from egodata.vendors.lerobot.config import HumanColumns, LeRobotConfig

QUAT_TOLERANCE = 0.01
POSE, POINTS = 7, 63


def numbers_of(table: pa.Table, column: str, *, total: int, notes: Notes) -> NDArray[np.float64]:
    """Return a column of numbers, or of lists of them, as (total, D).

    Raises:
        SetAside: Rows differ in length, or hold what is no number.
    """
    try:
        return np.stack([np.asarray(np.atleast_1d(row), np.float64) for row in table[column].to_numpy()[:total]])
    except (TypeError, ValueError):
        notes.refuse(
            "parquet-unusable",
            f"{column}: expected a list of numbers of one length in every row. Ask for the file again.",
            stream=column,
        )


def whole_numbers(table: pa.Table, column: str) -> NDArray[np.int64] | None:
    """Return a column of whole numbers as (rows,); None where it is missing or any row holds something else."""
    if column not in table.column_names or not pa.types.is_integer(table.schema.field(column).type) or table[column].null_count:
        return None
    return np.asarray(table[column].to_numpy(), np.int64)


def joint_arrays(table: pa.Table, ref: RecordingRef, *, config: LeRobotConfig, total: int, notes: Notes) -> tuple[Arrays, Specs]:
    """Return the configured columns as features, (T, D) float32 with a mask.

    Raises:
        SetAside: A column is no table of numbers.
    """
    arrays: Arrays = {}
    features: Specs = {}
    for column, key in config.features.items():
        if column not in table.column_names:
            notes.add("feature-absent", f"{column}: not in the parquet, so the episode has no {key}", stream=column)
            continue
        joints, error = cast_float32(numbers_of(table, column, total=total, notes=notes))
        valid: NDArray[np.bool_] = np.asarray(np.isfinite(joints).all(axis=1), np.bool_)
        joints[~valid] = np.nan
        if not valid.all():
            bad = np.flatnonzero(~valid)
            notes.add(
                "rows-invalid",
                f"{column}: {len(bad)} of {total} rows hold NaN or infinity, first row {bad[0]}; masked",
                stream=key,
                frames=(int(bad[0]), int(bad[-1]) + 1),
            )
        arrays[key], arrays[valid_key(key)] = joints, valid
        features[key] = FeatureSpec("float32", joints.shape[1:], _names(ref.details["features"].get(column, {}), joints.shape[1]))
        features[valid_key(key)] = mask_spec()
        if error:
            notes.counts.setdefault("cast_error", {})[key] = error
    return arrays, features


def human_arrays(
    table: pa.Table, columns: HumanColumns, *, stamps_ns: NDArray[np.int64], share: float, notes: Notes
) -> tuple[Arrays, Specs]:
    """Return the head track and hands that the config names, with hand poses computed from the keypoints.

    Raises:
        SetAside: A column is missing, or not of 7 (head) or 63 (hand) numbers.
    """
    total = len(stamps_ns)
    values = {}
    for column, width in ((columns.head, POSE), (columns.left, POINTS), (columns.right, POINTS)):
        if column not in table.column_names:
            notes.refuse("parquet-unusable", f"{column}: not in the parquet, though the vendor config names it.", stream=column)
        values[column] = numbers_of(table, column, total=total, notes=notes)
        if values[column].shape[1] != width:
            notes.refuse("parquet-unusable", f"{column}: {values[column].shape[1]} numbers in a row, expected {width}.", stream=column)
    head, _ = poses_from_xyz_quat(values[columns.head][:, :3], values[columns.head][:, 3:], tolerance=QUAT_TOLERANCE)
    hands = {side: clean_points(values[name].reshape(total, -1, 3)) for side, name in (("left", columns.left), ("right", columns.right))}
    report_missing(head, hands, share=share, notes=notes)
    return human_numbers(head, hands, stamps_ns=stamps_ns, notes=notes)


def _names(feature: Mapping[str, Any], width: int) -> tuple[str, ...]:
    names = feature.get("names")
    while isinstance(names, list) and len(names) == 1 and isinstance(names[0], list):
        names = names[0]
    if isinstance(names, dict) and len(names) == 1:
        names = next(iter(names.values()))
    if isinstance(names, list) and len(names) == width and all(isinstance(name, str) for name in names):
        return tuple(names)
    return tuple(f"joint_{i}" for i in range(width))
