"""Apply a rule to the catalog: which episodes are selected, and which head each one goes to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from egodata.catalog.caps import ValidShares, cap_episodes, valid_enough
from egodata.catalog.rows import CatalogRow
from egodata.catalog.rules import DatasetRule, HeldOutRule, PinCount, matches
from egodata.catalog.splits import ALGORITHMS, check_split_keys, group_keys, split_keys
from egodata.errors import GateError
from egodata.names import nearest
from egodata.schema.ids import sorted_ids


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where every episode went.

    Attributes:
        heads: Rows of each head, sorted by id.
        pins: Episode ids per head.
        held_out_operators: Operators kept from training, sorted.
        left_out: Episodes not used, by reason; every catalog row is in a head or counted here.
        absent_exclusions: Excluded ids that the catalog does not hold.
    """

    heads: dict[str, tuple[CatalogRow, ...]]
    pins: dict[str, tuple[str, ...]]
    held_out_operators: tuple[str, ...]
    left_out: dict[str, int]
    absent_exclusions: tuple[str, ...]


def assign(rows: Sequence[CatalogRow], rule: DatasetRule, *, shares: ValidShares | None = None) -> Assignment:
    """Split a catalog by a rule; the order of `rows` does not matter.

    Args:
        rows: The whole catalog.
        rule: Checked, as `load_rule` returns it.
        shares: Valid shares by episode id, for rules with `min_valid_share`; an episode that is not there is left out.

    Raises:
        GateError: Nothing is selected, a held-out operator is unknown, an operator or session is missing, or two recordings share a key.
    """
    selected, left_out = _select(rows, rule, shares or {})
    if not selected:
        shown = ", ".join(f"{reason} {count}" for reason, count in sorted(left_out.items())) or "the catalog is empty"
        raise GateError(
            f"rule {rule.name}: no episode is selected of {len(rows)} ({shown}). Check `where` and min_frames, or ingest first."
        )
    keys = split_keys(rows)
    check_split_keys(selected, keys)
    selected = cap_episodes(selected, keys, rule=rule, left_out=left_out)
    held_out = _held_out(selected, rule)
    heads = _heads(selected, keys, held_out, rule)
    used = sum(len(members) for members in heads.values())
    if used != len(selected):
        left_out["held out, not a head"] = len(selected) - used
    known = {row.episode_id for row in rows}
    absent = sorted_ids(exclusion.id for exclusion in rule.exclusions if exclusion.id not in known)
    return Assignment(heads, _pins(heads, rule), held_out, dict(sorted(left_out.items())), tuple(absent))


def _select(rows: Sequence[CatalogRow], rule: DatasetRule, shares: ValidShares) -> tuple[list[CatalogRow], Counter[str]]:
    excluded = {exclusion.id: exclusion.reason for exclusion in rule.exclusions}
    left_out: Counter[str] = Counter()
    selected = []
    for row in sorted(rows, key=lambda row: row.episode_id.encode()):
        if not matches(row, rule.where):
            left_out["where"] += 1
        elif row.episode_id in excluded:
            left_out[f"excluded: {excluded[row.episode_id]}"] += 1
        elif row.n_frames < rule.min_frames:
            left_out["min_frames"] += 1
        elif not valid_enough(shares.get(row.episode_id, {}), rule.min_valid_share):
            left_out["min_valid_share"] += 1
        else:
            selected.append(row)
    return selected, left_out


def _held_out(selected: Sequence[CatalogRow], rule: DatasetRule) -> tuple[str, ...]:
    if not rule.holds_out:
        return ()
    unknown = [row.episode_id for row in selected if row.operator is None]
    if unknown and not rule.allow_null_operator:
        raise GateError(
            f"rule {rule.name}: {len(unknown)} episodes have no operator ({', '.join(unknown[:5])}), so held-out operators cannot be "
            f"kept from training. Exclude them, import a registry, or set allow_null_operator."
        )
    episodes = Counter(row.operator for row in selected if row.operator is not None)
    if rule.held_out is not None:
        return choose_held_out(episodes, rule.held_out, where=f"rule {rule.name}")
    for operator in rule.held_out_operators:
        if operator not in episodes:
            raise GateError(f"rule {rule.name}: held-out operator {operator!r} has no selected episode; {nearest(operator, episodes)}")
    return tuple(sorted_ids(rule.held_out_operators))


def choose_held_out(episodes: Counter[str], rule: HeldOutRule, *, where: str) -> tuple[str, ...]:
    """Choose held-out operators by size.

    Args:
        episodes: Number of selected episodes per operator.
        rule: How many, how large at least, which ones. Of an even remainder the ``middle`` is the lower one.
        where: Named in errors.

    Returns:
        The operators, sorted by name.

    Raises:
        GateError: Too few operators are large enough, or none would be left to train on.
    """
    ranked = sorted((name for name, count in episodes.items() if count >= rule.min_episodes), key=lambda n: (episodes[n], n.encode()))
    if len(ranked) < rule.count or len(episodes) <= rule.count:
        raise GateError(
            f"{where}: held_out wants {rule.count} of the operators with at least {rule.min_episodes} episodes and one more to train on, "
            f"got {len(ranked)} such of {len(episodes)}. Lower count or min_episodes, or ingest more operators."
        )
    start = {"middle": (len(ranked) - rule.count) // 2, "largest": len(ranked) - rule.count, "smallest": 0}[rule.pick]
    return tuple(sorted_ids(ranked[start : start + rule.count]))


def _heads(
    selected: Sequence[CatalogRow], keys: dict[str, str], held_out: tuple[str, ...], rule: DatasetRule
) -> dict[str, tuple[CatalogRow, ...]]:
    apart = set(held_out)
    inside = [row for row in selected if row.operator not in apart]
    groups = group_keys(inside, keys, group_by=rule.group_by, allow_null=rule.allow_null_session)
    seen = set(ALGORITHMS[rule.algorithm](set(groups.values()), rule.valid_ratio, seed=rule.seed))
    members = {
        "train": [row for row in inside if groups[row.episode_id] not in seen],
        "seen": [row for row in inside if groups[row.episode_id] in seen],
        "unseen_operator": [row for row in selected if row.operator in apart],
    }
    return {head: tuple(members[head]) for head in rule.heads}


def _pins(heads: dict[str, tuple[CatalogRow, ...]], rule: DatasetRule) -> dict[str, tuple[str, ...]]:
    pins: dict[str, tuple[str, ...]] = {}
    for head in rule.heads:
        wanted = rule.pins.get(head)
        if isinstance(wanted, PinCount):
            pins[head] = tuple(row.episode_id for row in heads[head][: wanted.count])
        elif wanted is not None:
            pins[head] = wanted
    return pins
