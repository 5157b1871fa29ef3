"""Limits of a rule that look at an operator, a task or an episode's masks: caps, and the least share of valid frames."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from egodata.catalog.rows import CatalogRow
from egodata.catalog.rules import DatasetRule
from egodata.catalog.splits import hash64
from egodata.episode import EpisodeStore
from egodata.schema.features import valid_key

ValidShares = Mapping[str, Mapping[str, float]]
"""Episode id -> feature -> share of the frames at which its mask is set."""


def cap_episodes(rows: Sequence[CatalogRow], keys: Mapping[str, str], *, rule: DatasetRule, left_out: Counter[str]) -> list[CatalogRow]:
    """Keep at most so many episodes of each operator, then of each task, as the rule says.

    Which ones is decided by SHA-256 of ``"{seed}:{key}"`` of their recordings, smallest first, then by id: an episode that comes or
    goes elsewhere changes nothing, and one that comes here pushes out one at most. Unknown operators are counted as one.

    Args:
        rows: Selected episodes.
        keys: Their recordings' keys.
        rule: With its caps and seed.
        left_out: Told how many were left out, by cap.

    Returns:
        What is kept, sorted by id.
    """
    ranked = sorted(rows, key=lambda row: (hash64(f"{rule.seed}:{keys[row.episode_id]}"), row.episode_id.encode()))
    limits: list[tuple[str, int | None, Callable[[CatalogRow], str | None]]] = [
        ("max_per_operator", rule.max_per_operator, lambda row: row.operator),
        ("max_per_task", rule.max_per_task, lambda row: row.task_name),
    ]
    for name, cap, group_of in limits:
        if cap is None:
            continue
        taken: Counter[str | None] = Counter()
        kept = []
        for row in ranked:
            taken[group_of(row)] += 1
            if taken[group_of(row)] <= cap:
                kept.append(row)
        if len(kept) < len(ranked):
            left_out[name] += len(ranked) - len(kept)
        ranked = kept
    return sorted(ranked, key=lambda row: row.episode_id.encode())


def valid_enough(shares: Mapping[str, float], wanted: Mapping[str, float]) -> bool:
    """Say whether every feature is valid in the share of frames that is wanted of it."""
    return all(shares.get(feature, 0.0) >= least for feature, least in wanted.items())


def read_valid_shares(store: EpisodeStore, rows: Sequence[CatalogRow], *, rule: DatasetRule) -> dict[str, dict[str, float]]:
    """Read the masks that a rule's `min_valid_share` asks for.

    Args:
        store: Either format; both give the same.
        rows: Episodes to look at, at the contents that the catalog names.
        rule: Names the features. Without `min_valid_share` nothing is read.

    Returns:
        By episode id; a feature that an episode lacks, or that has no mask, is not there.
    """
    if not rule.min_valid_share:
        return {}
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        reader = store.open(row.episode_id, content=row.content)
        masks = {feature: valid_key(feature) for feature in rule.min_valid_share if valid_key(feature) in reader.meta.features}
        arrays = reader.rows(tuple(masks.values()), [(0, row.n_frames)] * len(masks))
        found[row.episode_id] = {feature: float(np.count_nonzero(arrays[mask])) / row.n_frames for feature, mask in masks.items()}
        reader.close()
    return found
