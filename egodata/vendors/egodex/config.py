"""Typed config of EgoDex deliveries; the values are in configs/vendors/egodex.yaml."""

from dataclasses import dataclass

from egodata.config import find_config, load_config, strict_config
from egodata.vendors.base import VendorOptions


@strict_config
@dataclass(frozen=True, slots=True)
class EgoDexConfig:
    """How an EgoDex delivery is read.

    Attributes:
        stored_size_px: Box (width, height) that stored frames must fit; smaller ones stay as they are.
        camera: Name of the one camera.
        embodiment: Of every recording.
        fps: Frame rate that the data set states; the video's own counts where it differs.
        min_confidence: A joint is missing where its confidence is not above this.
        low_confidence: Confidence below which joints are counted in a finding, but kept.
        intrinsic_size_px: Size of the video that `camera/intrinsic` belongs to; null takes the delivered video's own.
        trim_tail_frames: How many more rows than frames, or frames than rows, may be cut from the end.
        head_jump_m: Step of the head pose from one frame to the next that is a finding.
        missing_hand_share: Share of frames without a hand from which it is a warning; less is information.
    """

    stored_size_px: tuple[int, int] = (640, 360)
    camera: str = "front_1"
    embodiment: str = "human_bimanual"
    fps: int = 30
    min_confidence: float = 0.0
    low_confidence: float = 0.5
    intrinsic_size_px: tuple[int, int] | None = None
    trim_tail_frames: int = 3
    head_jump_m: float = 0.3
    missing_hand_share: float = 0.5


def load(options: VendorOptions) -> EgoDexConfig:
    """Load the config that a delivery uses."""
    return load_config(find_config("vendors", options.config or "egodex"), EgoDexConfig)
