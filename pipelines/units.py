"""What one partition of the recording assets stands for: a recording, or a shard of a delivery that is too large for that.

A delivery is cut into shards when it is first seen with more than `SHARD_ABOVE` recordings, into a number of shards that never changes
afterwards (``ledger/shards.json``); a recording falls into one by a hash of its id. So a delivery that grows moves nothing. The truth
per episode stays where it is for single recordings: in the ingest ledger, the quarantine and the history of checks.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from egodata.errors import InputError
from egodata.ingest import observe, observe_refused
from egodata.names import nearest
from egodata.schema.canonical import json_digest
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths, write_atomic
from egodata.vendors import Discovery
from pipelines.deliveries import Delivery, deliveries

log = logging.getLogger(__name__)

SHARD_ABOVE_VARIABLE = "EGO_SHARD_ABOVE"
SHARD_ABOVE = 10_000
"""A delivery with more recordings than this is treated in shards. Pages of the UI show 20,000 partitions in about a second, but choosing
all of them in the materialise dialog takes the browser time that grows with their square: 0.7 s of CPU at 10,000, 2.1 s at 20,000."""
SHARD_SIZE = 500
_PREFIX = "shard."
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Unit:
    """One partition.

    Attributes:
        key: Partition key: the recording's id, or ``shard.<delivery>.<8 hex>.<number>``, which no recording can be called.
        delivery: Whose recordings it holds.
        recordings: Their ids, sorted.
        version: Data version by size and mtime of their files; empty where nobody looked.
    """

    key: str
    delivery: Delivery
    recordings: tuple[str, ...]
    version: str = ""


def is_shard(key: str) -> bool:
    """Say whether a partition key names a shard; ids of recordings have no full stop."""
    return key.startswith(_PREFIX)


def shard_key(delivery: Delivery, number: int) -> str:
    """Return the key of one shard of a delivery; different deliveries never share one, whatever their names."""
    digest = json_digest([delivery.vendor, delivery.raw, delivery.dataset, delivery.delivery])[:8]
    name = _UNSAFE.sub("_", delivery.delivery or delivery.folder.name)[:40]
    return f"{_PREFIX}{name}.{digest}.{number:05d}"


def shard_of(recording: str, count: int) -> int:
    """Return which of `count` shards a recording is in: a function of its id alone."""
    return int.from_bytes(hashlib.sha256(recording.encode()).digest()[:8], "big") % count


def shard_above() -> int:
    """Return from how many recordings on a delivery is cut; ``EGO_SHARD_ABOVE`` overrules the shipped number.

    Raises:
        InputError: It is not a whole number of at least 1.
    """
    text = os.environ.get(SHARD_ABOVE_VARIABLE, str(SHARD_ABOVE))
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{SHARD_ABOVE_VARIABLE}={text!r}: expected a whole number of at least 1")
    return int(text)


def _counts_file(paths: StorePaths) -> dict[str, int]:
    path = paths.ledger / "shards.json"
    if not path.exists():
        return {}
    try:
        return {str(name): int(count) for name, count in json.loads(path.read_text()).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{path}: damaged ({error}). Restore it from a backup: it says which recordings a shard holds.") from error


def _shard_counts(paths: StorePaths, found: Iterable[tuple[Delivery, Discovery]]) -> dict[str, int]:
    """Return into how many shards each delivery is cut, 0 for none; what is seen for the first time is settled now."""
    known, above = _counts_file(paths), shard_above()
    settled = dict(known)
    for delivery, discovery in found:
        size = len(discovery.recordings)
        if size:
            settled.setdefault(shard_key(delivery, 0), -(-size // SHARD_SIZE) if size > above else 0)
    if settled != known:
        write_atomic(paths.ledger / "shards.json", json.dumps(settled, indent=1, sort_keys=True).encode() + b"\n")
    return settled


def look(paths: StorePaths) -> Iterator[tuple[Delivery, Discovery]]:
    """Discover every registered delivery, oldest first; one that is gone or unreadable is logged and left out."""
    for delivery in deliveries(paths):
        try:
            yield delivery, delivery.discover()
        except (InputError, OSError) as error:
            log.warning("registered delivery left out: %s", error)


def units(paths: StorePaths, *, only: Collection[str] | None = None, versions: bool = True) -> dict[str, Unit]:
    """Return every partition that the registered deliveries make, by key.

    A recording that several deliveries hold belongs to the newest, which is the correction. What a vendor's discovery refuses is a
    partition too, so that it shows as failed, with its reason, instead of nowhere.

    Args:
        paths: The store.
        only: Only these keys; all by default.
        versions: Whether to look at sizes and mtimes; without it `Unit.version` is empty.

    Raises:
        InputError: The registry or the list of shards is damaged.
    """
    found = list(look(paths))
    counts = _shard_counts(paths, found)
    owner: dict[str, tuple[str, Delivery, Discovery]] = {}
    for delivery, discovery in found:
        count = counts.get(shard_key(delivery, 0), 0)
        for recording in (*(ref.id for ref in discovery.recordings), *observe_refused(discovery)):
            key = shard_key(delivery, shard_of(recording, count)) if count else recording
            owner[recording] = (key, delivery, discovery)
    members: dict[str, list[str]] = {}
    for recording, (key, _, _) in owner.items():
        if only is None or key in only:
            members.setdefault(key, []).append(recording)
    seen = _versions(owner, [name for names in members.values() for name in names]) if versions else {}
    made = {}
    for key in sorted_ids(members):
        names = sorted_ids(members[key])
        version = "" if not versions else seen[names[0]] if not is_shard(key) else json_digest([[name, seen[name]] for name in names])
        made[key] = Unit(key, owner[names[0]][1], tuple(names), version)
    return made


def _versions(owner: dict[str, tuple[str, Delivery, Discovery]], wanted: list[str]) -> dict[str, str]:
    groups: dict[int, tuple[Discovery, list[str]]] = {}
    for recording in wanted:
        discovery = owner[recording][2]
        groups.setdefault(id(discovery), (discovery, []))[1].append(recording)
    seen: dict[str, str] = {}
    for discovery, names in groups.values():
        seen |= observe_refused(discovery) | observe(discovery, only=names)
    return seen


def units_for(paths: StorePaths, keys: Iterable[str]) -> tuple[list[Unit], dict[str, str]]:
    """Return the partitions of a run, and why the others of its keys are none: no delivery holds them any more."""
    wanted = list(keys)
    known = units(paths, only=set(wanted), versions=False)
    gone = {
        key: f"recording {key}: no registered delivery holds it; {nearest(key, known)}. Deliver it again, or leave it out."
        for key in wanted
        if key not in known
    }
    return [known[key] for key in wanted if key in known], gone
