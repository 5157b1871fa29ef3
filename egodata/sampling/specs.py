"""What a recipe is made of: the action, proprio, image history, and which spans windows come from. Values only, from YAML."""

from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any, Literal

from egodata.config import strict_config
from egodata.errors import ConfigError
from egodata.sampling.layouts import LAYOUTS, ArmLayout, LayoutName
from egodata.sampling.windows import frames_in

USUAL_STRIDE_FRAMES = 5
KeypointsFrame = Literal["own_wrist", "shared"]

LATER_FIELDS = ("keypoints", "keypoints_frame", "gripper", "stride_s", "before_start")
"""Fields that came after the first recipes: they enter digests only where they differ from their defaults, so that older digests stay."""


def digested(spec: Any) -> dict[str, Any]:
    """Return the values of a spec that digests cover."""
    defaults = {field.name: field.default for field in fields(spec)}
    return {name: value for name, value in asdict(spec).items() if name not in LATER_FIELDS or value != defaults[name]}


def _check_frame(what: str, layout: ArmLayout, frame: str) -> None:
    if layout.of_joints != (frame == "none"):
        expected = "joints go with none, human and robot layouts with a coordinate frame"
        raise ConfigError(f"{what} in coordinate frame {frame}: {expected}")
    if layout.body == "robot" and frame in ("head", "world"):
        raise ConfigError(f"{what} in coordinate frame {frame}: robots have poses in base or wrist, they record no head")
    if layout.body == "human" and frame == "base":
        raise ConfigError(f"{what} in coordinate frame {frame}: hands have poses in wrist, head or world, they have no base")


@strict_config
@dataclass(frozen=True, slots=True)
class ActionSpec:
    """What the policy predicts.

    Attributes:
        layout: Channels; see `egodata.sampling.layouts`. ``joints``: one row of joints, as many as the episode has;
            ``robot_joints``: those of each arm and its gripper.
        coordinate_frame: Each arm's own reference pose at the start (`wrist`), the head's pose at the start, the recording's world,
            or the arm's base. ``none`` for joints.
        feature: Array that holds the pose or the joints; per side but for ``joints``.
        reference: Array that holds the wrist pose at the start, per side; it decides which arms are valid.
        window_s: Length of the window in seconds; round(fps x window_s) source frames.
        steps: Steps that it is resampled to.
        keypoints: Array that holds keypoints, per side; only read by layouts that have them.
        keypoints_frame: Whether keypoints are in the wrist pose of their own step, or share the coordinate frame of everything else.
        gripper: Array that holds a gripper's opening, per side; only read by robot layouts that have a grip.
    """

    layout: LayoutName
    coordinate_frame: Literal["wrist", "head", "world", "base", "none"]
    feature: str = "obs_ee_pose"
    reference: str = "obs_ee_pose"
    window_s: float = 1.0
    steps: int = 100
    keypoints: str = "obs_keypoints"
    keypoints_frame: KeypointsFrame = "own_wrist"
    gripper: str = "cmd_gripper"

    def __post_init__(self) -> None:
        if self.window_s <= 0 or self.steps < 1:
            raise ConfigError(f"action window: expected window_s > 0 and steps >= 1, got {self.window_s} s and {self.steps}")
        layout = LAYOUTS[self.layout]
        _check_frame(f"action layout {self.layout}", layout, self.coordinate_frame)
        if "keypoints" in layout.parts and layout.rotation is None and self.keypoints_frame == "own_wrist":
            raise ConfigError(
                f"action layout {self.layout}: keypoints in their own wrist cannot be undone without its rotation. "
                "Set keypoints_frame: shared, or use human_138, human_140 or human_144."
            )


