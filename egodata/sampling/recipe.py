"""Recipes: which numbers, images and texts of an episode make a sample, and whether an episode has them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from egodata.config import find_config, load_config, strict_config
from egodata.episode import EpisodeMeta, EpisodeReader
from egodata.errors import ConfigError, RecipeError
from egodata.names import nearest
from egodata.sampling.layouts import JOINTS_ARM, LAYOUTS, ArmLayout
from egodata.sampling.specs import ActionSpec, ImageHistory, ProprioSpec, SpanSelection, digested
from egodata.schema.canonical import json_digest
from egodata.schema.features import EMBODIMENTS, HEAD_POSE, SIDES, camera_key, point_valid_key, resolve_embodiment, source_key, valid_key
from egodata.schema.ids import ANNOTATION_PREFIX

__all__ = [
    "HUMAN_ACTION_WIDTH",
    "HUMAN_PROPRIO_WIDTH",
    "JOINTS_ARM",
    "ActionSpec",
    "ImageHistory",
    "Layout",
    "ProprioSpec",
    "Recipe",
    "Spec",
    "SpanSelection",
    "bind",
    "bind_reader",
    "load_recipe",
]

HUMAN_ACTION_WIDTH, HUMAN_PROPRIO_WIDTH = LAYOUTS["human_18"].width, LAYOUTS["human_20"].width
Spec = ActionSpec | ProprioSpec


@strict_config
@dataclass(frozen=True, slots=True)
class Recipe:
    """How a sample is made.

    Attributes:
        embodiments: Canonical embodiment names that it fits.
        cameras: Camera names.
        prompt_roles: Annotation keys whose active texts are the prompt candidates, in this order. There is no fallback to others.
        default_prompt: The prompt where no text is active.
        span_cutoff: Key of spans, of texts or structural, whose span ends the action window, or None.
        pool_horizon: Whether statistics of the action are one per channel over all steps, instead of one per step and channel.
        span_selection: Which spans windows may start in; None for every usable frame.
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
    span_selection: SpanSelection | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.embodiments if name not in EMBODIMENTS]
        if unknown or not self.embodiments:
            raise ConfigError(
                f"recipe {self.name}: embodiment {', '.join(unknown) or '(none)'} is unknown; {nearest(''.join(unknown[:1]), EMBODIMENTS)}"
            )
        if self.action_layout.body != self.proprio_layout.body:
            raise ConfigError(f"recipe {self.name}: action {self.action.layout} and proprio {self.proprio.layout} are of different bodies")
        structural = [role for role in self.prompt_roles if not role.startswith(ANNOTATION_PREFIX)]
        if structural:
            raise ConfigError(f"recipe {self.name}: prompt role {structural[0]} is not text: expected {ANNOTATION_PREFIX}*")

    @property
    def action_layout(self) -> ArmLayout:
        """Channels of an action."""
        return LAYOUTS[self.action.layout]

    @property
    def proprio_layout(self) -> ArmLayout:
        """Channels of proprio."""
        return LAYOUTS[self.proprio.layout]

    @property
    def arms(self) -> tuple[str, ...]:
        """Names behind the validity bits: left and right, or one for all joints."""
        return self.action_layout.arms

    @property
    def action_dim(self) -> int | None:
        """Channels of an action; None where the episode decides (see `bind`)."""
        return self.action_layout.width * len(self.arms) or None

    @property
    def proprio_dim(self) -> int | None:
        """Channels of proprio; None where the episode decides."""
        return self.proprio_layout.width * len(self.arms) or None

    @property
    def action_steps(self) -> int:
        """Steps of an action chunk."""
        return self.action.steps

    @property
    def proprio_history(self) -> int:
        """History steps K."""
        return self.proprio.history

    def rotation_channels(self, part: Literal["action", "proprio"]) -> tuple[int, ...]:
        """Channels that hold rotations; they are never normalised."""
        return (self.action_layout if part == "action" else self.proprio_layout).rotation_channels()

    @property
    def digest(self) -> str:
        """SHA-256 of every value but the name; fields that came later enter only where they are set, so that older digests stay."""
        values = {key: value for key, value in asdict(self).items() if key not in ("name", "pool_horizon", "span_selection")}
        return json_digest({**values, **self._numbers, "image_history": digested(self.image_history)})

    @property
    def numbers_digest(self) -> str:
        """SHA-256 of what actions and proprio depend on; statistics are keyed by it."""
        return json_digest(self._numbers)

    @property
    def _numbers(self) -> dict[str, Any]:
        values: dict[str, Any] = {"action": digested(self.action), "proprio": digested(self.proprio), "span_cutoff": self.span_cutoff}
        if self.pool_horizon:
            values["pool_horizon"] = True
        if self.span_selection is not None:
            values["span_selection"] = asdict(self.span_selection)
        return values

    @property
    def span_keys(self) -> tuple[str, ...]:
        """Keys of spans that decide where windows start and end, without those of prompts."""
        selection = [] if self.span_selection is None else [self.span_selection.key]
        return tuple(dict.fromkeys([*([self.span_cutoff] if self.span_cutoff else []), *selection]))

    @property
    def features(self) -> tuple[str, ...]:
        """Numeric features that actions and proprio are made of, sorted, without their masks."""
        return tuple(sorted(_shapes(self)))

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


_POSE: tuple[tuple[int, ...], ...] = ((7,),)
_ROW: tuple[tuple[int, ...], ...] = ()
_GRIP: tuple[tuple[int, ...], ...] = ((), (1,))


