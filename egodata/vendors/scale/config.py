"""Typed config of Scale deliveries; the values are in configs/vendors/scale.yaml."""

from dataclasses import dataclass

from egodata.config import find_config, load_config, strict_config
from egodata.errors import ConfigError
from egodata.vendors.base import VendorOptions


@strict_config
@dataclass(frozen=True, slots=True)
class FillConfig:
    """How short gaps of a hand are filled, where that is asked for.

    Attributes:
        max_frames: Longest gap.
        anchors: Points needed on each side of it.
        reach_frames: How far from the gap they may lie.
        max_step_m: A gap whose filled points move farther than this from one frame to the next is left open.
    """

    max_frames: int = 15
    anchors: int = 3
    reach_frames: int = 10
    max_step_m: float = 2.0


@strict_config
@dataclass(frozen=True, slots=True)
class ScaleConfig:
    """How a Scale delivery is read.

    Attributes:
        stored_size_px: Box (width, height) that stored frames must fit; smaller ones stay as they are.
        camera: Name of the one camera.
        embodiment: Of every recording.
        subtask_key: Key of the `Sub-goal` clips.
        min_points: A hand with fewer points in a frame is missing there, as the vendor counts it.
        piece_frames: Shortest and longest episode.
        gap_frames: A run of more frames than this without any hand is a gap: left out, and episodes end there.
        drop_issues: Values of `Collector Quality Issue` whose frames are left out.
        fill: How gaps of a hand are filled; null leaves them missing.
        trim_tail_frames: How many more poses than frames, or frames than poses, may be cut from the end.
        match_tolerance: Largest distance of a row's time from its frame's, as a share of the frame interval.
        quat_norm_tolerance: Norms within it are normalised, others make the row invalid.
        clock_drift_s: Largest difference of the scene's clock and the video's pts over the recording.
        head_jump_m: Step of the head pose from one frame to the next that is a finding.
        missing_hand_share: Share of frames without a hand from which it is a warning; less is information.
        default_size_px: Size that intrinsics belong to where the scene does not say.
    """

    stored_size_px: tuple[int, int] = (640, 400)
    camera: str = "front_1"
    embodiment: str = "human_bimanual"
    subtask_key: str = "annotations_subtask"
    min_points: int = 10
    piece_frames: tuple[int, int] = (10, 300)
    gap_frames: int = 15
    drop_issues: tuple[str, ...] = ("Inactive Time",)
    fill: FillConfig | None = None
    trim_tail_frames: int = 3
    match_tolerance: float = 0.5
    quat_norm_tolerance: float = 0.01
    clock_drift_s: float = 0.1
    head_jump_m: float = 0.3
    missing_hand_share: float = 0.5
    default_size_px: tuple[int, int] = (1920, 1200)

    def __post_init__(self) -> None:
        least, most = self.piece_frames
        if not 1 <= least <= most or most < 2 * least:
            raise ConfigError(f"piece_frames [{least}, {most}]: expected at least 1, and the longest at least twice the shortest")


def load(options: VendorOptions) -> ScaleConfig:
    """Load the config that a delivery uses."""
    return load_config(find_config("vendors", options.config or "scale"), ScaleConfig)
