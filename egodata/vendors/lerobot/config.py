"""Typed config of LeRobot deliveries; the values are in configs/vendors/lerobot.yaml."""

from dataclasses import dataclass, field

from egodata.config import find_config, load_config, strict_config
from egodata.vendors.base import VendorOptions


@strict_config
@dataclass(frozen=True, slots=True)
class HumanColumns:
    """Columns of a human data set: head pose (x y z qw qx qy qz, metres, OpenCV axes) and keypoints (21 x y z, MANO order), in the world.

    Attributes:
        head: Column of 7 numbers.
        left: Column of 63 numbers, NaN, zero or 1e9 where missing.
        right: The same.
        embodiment: Of every episode.
    """

    head: str
    left: str
    right: str
    embodiment: str = "human_bimanual"


@strict_config
@dataclass(frozen=True, slots=True)
class LeRobotConfig:
    """How a LeRobot delivery is read.

    Attributes:
        stored_size_px: Box (width, height) that stored frames must fit; smaller ones stay as they are.
        cameras: Video feature to camera name; others take the last part of their feature's name.
        reference_camera: Camera whose frames are the episode's frames; the first by name where it is missing.
        features: Parquet column to feature key; only these are kept.
        trim_tail_frames: How many more rows than frames, or frames than rows, may be cut from the end.
        human: Columns of a human data set, taken instead of `features`; null for robots.
        missing_hand_share: Share of frames without a hand from which it is a warning; less is information.
        match_tolerance: Largest distance of a row's time from its frame's, as a share of the frame interval.
    """

    stored_size_px: tuple[int, int] = (640, 480)
    cameras: dict[str, str] = field(default_factory=dict)
    reference_camera: str = "front_1"
    features: dict[str, str] = field(default_factory=lambda: {"observation.state": "obs_joints", "action": "cmd_joints"})
    trim_tail_frames: int = 3
    match_tolerance: float = 0.5
    human: HumanColumns | None = None
    missing_hand_share: float = 0.5


def load(options: VendorOptions) -> LeRobotConfig:
    """Load the config that a delivery uses."""
    return load_config(find_config("vendors", options.config or "lerobot"), LeRobotConfig)
