"""Which episodes a sampled check looks at: spread over vendors and operators, and others every day."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeVar

from egodata.catalog.rows import CatalogRow
from egodata.schema.ids import sorted_ids

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Choice:
    """A rotating sample of episodes.

    Attributes:
        count: How many.
        day: The sample moves on by `count` from day to day, so that all episodes have had their turn after about (all / count) days.
    """

    count: int
    day: date


def choose_episodes(rows: Iterable[CatalogRow], choice: Choice, *, seed: int) -> list[str]:
    """Choose episodes: every (vendor, operator) gets its share, at least one while there are enough to give.

    Args:
        rows: Episodes to choose from.
        choice: How many, for which day.
        seed: Decides the order in which the episodes of an operator take their turns.

    Returns:
        Ids, sorted. The same for equal arguments, whatever the order of `rows`.
    """
    strata: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        strata[row.vendor, row.operator or ""].append(row.episode_id)
    ordered = {key: sorted(ids, key=lambda name: _hash(f"{seed}:{name}")) for key, ids in strata.items()}
    turn = choice.day.toordinal()
    if choice.count >= len(strata):
        quotas = _quotas({key: len(ids) for key, ids in ordered.items()}, choice.count)
        return sorted_ids(name for key, ids in ordered.items() for name in _turn(ids, quotas[key], turn * quotas[key]))
    keys = sorted(ordered, key=lambda key: _hash(f"{seed}:{key[0]}/{key[1]}"))
    chosen = _turn(keys, choice.count, turn * choice.count)
    rounds = turn * choice.count // len(keys)
    return sorted_ids(ordered[key][rounds % len(ordered[key])] for key in chosen)


def _turn(items: Sequence[T], count: int, start: int) -> list[T]:
    return [items[(start + place) % len(items)] for place in range(min(count, len(items)))]


def _quotas(sizes: dict[tuple[str, str], int], count: int) -> dict[tuple[str, str], int]:
    """Give each stratum one, and the rest by size: always to the stratum with the most episodes per place so far."""
    quotas = dict.fromkeys(sorted(sizes), 1)
    for _ in range(min(count, sum(sizes.values())) - len(sizes)):
        most = max((key for key in quotas if quotas[key] < sizes[key]), key=lambda key: (sizes[key] / quotas[key], key))
        quotas[most] += 1
    return quotas


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
