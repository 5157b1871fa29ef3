"""EgoDex's joints to MANO's 21 points: names, transforms and confidences."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.schema.features import SIDES
from egodata.vendors.base import Notes
from egodata.vendors.egodex.config import EgoDexConfig
from egodata.vendors.hdf5 import find_dataset, read_numbers
from egodata.vendors.human import ORTHOGONALITY, clean_points, poses_from_transforms

CAMERA = "transforms/camera"
THUMB = ("ThumbKnuckle", "ThumbIntermediateBase", "ThumbIntermediateTip", "ThumbTip")
FINGERS = ("Index", "Middle", "Ring", "Little")
PARTS = ("Knuckle", "IntermediateBase", "IntermediateTip", "Tip")
JOINTS = ("Hand", *THUMB, *(f"{finger}Finger{part}" for finger in FINGERS for part in PARTS))
"""The 21 joints of a hand without their side, in MANO order."""


def joint_names(side: str) -> tuple[str, ...]:
    """Return the names of a hand's 21 joints in MANO order.

    >>> joint_names("left")[0], joint_names("left")[9]
    ('leftHand', 'leftMiddleFingerKnuckle')
    """
    return tuple(f"{side}{joint}" for joint in JOINTS)


def read_camera(file: Any, *, notes: Notes) -> NDArray[np.float64]:
    """Read the camera's poses.

    Returns:
        (N, 7) `world_T_camera`, OpenCV axes, NaN where a transform is unusable.

    Raises:
        SetAside: There are none.
    """
    matrices = _transforms(file, CAMERA, notes)
    if matrices is None:
        notes.refuse("joint-missing", f"{CAMERA}: not in the file, an episode needs a head pose. Ask for the file again.", stream=CAMERA)
    poses, usable = poses_from_transforms(matrices)
    if not usable.all():
        at = np.flatnonzero(~usable)
        text = f"{CAMERA}: {len(at)} of {len(poses)} transforms are no rotation within {ORTHOGONALITY:g}, first {at[0]}; masked"
        notes.add("head-pose-invalid", text, stream="obs_head_pose", frames=(int(at[0]), int(at[-1]) + 1))
    return poses


def read_hands(file: Any, rows: int, *, config: EgoDexConfig, notes: Notes) -> dict[str, NDArray[np.float64]]:
    """Read both hands.

    Args:
        file: The open HDF5 file.
        rows: N, rows of the camera's transforms; other joints must have as many.
        config: Confidence bounds.
        notes: Told of joints that are not there, without confidence, or of low confidence.

    Returns:
        By side, (N, 21, 3) metres in the world, NaN where missing.

    Raises:
        SetAside: A joint has another number of rows.
    """
    hands, absent, unsure, weak, seen = {}, [], [], 0, 0
    for side in SIDES:
        points = np.full((rows, len(JOINTS), 3), np.nan)
        for index, name in enumerate(joint_names(side)):
            matrices = _transforms(file, f"transforms/{name}", notes)
            if matrices is None:
                absent.append(name)
                continue
            _require_rows(len(matrices), rows, f"transforms/{name}", notes)
            _, usable = poses_from_transforms(matrices)
            points[usable, index] = clean_points(matrices[usable, :3, 3])
            confidence = read_numbers(file, f"confidences/{name}", notes=notes)
            if confidence is None:
                unsure.append(name)
                continue
            _require_rows(confidence.size, rows, f"confidences/{name}", notes)
            trusted = confidence.reshape(-1) > config.min_confidence
            points[~trusted, index] = np.nan
            weak, seen = weak + int((trusted & (confidence.reshape(-1) < config.low_confidence)).sum()), seen + int(trusted.sum())
        hands[side] = points
    _report(absent, unsure, (weak, seen), config=config, notes=notes)
    return hands


def _report(absent: list[str], unsure: list[str], weak: tuple[int, int], *, config: EgoDexConfig, notes: Notes) -> None:
    if absent:
        notes.counts["absent_joints"] = absent
        notes.add(
            "joints-absent",
            f"{len(absent)} of {2 * len(JOINTS)} hand joints are not in the file, first {absent[0]}; those points are missing",
        )
    if unsure:
        notes.counts["joints_without_confidence"] = len(unsure)
        notes.add("confidence-absent", f"{len(unsure)} hand joints have no confidence, first {unsure[0]}; taken as tracked in every frame")
    if weak[0]:
        notes.counts["low_confidence_points"] = weak[0]
        notes.add(
            "confidence-low", f"{weak[0]} of {weak[1]} points have a confidence below {config.low_confidence:g}; kept", stream="confidences"
        )


def _require_rows(found: int, rows: int, name: str, notes: Notes) -> None:
    if found != rows:
        notes.refuse("hdf5-unusable", f"{name}: {found} rows, the camera has {rows}. Ask for the file again.", stream=name)


def _transforms(file: Any, name: str, notes: Notes) -> NDArray[np.float64] | None:
    values = read_numbers(file, name, notes=notes)
    if values is None:
        return None
    if values.ndim != 3 or values.shape[1:] != (4, 4):
        notes.refuse("hdf5-unusable", f"{name}: shape {values.shape}, expected (N, 4, 4). Ask for the file again.", stream=name)
    return values


def other_joints(file: Any, *, notes: Notes) -> list[str]:
    """Return the names of the transforms that no episode keeps: metacarpals, arms, body."""
    kept = {"camera", *(name for side in SIDES for name in joint_names(side))}
    group = file.get("transforms")
    names = sorted(set(group) - kept) if hasattr(group, "keys") else []
    return [name for name in names if find_dataset(file, f"transforms/{name}", notes=notes) is not None]
