"""Typed config of Mecka deliveries; the values are in configs/vendors/mecka.yaml."""

from dataclasses import dataclass, field
from typing import Literal

from egodata.config import find_config, load_config, strict_config
from egodata.vendors.base import VendorOptions


@strict_config
@dataclass(frozen=True, slots=True)
class DeclaredIntrinsics:
    """Intrinsics that a person vouches for, for deliveries that ship none. Pixels at `w` x `h`; OPENCV distortion."""

    w: float
    h: float
    fl_x: float
    fl_y: float
    cx: float
    cy: float
    k1: float = 0.0
    k2: float = 0.0
    p1: float = 0.0
    p2: float = 0.0


@strict_config
@dataclass(frozen=True, slots=True)
class MeckaConfig:
    """How a Mecka delivery is read.

    Attributes:
        stored_size_px: Box (width, height) that stored frames must fit; smaller ones stay as they are.
        camera: Name of the one camera.
        embodiment: Of every recording.
        annotation_key: Key of labels without a role.
        roles: Key per value of the optional `role` column.
        misaligned_annotations: What to do with a file off the video's clock: build without it, or set the recording aside.
        annotation_overlap_s: How near to the video unix spans must be.
        head_jump_m: Step of the head pose from one frame to the next that is a finding.
        head_jump_severity: Of that finding.
        missing_hand_share: Share of frames without a hand from which it is a warning; less is information.
        trim_tail_frames: How many more rows than frames, or frames than rows, may be cut from the end.
        quat_norm_tolerance: Norms within it are normalised, others make the row invalid.
        max_keypoint_m: Keypoints farther from the camera are missing (1e9 is one encoding of that).
        clock_drift_s: Largest difference of frames.csv and the video's pts over the recording.
        undistort: Undistort frames whose calibration is known, and store the pinhole K that they then have.
        declared_intrinsics: Used where a recording ships none; null leaves its calibration unknown.
    """

    stored_size_px: tuple[int, int] = (640, 360)
    camera: str = "front_1"
    embodiment: str = "human_bimanual"
    annotation_key: str = "annotations_subtask"
    roles: dict[str, str] = field(default_factory=lambda: {"task": "annotations_task", "subtask": "annotations_subtask"})
    misaligned_annotations: Literal["drop", "set_aside"] = "drop"
    annotation_overlap_s: float = 60.0
    head_jump_m: float = 0.3
    head_jump_severity: Literal["info", "warning"] = "warning"
    missing_hand_share: float = 0.5
    trim_tail_frames: int = 3
    quat_norm_tolerance: float = 0.01
    max_keypoint_m: float = 5.0
    clock_drift_s: float = 0.1
    undistort: bool = False
    declared_intrinsics: DeclaredIntrinsics | None = None


def load(options: VendorOptions) -> MeckaConfig:
    """Load the config that a delivery uses."""
    return load_config(find_config("vendors", options.config or "mecka"), MeckaConfig)
