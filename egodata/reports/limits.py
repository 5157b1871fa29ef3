"""From where on something about an episode is a finding; the values that are shipped lie in configs/doctor.yaml."""

from dataclasses import dataclass

from egodata.config import find_config, load_config, strict_config


@strict_config
@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds of the quality checks. Shares are of an episode's frames unless said otherwise.

    Attributes:
        head_step_m: A step of the head pose from one frame to the next above this is a jump.
        head_still_m: A head that never leaves a box of this size is constant.
        identity_share: Share of rotations that are exactly the identity.
        quat_norm_tolerance: How far a quaternion's length may be from 1.
        missing_hand_share: Share of frames without that hand.
        behind_share: Share of valid keypoints that lie behind the camera.
        inside_share: Least share of valid keypoints that project into the picture.
        spread_share: Least spread of projected keypoints (half the range of the middle 68 %), as a share of the picture's width.
        held_s: Longest stretch in which a stream repeats its row bit by bit.
        held_share: Share of rows that repeat the one before.
        frozen_s: Longest stretch of pictures that do not change.
        frozen_level: Mean absolute difference of two pictures, of 255, up to which they are the same.
        frozen_key_level: The same for one picture between two still ones, where a keyframe codes the same picture anew.
        moved_m: Path of head or hands during a frozen stretch that makes it a warning; less is information.
        black_s: Longest stretch of black pictures.
        black_level: Mean of a picture, of 255, up to which it is black.
        coverage_share: Least share of frames under a span, per annotation key that is there.
    """

    head_step_m: float = 0.3
    head_still_m: float = 0.001
    identity_share: float = 0.01
    quat_norm_tolerance: float = 1e-4
    missing_hand_share: float = 0.5
    behind_share: float = 0.01
    inside_share: float = 0.5
    spread_share: float = 0.01
    held_s: float = 0.5
    held_share: float = 0.2
    frozen_s: float = 0.5
    frozen_level: float = 0.02
    frozen_key_level: float = 2.0
    moved_m: float = 0.02
    black_s: float = 0.1
    black_level: float = 8.0
    coverage_share: float = 0.5


SHIPPED = Limits()


@dataclass(frozen=True, slots=True)
class Checks:
    """What an examination does.

    Attributes:
        limits: From where on something is a finding.
        pictures: Whether every picture is decoded, to find frozen and black stretches.
    """

    limits: Limits = SHIPPED
    pictures: bool = True


def load_limits(name: str | None = None) -> Limits:
    """Read thresholds: the shipped ones, or a file of one's own, in which a value that is left out is the shipped one.

    Raises:
        ConfigError: An unknown name or a wrong type.
        NotFoundError: No such file.
    """
    return load_config(find_config("", name or "doctor"), Limits)
