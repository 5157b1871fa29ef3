"""Typed config of Aria deliveries; the values are in configs/vendors/aria.yaml."""

from dataclasses import dataclass

from egodata.config import find_config, load_config, strict_config
from egodata.vendors.base import VendorOptions


@strict_config
@dataclass(frozen=True, slots=True)
class AriaConfig:
    """How an Aria delivery is read.

    Attributes:
        stored_size_px: Size (width, height) of the linear camera that frames are undistorted to, upright.
        gen1_focal_per_height: Focal length of that camera for Gen1, in image heights. Gen2 keeps its own, scaled by width.
        camera: Name of the one camera.
        embodiment: Of every recording.
        rgb_stream: Stream id of the RGB camera in the VRS.
        min_confidence: A hand is missing where its tracking confidence is not above this; a missing one has -1.
        pose_limit_s: Largest distance in time between a frame, or a hand, and the head pose taken for it.
        hand_limit_s: Largest distance in time between a frame and the hands taken for it.
        gap_steps: Steps of the camera longer than this many median ones are gaps.
        head_jump_m: Step of the head pose from one frame to the next that is a finding.
        missing_hand_share: Share of frames without a hand from which it is a warning; less is information.
    """

    stored_size_px: tuple[int, int] = (640, 480)
    gen1_focal_per_height: float = 133.25430222 / 240
    camera: str = "front_1"
    embodiment: str = "human_bimanual"
    rgb_stream: str = "214-1"
    min_confidence: float = 0.0
    pose_limit_s: float = 0.01
    hand_limit_s: float = 0.055
    gap_steps: float = 1.5
    head_jump_m: float = 0.3
    missing_hand_share: float = 0.5


def load(options: VendorOptions) -> AriaConfig:
    """Load the config that a delivery uses."""
    return load_config(find_config("vendors", options.config or "aria"), AriaConfig)
