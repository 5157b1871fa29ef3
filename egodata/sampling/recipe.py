"""Recipes: which numbers, images and texts of an episode make a sample. Values only, from YAML."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from egodata.config import find_config, load_config, strict_config
from egodata.episode import EpisodeMeta
from egodata.errors import ConfigError, RecipeError
from egodata.names import nearest
from egodata.schema.canonical import json_digest
from egodata.schema.features import EMBODIMENTS, HEAD_POSE, SIDES, camera_key, resolve_embodiment, valid_key
from egodata.schema.ids import ANNOTATION_PREFIX

HUMAN_ACTION_WIDTH, HUMAN_PROPRIO_WIDTH = 9, 10
JOINTS_ARM = "joints"


@strict_config
@dataclass(frozen=True, slots=True)
class ActionSpec:
    """What the policy predicts.

    Attributes:
        layout: ``human_18``: left then right, xyz and 6D rotation; ``joints``: one row of joints, as many as the episode has.
        coordinate_frame: Of human actions: each arm's own pose at the start (`wrist`), the head's pose at the start, or
            the recording's world. ``none`` for joints.
        feature: Array that holds the action; per side for human layouts.
        reference: Array that holds the wrist pose at the start, per side; it decides which arms are valid.
        window_s: Length of the window in seconds; round(fps x window_s) source frames.
        steps: Steps that it is resampled to.
    """

    layout: Literal["human_18", "joints"]
    coordinate_frame: Literal["wrist", "head", "world", "none"]
    feature: str = "obs_ee_pose"
    reference: str = "obs_ee_pose"
    window_s: float = 1.0
    steps: int = 100

    def __post_init__(self) -> None:
        if self.window_s <= 0 or self.steps < 1:
            raise ConfigError(f"action window: expected window_s > 0 and steps >= 1, got {self.window_s} s and {self.steps}")
        if (self.layout == "joints") != (self.coordinate_frame == "none"):
            expected = "joints go with none, human layouts with wrist, head or world"
            raise ConfigError(f"action layout {self.layout} in coordinate frame {self.coordinate_frame}: {expected}")


@strict_config
@dataclass(frozen=True, slots=True)
class ProprioSpec:
    """What the policy knows about its own body.

    Attributes:
        layout: ``human_20``: left then right, xyz, 6D rotation and a zero grip; ``joints``: as many as the episode has.
        coordinate_frame: ``head``: the head's pose at the sample's frame, for every history step; ``world``; ``none`` for joints.
        feature: Array that holds it; per side for human layouts.
        history: Steps K, the current one included.
        stride_frames: Source frames between steps.
    """

    layout: Literal["human_20", "joints"]
    coordinate_frame: Literal["head", "world", "none"]
    feature: str = "obs_ee_pose"
    history: int = 3
    stride_frames: int = 5

    def __post_init__(self) -> None:
        if self.history < 1 or self.stride_frames < 1:
            raise ConfigError(f"proprio: expected history and stride_frames of at least 1, got {self.history} and {self.stride_frames}")
        if (self.layout == "joints") != (self.coordinate_frame == "none"):
            expected = "joints go with none, human layouts with head or world"
            raise ConfigError(f"proprio layout {self.layout} in coordinate frame {self.coordinate_frame}: {expected}")


@strict_config
@dataclass(frozen=True, slots=True)
class ImageHistory:
    """Frames per camera: `count` of them, round(gap_s x fps) but at least 1 source frame apart, the current one last."""

    count: int = 1
    gap_s: float = 0.1

    def __post_init__(self) -> None:
        if self.count < 1 or self.gap_s <= 0:
            raise ConfigError(f"image history: expected count >= 1 and gap_s > 0, got {self.count} and {self.gap_s} s")


@strict_config
@dataclass(frozen=True, slots=True)
class Recipe:
    """How a sample is made.

    Attributes:
        embodiments: Canonical embodiment names that it fits.
        cameras: Camera names.
        prompt_roles: Annotation keys whose active texts are the prompt candidates, in this order. There is no fallback to others.
        default_prompt: The prompt where no text is active.
        span_cutoff: Annotation key whose span ends the action window, or None.
        pool_horizon: Whether statistics of the action are one per channel over all steps, instead of one per step and channel.
    """

    name: str
    embodiments: tuple[str, ...]
    cameras: tuple[str, ...]
    action: ActionSpec
    proprio: ProprioSpec
    image_history: ImageHistory = field(default_factory=ImageHistory)
    prompt_roles: tuple[str, ...] = ()
    default_prompt: str = ""
    span_cutoff: str | None = None
    pool_horizon: bool = False

    def __post_init__(self) -> None:
        unknown = [name for name in self.embodiments if name not in EMBODIMENTS]
        if unknown or not self.embodiments:
            raise ConfigError(
                f"recipe {self.name}: embodiment {', '.join(unknown) or '(none)'} is unknown; {nearest(''.join(unknown[:1]), EMBODIMENTS)}"
            )
        if (self.action.layout == "joints") != (self.proprio.layout == "joints"):
            raise ConfigError(f"recipe {self.name}: action {self.action.layout} and proprio {self.proprio.layout} are of different bodies")
        structural = [role for role in self.prompt_roles if not role.startswith(ANNOTATION_PREFIX)]
        if structural:
            raise ConfigError(f"recipe {self.name}: prompt role {structural[0]} is not text: expected {ANNOTATION_PREFIX}*")

    @property
    def arms(self) -> tuple[str, ...]:
        """Names behind the validity bits: left and right, or one for all joints."""
        return (JOINTS_ARM,) if self.action.layout == "joints" else SIDES

    @property
    def action_dim(self) -> int | None:
        """Channels of an action; None where the episode decides (see `bind`)."""
        return None if self.action.layout == "joints" else HUMAN_ACTION_WIDTH * len(self.arms)

    @property
    def proprio_dim(self) -> int | None:
        """Channels of proprio; None where the episode decides."""
        return None if self.proprio.layout == "joints" else HUMAN_PROPRIO_WIDTH * len(self.arms)

    @property
    def action_steps(self) -> int:
        """Steps of an action chunk."""
        return self.action.steps

    @property
    def proprio_history(self) -> int:
        """History steps K."""
        return self.proprio.history

    def rotation_channels(self, part: Literal["action", "proprio"]) -> tuple[int, ...]:
        """Channels that hold 6D rotations; they are never normalised."""
        spec: ActionSpec | ProprioSpec = self.action if part == "action" else self.proprio
        if spec.layout == "joints":
            return ()
        width = HUMAN_ACTION_WIDTH if part == "action" else HUMAN_PROPRIO_WIDTH
        return tuple(arm * width + channel for arm in range(len(self.arms)) for channel in range(3, 9))

    @property
    def digest(self) -> str:
        """SHA-256 of every value but the name; `pool_horizon` enters only where it is set, so that older digests stay."""
        return json_digest({key: value for key, value in asdict(self).items() if key != "name" and (key != "pool_horizon" or value)})

    @property
    def numbers_digest(self) -> str:
        """SHA-256 of what actions and proprio depend on; statistics are keyed by it."""
        pooled = {"pool_horizon": True} if self.pool_horizon else {}
        return json_digest({"action": asdict(self.action), "proprio": asdict(self.proprio), "span_cutoff": self.span_cutoff, **pooled})

    @property
    def features(self) -> tuple[str, ...]:
        """Numeric features that actions and proprio are made of, sorted, without their masks."""
        wanted: list[str] = []
        for spec in (self.action, self.proprio):
            wanted += [spec.feature] if spec.layout == "joints" else [f"{side}.{spec.feature}" for side in SIDES]
        if self.action.coordinate_frame == "wrist":
            wanted += [f"{side}.{self.action.reference}" for side in SIDES]
        if "head" in (self.action.coordinate_frame, self.proprio.coordinate_frame):
            wanted.append(HEAD_POSE)
        return tuple(sorted(set(wanted)))

    @property
    def numbers_only(self) -> "Recipe":
        """The same recipe without cameras and prompts: its windows are the same numbers."""
        return replace(self, cameras=(), prompt_roles=())

    def to_json(self) -> dict[str, Any]:
        """Return all values as plain types; `egodata.config.typed(Recipe, ...)` reads them back."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Layout:
    """A recipe on one episode's features.

    Attributes:
        action_dim: Channels of an action.
        proprio_dim: Channels of proprio.
        action_names: One name per channel.
        proprio_names: One name per channel.
        keys: Numeric arrays to read, masks included, sorted.
    """

    action_dim: int
    proprio_dim: int
    action_names: tuple[str, ...]
    proprio_names: tuple[str, ...]
    keys: tuple[str, ...]