def _shapes(recipe: Recipe) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return the features that a recipe reads, and the row shapes that each may have; none listed means any row of numbers."""
    wanted: dict[str, tuple[tuple[int, ...], ...]] = {}
    for spec, layout in ((recipe.action, recipe.action_layout), (recipe.proprio, recipe.proprio_layout)):
        if layout.body == "joints":
            wanted[spec.feature] = _ROW
            continue
        for side in SIDES:
            wanted[f"{side}.{spec.feature}"] = _ROW if layout.of_joints else _POSE
            if "keypoints" in layout.parts:
                wanted[f"{side}.{spec.keypoints}"] = ((63,),)
            if layout.measured_grip:
                wanted[f"{side}.{spec.gripper}"] = _GRIP
    if recipe.action.coordinate_frame == "wrist":
        wanted.update({f"{side}.{recipe.action.reference}": _POSE for side in SIDES})
    if "head" in (recipe.action.coordinate_frame, recipe.proprio.coordinate_frame):
        wanted[HEAD_POSE] = _POSE
    return wanted


def _names(spec: Spec, layout: ArmLayout, meta: EpisodeMeta) -> tuple[str, ...]:
    if layout.body == "joints":
        return _joint_names(spec.feature, meta)
    if not layout.of_joints:
        return tuple(f"{side}.{channel}" for side in SIDES for channel in layout.names)
    names: list[str] = []
    for side in SIDES:
        own = [name.removeprefix(f"{side}.") for name in _joint_names(f"{side}.{spec.feature}", meta)]
        names += [f"{side}.{name}" for name in (*own, "grip")]
    return tuple(names)


def _joint_names(key: str, meta: EpisodeMeta) -> tuple[str, ...]:
    feature = meta.features[key]
    return feature.names or tuple(f"{key}.{i}" for i in range(feature.shape[0]))


def bind(recipe: Recipe, meta: EpisodeMeta, *, span_keys: Iterable[str] | None = None) -> Layout:
    """Resolve a recipe on an episode, before any of its data is read.

    Args:
        recipe: What is wanted.
        meta: What the episode has.
        span_keys: Keys of spans that the episode has, texts and structural; None where they do not matter.

    Returns:
        Widths, channel names and the arrays to read.

    Raises:
        RecipeError: The episode cannot satisfy the recipe; the message names all that is missing and lists what is there.
    """
    embodiment, _ = resolve_embodiment(meta.embodiment)
    where = f"recipe {recipe.name} on episode {meta.episode_id}"
    if embodiment not in recipe.embodiments:
        raise RecipeError(f"{where}: expected embodiment {' or '.join(recipe.embodiments)}, got {embodiment}. Choose a recipe for it.")
    features = [*recipe.features, *(camera_key(camera) for camera in recipe.cameras)]
    missing = [key for key in features if key not in meta.features]
    if missing:
        raise RecipeError(
            f"{where}: missing {', '.join(missing)} ({nearest(missing[0], meta.features)}); {_there(meta)}. Choose a recipe that fits."
        )
    problems = [*_wrong_shapes(recipe, meta), *_wrong_frames(recipe, meta), *_missing_spans(recipe, span_keys)]
    if problems:
        raise RecipeError(f"{where}: {'; '.join(problems[:5])}. Choose a recipe that fits.")
    action_names = _names(recipe.action, recipe.action_layout, meta)
    proprio_names = _names(recipe.proprio, recipe.proprio_layout, meta)
    masks = [mask for key in features for mask in (valid_key(key), point_valid_key(key), source_key(key)) if mask in meta.features]
    return Layout(len(action_names), len(proprio_names), action_names, proprio_names, tuple(sorted([*recipe.features, *masks])))


def bind_reader(recipe: Recipe, reader: EpisodeReader) -> Layout:
    """Resolve a recipe on an open episode, its spans included; see `bind`."""
    keys = None if recipe.span_selection is None else {*reader.annotation_keys, *reader.structure_keys}
    return bind(recipe, reader.meta, span_keys=keys)


def _there(meta: EpisodeMeta) -> str:
    """List what an episode has, without masks and stamps."""
    kept = [key for key, spec in sorted(meta.features.items()) if spec.dtype.startswith("float")]
    more = f" and {len(kept) - 12} more" if len(kept) > 12 else ""
    return f"it has {', '.join(kept[:12]) or 'no numbers'}{more}, cameras {', '.join(meta.cameras) or '(none)'}"


def _wrong_shapes(recipe: Recipe, meta: EpisodeMeta) -> Iterable[str]:
    for key, shapes in sorted(_shapes(recipe).items()):
        found = meta.features[key].shape
        if (found not in shapes) if shapes else len(found) != 1:
            expected = " or ".join(map(str, shapes)) or "(D,)"
            yield f"{key}: expected rows of shape {expected}, got {found}"


def _wrong_frames(recipe: Recipe, meta: EpisodeMeta) -> Iterable[str]:
    """Say where stored poses are in another coordinate frame than the recipe takes them for."""
    for spec in (recipe.action, recipe.proprio):
        expected = {"head": "world", "world": "world", "base": "base"}.get(spec.coordinate_frame)
        if expected is None:
            continue
        for key in (f"{side}.{spec.feature}" for side in SIDES):
            found = meta.features[key].coordinate_frame
            if found not in (expected, ""):
                yield f"{key}: expected poses in the {expected}, got the {found}"
    if recipe.action_layout.body == "human" and meta.hand_frame_convention == "unknown":
        yield "hand_frame_convention: expected a declared one, got unknown (ingest it again with --declare)"


def _missing_spans(recipe: Recipe, span_keys: Iterable[str] | None) -> Iterable[str]:
    selection = recipe.span_selection
    if selection is None or span_keys is None or selection.absent == "leave_out":
        return
    known = sorted(span_keys)
    if selection.key not in known:
        yield f"missing spans {selection.key} (it has {', '.join(known) or 'none'})"
