"""Typed config of Eva deliveries; the values are in configs/vendors/eva.yaml."""

from dataclasses import dataclass, field
from typing import Literal

from egodata.config import find_config, load_config, strict_config
from egodata.errors import ConfigError
from egodata.vendors.base import VendorOptions

Rows = tuple[tuple[float, float, float, float], tuple[float, float, float, float], tuple[float, float, float, float]]


@strict_config
@dataclass(frozen=True, slots=True)
class DeclaredCamera:
    """Intrinsics that a person vouches for: a pinhole in pixels at `w` x `h`, OPENCV distortion."""

    w: int
    h: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()


@strict_config
@dataclass(frozen=True, slots=True)
class EvaConfig:
    """How an Eva delivery is read.

    Attributes:
        stored_size_px: Box (width, height) that stored frames must fit; smaller ones stay as they are.
        fps: Frames per second; the files have no times.
        arms: Whose seven numbers each row holds, in order.
        cameras: Name of an image data set to camera name; others are dropped and named.
        reference_camera: Camera whose frames are the episode's frames.
        image_order: Order of colours in the image data sets.
        trim_tail_frames: How many rows the data sets may differ by; the longer ones are cut.
        zero_tail: Cut trailing rows in which every number is zero, or set the recording aside.
        declared_cameras: Intrinsics by camera name; none leaves the calibration unknown.
        declared_arm_bases: By side, the upper three rows of `front_T_base`: the pose of an arm's base in the coordinate frame of the
            reference camera.
    """

    stored_size_px: tuple[int, int] = (640, 480)
    fps: int = 30
    arms: tuple[Literal["left", "right"], ...] = ("left", "right")
    cameras: dict[str, str] = field(
        default_factory=lambda: {"front_img_1": "front_1", "left_wrist_img": "left_wrist", "right_wrist_img": "right_wrist"}
    )
    reference_camera: str = "front_1"
    image_order: Literal["bgr", "rgb"] = "bgr"
    trim_tail_frames: int = 3
    zero_tail: Literal["trim", "set_aside"] = "trim"
    declared_cameras: dict[str, DeclaredCamera] = field(default_factory=dict)
    declared_arm_bases: dict[str, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.arms or len(set(self.arms)) < len(self.arms):
            raise ConfigError(f"arms {list(self.arms)}: expected left, right, or both once")
        if not 1 <= self.fps <= 480:
            raise ConfigError(f"fps {self.fps}: expected 1 to 480")

    @property
    def embodiment(self) -> str:
        """Canonical name of the robot."""
        return "eva_bimanual" if len(self.arms) == 2 else f"eva_{self.arms[0]}_arm"


def load(options: VendorOptions) -> EvaConfig:
    """Load the config that a delivery uses."""
    return load_config(find_config("vendors", options.config or "eva"), EvaConfig)