def load_recipe(name_or_path: str) -> Recipe:
    """Read a shipped recipe by name, or one's own from a path ending in ``.yaml``.

    Raises:
        NotFoundError: No such recipe; the message lists the nearest names.
        ConfigError: Values that do not fit.
    """
    return load_config(find_config("recipes", name_or_path), Recipe)


def _names(spec: ActionSpec | ProprioSpec, meta: EpisodeMeta, channels: tuple[str, ...]) -> tuple[str, ...]:
    if spec.layout != "joints":
        return tuple(f"{side}.{channel}" for side in SIDES for channel in channels)
    feature = meta.features[spec.feature]
    return feature.names or tuple(f"{spec.feature}.{i}" for i in range(feature.shape[0]))


def bind(recipe: Recipe, meta: EpisodeMeta) -> Layout:
    """Resolve a recipe on an episode, before any of its data is read.

    Args:
        recipe: What is wanted.
        meta: What the episode has.

    Returns:
        Widths, channel names and the arrays to read.

    Raises:
        RecipeError: The embodiment does not fit, or a feature or camera is missing; the message names all that is missing.
    """
    embodiment, _ = resolve_embodiment(meta.embodiment)
    where = f"recipe {recipe.name} on episode {meta.episode_id}"
    if embodiment not in recipe.embodiments:
        raise RecipeError(f"{where}: expected embodiment {' or '.join(recipe.embodiments)}, got {embodiment}. Choose a recipe for it.")
    wanted = [*recipe.features, *(camera_key(camera) for camera in recipe.cameras)]
    missing = [key for key in wanted if key not in meta.features]
    if missing:
        raise RecipeError(f"{where}: missing {', '.join(missing)} ({nearest(missing[0], meta.features)}). Choose a recipe that fits.")
    features = recipe.features
    masks = [valid_key(key) for key in [*features, *(camera_key(camera) for camera in recipe.cameras)]]
    rotation = tuple(f"r{column}{axis}" for column in (1, 2) for axis in "xyz")
    action_names = _names(recipe.action, meta, ("x", "y", "z", *rotation))
    proprio_names = _names(recipe.proprio, meta, ("x", "y", "z", *rotation, "grip"))
    keys = tuple(sorted([*features, *(key for key in masks if key in meta.features)]))
    return Layout(len(action_names), len(proprio_names), action_names, proprio_names, keys)
