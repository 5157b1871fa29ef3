"""Attributes of schema v3.0 and v3.1 in the terms of v4; what they lack is stated as unknown, never invented."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from egodata.calibration import Calibration, CameraCalibration, calibration_from_attributes
from egodata.episode import Clip, EpisodeMeta
from egodata.errors import SchemaError
from egodata.schema.features import SIDES, FeatureSpec, camera_key, resolve_embodiment

UNKNOWN = "unknown"
_UNIX_NS = 10**17
_KNOWN = frozenset(
    "schema_version episode_id recording_id vendor dataset delivery operator session embodiment task_name task_description "
    "total_frames fps features calibration intrinsics extrinsics provenance processing digests data_status "
    "hand_frame_convention clock reference_camera".split()
)


def frame_rate(value: Any) -> Fraction:
    """Return the frame rate that a stored float stands for: a whole one, or one of a whole rate x 1000/1001.

    Raises:
        SchemaError: Not a positive number.
    """
    try:
        rate = Fraction(str(value)).limit_denominator(100_000)
    except (ValueError, ZeroDivisionError) as error:
        raise SchemaError(f"attribute fps {value!r}: expected a number") from error
    if rate <= 0:
        raise SchemaError(f"attribute fps {value!r}: expected a positive number")
    near = [Fraction(round(rate)), Fraction(round(rate) * 1000, 1001), Fraction((round(rate) + 1) * 1000, 1001)]
    return next((candidate for candidate in near if candidate > 0 and abs(candidate - rate) < Fraction(1, 200)), rate)


def total_frames(attributes: Mapping[str, Any]) -> int:
    """Return the length of an old episode.

    Raises:
        SchemaError: Missing, or no whole number of at least 1; JSON's `true` is none.
    """
    total = attributes.get("total_frames")
    if isinstance(total, bool) or not isinstance(total, int) or total < 1:
        raise SchemaError(f"attribute total_frames {str(total)[:40]!r}: expected a whole number of at least 1")
    return total


def legacy_meta(
    attributes: Mapping[str, Any], features: Mapping[str, FeatureSpec], *, episode_id: str, first_stamp_ns: int | None
) -> EpisodeMeta:
    """Read old attributes.

    Args:
        attributes: As stored.
        features: What the arrays really hold, cameras included.
        episode_id: The file's name, used where the attributes have no id.
        first_stamp_ns: First value of the time stamps, or None without them.

    Raises:
        SchemaError: `total_frames` or `fps` is missing or no number.
    """
    total = total_frames(attributes)
    cameras = sorted(key for key, spec in features.items() if spec.video is not None)
    reference = camera_key("front_1") if camera_key("front_1") in cameras else (cameras[0] if cameras else "")
    embodiment = str(attributes.get("embodiment", UNKNOWN))
    clock = UNKNOWN if first_stamp_ns is None else "unix" if first_stamp_ns >= _UNIX_NS else "device"
    hands = any(f"{side}.{name}" in features for side in SIDES for name in ("obs_wrist_pose", "obs_ee_pose", "obs_keypoints"))
    human = not embodiment.startswith("eva") and hands
    text = {key: str(attributes.get(key) or "") for key in ("task_name", "task_description")}
    return EpisodeMeta(
        episode_id=str(attributes.get("episode_id") or episode_id),
        recording_id=str(attributes.get("recording_id") or attributes.get("episode_id") or episode_id),
        clip=Clip(0, 0, total, aliased=True),
        vendor=str(attributes.get("vendor") or _vendor(embodiment)),
        dataset=str(attributes.get("dataset") or UNKNOWN),
        delivery=str(attributes.get("delivery") or UNKNOWN),
        operator=_text_or_none(attributes.get("operator")),
        session=_text_or_none(attributes.get("session")),
        embodiment=embodiment,
        task_name=text["task_name"],
        task_description=text["task_description"],
        total_frames=total,
        fps=frame_rate(attributes.get("fps")),
        clock=clock,
        reference_camera=reference.removeprefix("images."),
        hand_frame_convention=str(attributes.get("hand_frame_convention") or UNKNOWN) if human else None,
        features=features,
        provenance=dict(attributes.get("provenance") or {}),
        processing=dict(attributes.get("processing") or {}),
        extra={key: value for key, value in attributes.items() if key not in _KNOWN},
        schema_version=str(attributes.get("schema_version") or "v3.0"),
    )


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _vendor(embodiment: str) -> str:
    prefix = embodiment.partition("_")[0]
    return prefix if prefix in ("aria", "mecka", "scale", "eva") else UNKNOWN


def legacy_calibration(attributes: Mapping[str, Any], features: Mapping[str, FeatureSpec]) -> Calibration | None:
    """Read `calibration`, or the older `intrinsics` {camera: 3x3 or 3x4}, which name no camera model and belong to the stored size.

    Raises:
        SchemaError: There is one, but not in a known form.
    """
    if attributes.get("calibration"):
        return calibration_from_attributes(attributes)
    cameras = {}
    for name, value in (attributes.get("intrinsics") or {}).items():
        spec = features.get(camera_key(name))
        if spec is None:
            continue
        k = np.array(value, np.float64)
        if k.shape == (3, 3):
            k = np.hstack([k, np.zeros((3, 1))])
        rows = tuple(tuple(float(x) for x in row) for row in k)
        cameras[name] = CameraCalibration(rows, "PINHOLE", (), (spec.shape[1], spec.shape[0]))
    if not cameras:
        return None
    embodiment = resolve_embodiment(str(attributes.get("embodiment", "human_bimanual")))[0]
    return Calibration("head" if embodiment.startswith("human") else "base", cameras)
