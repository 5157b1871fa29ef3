"""Features: named arrays with dtype, shape, unit and coordinate frame."""

from dataclasses import dataclass
from typing import Any

from egodata.errors import SchemaError
from egodata.names import nearest

NUMERIC_CHUNK_ROWS = 100
SIDES = ("left", "right")
TIMESTAMPS = "obs_rgb_timestamps_ns"
HEAD_POSE = "obs_head_pose"
IMAGES = "images."
HAND_PALM_POINTS = (0, 5, 9, 13, 17)
HAND_FRAME_CONVENTIONS = ("anat-v1", "mirror-left-v1", "unknown")
EMBODIMENTS = ("human_bimanual", "human_left_arm", "human_right_arm", "eva_bimanual", "eva_left_arm", "eva_right_arm", "joint_robot")
SOURCE_MEASURED, SOURCE_FILLED, SOURCE_HELD = 0, 1, 2


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """What one array holds.

    Attributes:
        dtype: numpy name: ``float32``, ``int64``, ``int32``, ``uint8`` or ``bool``.
        shape: Shape of one row; () for one number per frame. For a camera, (H, W, 3).
        names: Name per channel, or empty.
        unit: ``m``, ``m+quat_wxyz``, ``rad``, ``ns``, ``frame`` or empty.
        coordinate_frame: ``world``, ``base`` or empty.
        video: For ``images.*``: codec, settings, sizes; None elsewhere.
    """

    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    unit: str = ""
    coordinate_frame: str = ""
    video: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the attribute form; `video` only where there is one."""
        out: dict[str, Any] = {
            "dtype": self.dtype,
            "shape": list(self.shape),
            "names": list(self.names),
            "unit": self.unit,
            "coordinate_frame": self.coordinate_frame,
        }
        if self.video is not None:
            out["video"] = self.video
        return out

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "FeatureSpec":
        """Read the attribute form; unit and coordinate frame may be absent (older schemas)."""
        return cls(
            dtype=value["dtype"],
            shape=tuple(value["shape"]),
            names=tuple(value.get("names") or ()),
            unit=value.get("unit", ""),
            coordinate_frame=value.get("coordinate_frame", ""),
            video=value.get("video"),
        )


def valid_key(feature: str) -> str:
    """Name of the (T,) bool mask of a feature."""
    return f"{feature}_valid"


def source_key(feature: str) -> str:
    """Name of the (T,) uint8 array that says how each row of a feature came about."""
    return f"{feature}_source"


def point_valid_key(keypoints: str) -> str:
    """Name of the (T, 21) bool mask of the points of a keypoint feature."""
    return f"{keypoints}_point_valid"


def camera_key(camera: str) -> str:
    """Array key of a camera: ``front_1`` -> ``images.front_1``."""
    return f"{IMAGES}{camera}"


def is_camera(key: str, spec: FeatureSpec) -> bool:
    """Whether a feature is a camera; ``images.<camera>_valid`` and ``images.<camera>_source_row`` are numeric arrays beside it."""
    return key.startswith(IMAGES) and len(spec.shape) == 3


def pose_spec(coordinate_frame: str = "world") -> FeatureSpec:
    """Spec of a 7-number pose: metres, quaternion w first."""
    names = ("x", "y", "z", "qw", "qx", "qy", "qz")
    return FeatureSpec("float32", (7,), names, "m+quat_wxyz", coordinate_frame)


def keypoints_spec(coordinate_frame: str = "world") -> FeatureSpec:
    """Spec of 21 hand keypoints in MANO order, metres."""
    names = tuple(f"kp{i}_{axis}" for i in range(21) for axis in "xyz")
    return FeatureSpec("float32", (63,), names, "m", coordinate_frame)


def mask_spec(*shape: int) -> FeatureSpec:
    """Spec of a validity mask; `shape` is that of one row."""
    return FeatureSpec("bool", tuple(shape))


def timestamps_spec() -> FeatureSpec:
    """Spec of the reference camera's time stamps."""
    return FeatureSpec("int64", (), unit="ns")


def resolve_embodiment(name: str) -> tuple[str, bool]:
    """Resolve an embodiment name, aliases included.

    Args:
        name: Such as ``human_bimanual`` or the old ``mecka_bimanual``.

    Returns:
        The canonical name, and whether the given one was an alias (the caller warns).

    Raises:
        SchemaError: Unknown; the message lists the nearest known names.
    """
    if name in EMBODIMENTS:
        return name, False
    prefix, _, rest = name.partition("_")
    if prefix in ("aria", "mecka", "scale") and f"human_{rest}" in EMBODIMENTS:
        return f"human_{rest}", True
    raise SchemaError(f"embodiment {name!r} is unknown: {nearest(name, EMBODIMENTS)}")