@strict_config
@dataclass(frozen=True, slots=True)
class ProprioSpec:
    """What the policy knows about its own body.

    Attributes:
        layout: Channels, as for the action.
        coordinate_frame: The head's pose or each arm's own pose (`wrist`) at the sample's frame, for every history step; ``world``;
            ``base``; ``none`` for joints.
        feature: Array that holds the pose or the joints; per side but for ``joints``.
        history: Steps K, the current one included.
        stride_frames: Source frames between steps; 5 where no stride is given.
        stride_s: The same in seconds, round(fps x stride_s) but at least 1 frame; one of the two.
        keypoints: Array that holds keypoints, per side.
        keypoints_frame: Whether a step's keypoints are in that step's own wrist pose, or share the coordinate frame of everything else.
        gripper: Array that holds a gripper's opening, per side.
    """

    layout: LayoutName
    coordinate_frame: Literal["head", "world", "base", "wrist", "none"]
    feature: str = "obs_ee_pose"
    history: int = 3
    stride_frames: int | None = None
    stride_s: float | None = None
    keypoints: str = "obs_keypoints"
    keypoints_frame: KeypointsFrame = "own_wrist"
    gripper: str = "obs_gripper"

    def __post_init__(self) -> None:
        if self.stride_frames is None and self.stride_s is None:
            object.__setattr__(self, "stride_frames", USUAL_STRIDE_FRAMES)
        if self.stride_frames is not None and self.stride_s is not None:
            raise ConfigError(f"proprio: expected one of stride_frames and stride_s, got {self.stride_frames} and {self.stride_s} s")
        stride = self.stride_s if self.stride_frames is None else self.stride_frames
        if self.history < 1 or stride is None or stride <= 0:
            raise ConfigError(f"proprio: expected history of at least 1 and a stride above 0, got {self.history} and {stride}")
        _check_frame(f"proprio layout {self.layout}", LAYOUTS[self.layout], self.coordinate_frame)

    def stride_in(self, fps: Fraction) -> int:
        """Return the source frames between history steps at a frame rate."""
        return self.stride_frames if self.stride_s is None else frames_in(self.stride_s, fps)  # type: ignore[return-value]


@strict_config
@dataclass(frozen=True, slots=True)
class ImageHistory:
    """Frames per camera: `count` of them, round(gap_s x fps) but at least 1 source frame apart, the current one last.

    Attributes:
        count: Frames N, the current one included.
        gap_s: Seconds between them.
        before_start: What stands for a frame before the episode; it is not in the mask either way. ``grid``: the oldest frame
            of the same grid, as proprio does; ``first``: frame 0.
    """

    count: int = 1
    gap_s: float = 0.1
    before_start: Literal["grid", "first"] = "grid"

    def __post_init__(self) -> None:
        if self.count < 1 or self.gap_s <= 0:
            raise ConfigError(f"image history: expected count >= 1 and gap_s > 0, got {self.count} and {self.gap_s} s")


@strict_config
@dataclass(frozen=True, slots=True)
class SpanSelection:
    """Windows start only inside chosen spans of one key. Their texts are not read: a structural key never becomes a prompt.

    Attributes:
        key: Key of the spans, such as ``fold_segments``.
        rule: Which spans: ``all``, ``first`` (earliest start), ``last``, ``longest`` (the earliest of equals), or ``index``.
        indices: Places in stored order for ``index``, negative ones from the end; a place that an episode lacks chooses nothing there.
        min_frames: Spans shorter than this are not chosen.
        absent: What an episode without the key does: ``refuse`` the recipe, or ``leave_out`` all of its frames, counted.
    """

    key: str
    rule: Literal["all", "first", "last", "longest", "index"] = "all"
    indices: tuple[int, ...] = ()
    min_frames: int = 1
    absent: Literal["refuse", "leave_out"] = "refuse"

    def __post_init__(self) -> None:
        if (self.rule == "index") != bool(self.indices):
            raise ConfigError(f"span selection {self.key}: expected indices with rule index and only there, got {self.rule} {self.indices}")
        if self.min_frames < 1:
            raise ConfigError(f"span selection {self.key}: expected min_frames of at least 1, got {self.min_frames}")
