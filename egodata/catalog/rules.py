"""Rules of datasets: typed YAML that says which episodes, split how. A rule holds values only, never code."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from egodata.catalog.rows import CatalogRow
from egodata.catalog.splits import DEFAULT_SEED
from egodata.config import find_config, load_config, strict_config
from egodata.errors import ConfigError
from egodata.names import nearest
from egodata.schema.ids import HEADS, check_dataset_name, check_episode_id, check_feature_key, sorted_ids

Scalar = str | int | bool | None
Head = Literal["train", "seen", "unseen_operator"]

_TEXT_COLUMNS = ("episode_id", "recording_id", "vendor", "dataset", "delivery", "task_name", "embodiment", "content", "media")
FILTER_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXT_COLUMNS, (str,)),
    **dict.fromkeys(("operator", "session", "scene", "lab", "licence", "consent", "vendor_operator", "vendor_task"), (str, type(None))),
    **dict.fromkeys(("clip_index", "n_frames", "fps_num", "fps_den"), (int,)),
    **dict.fromkeys(("aliased", "has_calibration", "deleted"), (bool,)),
    **dict.fromkeys(("annotation_keys", "cameras"), (str,)),
}
"""Columns that `where` may name, with the types of their values. For the last two, one of the row's entries has to match."""

ADDED_FIELDS = ("allow_null_session", "min_valid_share", "max_per_operator", "max_per_task")
"""Fields of a rule that are left out of a dataset's identity where they say nothing."""


@strict_config
@dataclass(frozen=True, slots=True)
class HeldOutRule:
    """Chooses held-out operators by size, for sets whose operators are not known beforehand. Its choice is recorded in the manifest.

    Attributes:
        count: How many operators.
        min_episodes: Operators with fewer selected episodes are never chosen.
        pick: From operators ordered by (episodes, name): the ``middle`` ones, the ``largest`` or the ``smallest``.
    """

    count: int = 1
    min_episodes: int = 1
    pick: Literal["middle", "largest", "smallest"] = "middle"


@strict_config
@dataclass(frozen=True, slots=True)
class PinCount:
    """The first `count` episodes of a head, in its order; the manifest records their ids."""

    count: int


@strict_config
@dataclass(frozen=True, slots=True)
class Exclusion:
    """One episode left out, and why."""

    id: str
    reason: str


