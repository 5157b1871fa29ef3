"""Who is held back for validation: two pure functions over keys, and what the key of a recording is."""

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction

from egodata.catalog.rows import CatalogRow
from egodata.errors import ConfigError, GateError
from egodata.schema.ids import sorted_ids

DEFAULT_SEED = 42


def shuffle_v1(keys: Iterable[str], ratio: float, *, seed: int = DEFAULT_SEED) -> list[str]:
    """Choose validation keys by one seeded shuffle of the sorted keys.

    Adding one key reshuffles all, hence frozen manifests; `hash_v1` is the alternative that is stable under growth.

    Args:
        keys: Distinct keys, in any order.
        ratio: Share to hold back, 0 to 1. ``int(n * ratio)`` is float arithmetic on purpose: 100 at 0.29 gives 28.
        seed: Seed of `random.Random`.

    Returns:
        The validation keys in shuffled order; at least one where `ratio` > 0 and there is a key.

    >>> shuffle_v1([f"ep{i:04d}" for i in range(20)], 0.05)
    ['ep0019']
    """
    shuffled = sorted_ids(keys)
    random.Random(seed).shuffle(shuffled)
    count = int(len(shuffled) * ratio)
    return shuffled[: max(1, count) if ratio > 0 else 0]


def hash_v1(keys: Iterable[str], ratio: float, *, seed: int = DEFAULT_SEED) -> list[str]:
    """Choose validation keys one by one, so that a key never moves when others come or go.

    A key is held back when u < ratio, where u is the first 8 bytes, big-endian, of SHA-256 of ``"{seed}:{key}"``, over 2^64.
    Both sides are exact fractions; the ratio is the decimal that was written (0.05 is 1/20).

    Args:
        keys: Distinct keys, in any order.
        ratio: Share to hold back, 0 to 1. There is no minimum: the result may be empty.
        seed: Part of what is hashed.

    Returns:
        The validation keys, sorted.

    >>> hash_v1(["a", "b"], 1.0)
    ['a', 'b']
    """
    threshold = Fraction(repr(ratio)) * 2**64
    return [key for key in sorted_ids(keys) if hash64(f"{seed}:{key}") < threshold]


def hash64(text: str) -> int:
    """Return the first 8 bytes, big-endian, of SHA-256 of a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


ALGORITHMS: dict[str, Callable[..., list[str]]] = {"shuffle-v1": shuffle_v1, "hash-v1": hash_v1}


def split_keys(rows: Iterable[CatalogRow]) -> dict[str, str]:
    """Return the key that stands for each episode's recording, by episode id.

    A recording that holds exactly one clip, and that one aliased, is known by the clip's episode id; every other by its recording id.

    Args:
        rows: The whole catalog, so that a filter cannot change how many clips a recording holds.
    """
    clips: dict[tuple[str, str], list[CatalogRow]] = defaultdict(list)
    for row in rows:
        clips[row.vendor, row.recording_id].append(row)
    keys: dict[str, str] = {}
    for members in clips.values():
        alone = len(members) == 1 and members[0].aliased
        keys |= {row.episode_id: row.episode_id if alone else row.recording_id for row in members}
    return keys


def check_split_keys(rows: Iterable[CatalogRow], keys: dict[str, str]) -> None:
    """Refuse two recordings under one key.

    Raises:
        GateError: Naming both recordings.
    """
    owners: dict[str, CatalogRow] = {}
    for row in rows:
        other = owners.setdefault(keys[row.episode_id], row)
        if (other.vendor, other.recording_id) != (row.vendor, row.recording_id):
            raise GateError(
                f"split key {keys[row.episode_id]}: shared by recordings {other.recording_id} ({other.vendor}) and "
                f"{row.recording_id} ({row.vendor}), expected one. Rename one recording or exclude one."
            )


def group_keys(rows: Iterable[CatalogRow], keys: dict[str, str], *, group_by: str, allow_null: bool = False) -> dict[str, str]:
    """Return what each episode is split by, by episode id.

    Args:
        rows: Episodes to split.
        keys: Their recordings' keys, from `split_keys`.
        group_by: ``recording``, ``session`` or ``operator``.
        allow_null: Whether a recording without session or operator is a group of its own.

    Raises:
        ConfigError: Another `group_by`.
        GateError: Grouping by session or operator, and an episode has none; or a recording's key is also a session's name.
    """
    if group_by == "recording":
        return {row.episode_id: keys[row.episode_id] for row in rows}
    if group_by not in ("session", "operator"):
        raise ConfigError(f"group_by {group_by!r}: expected recording, session or operator")
    groups = {row.episode_id: row.session if group_by == "session" else row.operator for row in rows}
    unknown = sorted_ids(episode for episode, group in groups.items() if group is None)
    if unknown and allow_null:
        alone = {episode: keys[episode] for episode in unknown}
        return _joined(groups, alone, group_by)
    if unknown:
        raise GateError(
            f"group_by {group_by}: {len(unknown)} episodes have no {group_by} ({', '.join(unknown[:5])}). "
            f"Exclude them, import a registry, set allow_null_session, or group by recording."
        )
    return {episode: group for episode, group in groups.items() if group is not None}


def _joined(groups: dict[str, str | None], alone: dict[str, str], group_by: str) -> dict[str, str]:
    known = {episode: group for episode, group in groups.items() if group is not None}
    shared = sorted_ids(set(known.values()) & set(alone.values()))
    if shared:
        raise GateError(f"group_by {group_by}: {shared[0]} is the key of a recording and the name of a {group_by}. Exclude or rename one.")
    return {**known, **alone}
