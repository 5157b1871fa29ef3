"""Layouts: which channels an arm's numbers are packed into, and where. Left comes before right, every arm is packed alike.

Widths are those that the field trains with; docs/recipes.md draws them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from egodata.schema.features import SIDES

Part = Literal["xyz", "ypr", "rot6d", "quat", "grip", "keypoints"]
Body = Literal["human", "robot", "joints"]
LayoutName = Literal[
    "human_12", "human_14", "human_18", "human_20", "human_126", "human_132", "human_138", "human_140", "human_144",
    "robot_12", "robot_14", "robot_18", "robot_20", "robot_joints", "joints",
]  # fmt: skip

KEYPOINTS = 21
ROTATIONS: tuple[Part, ...] = ("ypr", "rot6d", "quat")
JOINTS_ARM = "joints"
CHANNELS: Mapping[Part, tuple[str, ...]] = {
    "xyz": ("x", "y", "z"),
    "ypr": ("yaw", "pitch", "roll"),
    "rot6d": tuple(f"r{column}{axis}" for column in (1, 2) for axis in "xyz"),
    "quat": ("qw", "qx", "qy", "qz"),
    "grip": ("grip",),
    "keypoints": tuple(f"kp{point}_{axis}" for point in range(KEYPOINTS) for axis in "xyz"),
}


@dataclass(frozen=True, slots=True)
class ArmLayout:
    """Channels of one arm.

    Attributes:
        body: ``human`` and ``robot`` have a left and a right arm; ``joints`` is one row of joints.
        parts: What is packed, in order; empty where joints decide the width.
        measured_grip: Whether a grip channel holds a gripper's opening; else it is always 0, as for hands.
    """

    body: Body
    parts: tuple[Part, ...] = ()
    measured_grip: bool = False

    @property
    def of_joints(self) -> bool:
        """Whether the channels are joints, so that the episode decides how many there are."""
        return not self.parts

    @property
    def arms(self) -> tuple[str, ...]:
        """Names behind the validity bits: left and right, or one for all joints."""
        return (JOINTS_ARM,) if self.body == "joints" else SIDES

    @property
    def width(self) -> int:
        """Channels of one arm; 0 for joints."""
        return sum(len(CHANNELS[part]) for part in self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the channels of one arm."""
        return tuple(name for part in self.parts for name in CHANNELS[part])

    @property
    def rotation(self) -> Part | None:
        """The form in which rotations are written, if they are."""
        return next((part for part in self.parts if part in ROTATIONS), None)

    def at(self, part: Part) -> slice:
        """Return where a part lies among the channels of one arm; an empty slice if it is not there."""
        start = 0
        for found in self.parts:
            end = start + len(CHANNELS[found])
            if found == part:
                return slice(start, end)
            start = end
        return slice(0, 0)

    @property
    def groups(self) -> tuple[slice, slice]:
        """Channels of one arm that are valid together with its pose, a grip that is always 0 among them, and those of keypoints."""
        return _groups(self)

    def rotation_channels(self) -> tuple[int, ...]:
        """Return the channels of all arms that hold rotations."""
        if self.rotation is None:
            return ()
        place = self.at(self.rotation)
        return tuple(arm * self.width + channel for arm in range(len(self.arms)) for channel in range(place.start, place.stop))


@lru_cache(maxsize=64)
def _groups(layout: ArmLayout) -> tuple[slice, slice]:
    of_pose = [part for part in layout.parts if part == "xyz" or part in ROTATIONS or (part == "grip" and not layout.measured_grip)]
    return slice(0, sum(len(CHANNELS[part]) for part in of_pose)), layout.at("keypoints")


LAYOUTS: Mapping[str, ArmLayout] = {
    "human_12": ArmLayout("human", ("xyz", "ypr")),
    "human_14": ArmLayout("human", ("xyz", "ypr", "grip")),
    "human_18": ArmLayout("human", ("xyz", "rot6d")),
    "human_20": ArmLayout("human", ("xyz", "rot6d", "grip")),
    "human_126": ArmLayout("human", ("keypoints",)),
    "human_132": ArmLayout("human", ("xyz", "keypoints")),
    "human_138": ArmLayout("human", ("xyz", "ypr", "keypoints")),
    "human_140": ArmLayout("human", ("xyz", "quat", "keypoints")),
    "human_144": ArmLayout("human", ("xyz", "rot6d", "keypoints")),
    "robot_12": ArmLayout("robot", ("xyz", "ypr")),
    "robot_14": ArmLayout("robot", ("xyz", "ypr", "grip"), measured_grip=True),
    "robot_18": ArmLayout("robot", ("xyz", "rot6d")),
    "robot_20": ArmLayout("robot", ("xyz", "rot6d", "grip"), measured_grip=True),
    "robot_joints": ArmLayout("robot", (), measured_grip=True),
    "joints": ArmLayout("joints"),
}