@strict_config
@dataclass(frozen=True, slots=True)
class DatasetRule:
    """Which episodes a dataset holds and how they are split.

    Attributes:
        name: Of the dataset.
        heads: Heads that it makes; ``train`` is always one of them. Only those exist.
        version: Used unless `freeze` is given another.
        where: Column -> value, or list of allowed values; all columns must match.
        held_out_operators: Qualified names (``mecka/6871...``); none of their episodes is trained on.
        held_out: Chooses them instead, by size.
        valid_ratio: Share of the remaining groups that becomes ``seen``.
        algorithm: ``shuffle-v1`` or ``hash-v1``.
        seed: Of the split.
        group_by: What is never divided between heads: ``recording``, ``session`` or ``operator``.
        allow_null_operator: Whether episodes of unknown operators may be used beside held-out ones.
        pins: Per head: episode ids in the order shown, or the first N.
        allow_null_session: Whether, grouping by session, a recording without one is a group of its own; else it is refused.
        min_frames: Shorter episodes are left out.
        min_valid_share: Feature -> share of an episode's frames that its mask must hold at least, such as ``{obs_head_pose: 0.9}``;
            an episode without the feature is left out.
        max_per_operator: Most episodes of one operator; see `egodata.catalog.caps`.
        max_per_task: Most episodes of one task.
        exclusions: Episodes left out, with reasons.
    """

    name: str
    heads: tuple[Head, ...]
    version: str = "v1"
    where: dict[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    held_out_operators: tuple[str, ...] = ()
    held_out: HeldOutRule | None = None
    valid_ratio: float = 0.05
    algorithm: Literal["shuffle-v1", "hash-v1"] = "shuffle-v1"
    seed: int = DEFAULT_SEED
    group_by: Literal["recording", "session", "operator"] = "recording"
    allow_null_operator: bool = False
    pins: dict[Head, tuple[str, ...] | PinCount] = field(default_factory=dict)
    min_frames: int = 1
    exclusions: tuple[Exclusion, ...] = ()
    allow_null_session: bool = False
    min_valid_share: dict[str, float] = field(default_factory=dict)
    max_per_operator: int | None = None
    max_per_task: int | None = None

    @property
    def holds_out(self) -> bool:
        """Whether some operators are kept from training."""
        return bool(self.held_out_operators) or self.held_out is not None


def load_rule(name: str) -> DatasetRule:
    """Read a rule that is shipped (by name) or one's own (by a path ending in .yaml).

    Raises:
        NotFoundError: No such rule; the message lists the nearest.
        ConfigError: A key, a type or a combination that makes no sense.
    """
    path = find_config("datasets", name)
    rule = load_config(path, DatasetRule)
    return checked_rule(rule, where=f"rule {path.name}")


def checked_rule(rule: DatasetRule, *, where: str = "rule") -> DatasetRule:
    """Check what types alone cannot, and put the heads in their fixed order.

    Raises:
        ConfigError: Naming the key, what was expected and what came.
    """
    check_dataset_name(rule.name)
    check_dataset_name(rule.version, "dataset version")
    for problem in (*_head_problems(rule), *_value_problems(rule), *_filter_problems(rule.where)):
        raise ConfigError(f"{where}: {problem}")
    return replace(rule, heads=tuple(head for head in HEADS if head in rule.heads))


def _head_problems(rule: DatasetRule) -> Iterable[str]:
    if "train" not in rule.heads or len(set(rule.heads)) != len(rule.heads):
        yield f"heads: expected each at most once and train among them, got {list(rule.heads)}"
    if ("seen" in rule.heads) != (rule.valid_ratio > 0):
        yield f"valid_ratio: expected above 0 exactly where heads has seen, got {rule.valid_ratio} with heads {list(rule.heads)}"
    if "unseen_operator" in rule.heads and not rule.holds_out:
        yield "heads: unseen_operator needs held_out_operators or held_out"
    if rule.held_out_operators and rule.held_out is not None:
        yield "held_out: give held_out_operators or held_out, not both"
    for head in rule.pins:
        if head not in rule.heads:
            yield f"pins.{head}: not among heads {list(rule.heads)}"


def _value_problems(rule: DatasetRule) -> Iterable[str]:
    if not 0 <= rule.valid_ratio < 1:
        yield f"valid_ratio: expected at least 0 and below 1, got {rule.valid_ratio}"
    if rule.min_frames < 1:
        yield f"min_frames: expected at least 1, got {rule.min_frames}"
    if rule.held_out is not None and min(rule.held_out.count, rule.held_out.min_episodes) < 1:
        yield f"held_out: expected count and min_episodes of at least 1, got {rule.held_out.count} and {rule.held_out.min_episodes}"
    for head, pins in rule.pins.items():
        if isinstance(pins, PinCount) and pins.count < 0:
            yield f"pins.{head}.count: expected at least 0, got {pins.count}"
        if not isinstance(pins, PinCount) and len(set(pins)) != len(pins):
            yield f"pins.{head}: an episode is named twice"
    for exclusion in rule.exclusions:
        check_episode_id(exclusion.id)
    yield from _limit_problems(rule)


def _limit_problems(rule: DatasetRule) -> Iterable[str]:
    for name, cap in (("max_per_operator", rule.max_per_operator), ("max_per_task", rule.max_per_task)):
        if cap is not None and cap < 1:
            yield f"{name}: expected at least 1, got {cap}"
    for feature, share in rule.min_valid_share.items():
        check_feature_key(feature)
        if not 0 < share <= 1:
            yield f"min_valid_share.{feature}: expected above 0 and at most 1, got {share}"
    if rule.allow_null_session and rule.group_by != "session":
        yield f"allow_null_session: only with group_by session, got {rule.group_by}"


def _filter_problems(where: Mapping[str, Any]) -> Iterable[str]:
    for column, wanted in where.items():
        types = FILTER_TYPES.get(column)
        if types is None:
            yield f"where.{column}: no such column; {nearest(column, FILTER_TYPES)}"
            continue
        values = wanted if isinstance(wanted, tuple) else (wanted,)
        bad = [value for value in values if type(value) not in types]
        if bad:
            yield f"where.{column}: expected {' or '.join(kind.__name__ for kind in types)}, got {bad[0]!r}"


def matches(row: CatalogRow, where: Mapping[str, Scalar | tuple[Scalar, ...]]) -> bool:
    """Say whether a row passes every filter of `where`."""
    for column, wanted in where.items():
        allowed = wanted if isinstance(wanted, tuple) else (wanted,)
        value = getattr(row, column)
        if isinstance(value, tuple):
            if not any(item in allowed for item in value):
                return False
        elif value not in allowed:
            return False
    return True


def rule_identity(rule: DatasetRule) -> dict[str, Any]:
    """Return a rule as plain values for the manifest: all but name, version and seed; what has no order is sorted.

    Fields that rules did not always have enter only where they are used, so that older digests stay.
    """
    values = asdict(rule)
    for key in ("name", "version", "seed"):
        del values[key]
    for key in ADDED_FIELDS:
        if not values[key]:
            del values[key]
    values["where"] = {key: sorted(_listed(value), key=repr) for key, value in rule.where.items()}
    values["held_out_operators"] = sorted_ids(rule.held_out_operators)
    values["exclusions"] = sorted(values["exclusions"], key=lambda item: str(item["id"]).encode())
    return values


def _listed(value: Scalar | tuple[Scalar, ...]) -> list[Scalar]:
    return list(value) if isinstance(value, tuple) else [value]
