"""Deliveries that are still being copied wait: news of a delivery count once a second look, some time later, finds exactly the same news.

What is remembered between looks is a digest and a time per delivery with news, nothing per recording, and until when to rest where a
look takes long. Losing it costs one more look.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from egodata.errors import InputError
from egodata.schema.canonical import json_digest
from pipelines.deliveries import Delivery
from pipelines.units import Unit

SETTLE_VARIABLE = "EGO_SETTLE_S"
SETTLE_S = 30.0
LONG_LOOK_S, REST_FACTOR, LONGEST_REST_S = 3.0, 10.0, 600.0
_REST = "rest"


def settle_s() -> float:
    """Return for how long news have to stay the same; ``EGO_SETTLE_S`` overrules the shipped number.

    Raises:
        InputError: It is not a number of at least 0.
    """
    text = os.environ.get(SETTLE_VARIABLE, str(SETTLE_S))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < 0:
        raise InputError(f"{SETTLE_VARIABLE}={text!r}: expected seconds, at least 0")
    return value


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the deliveries came to.

    Attributes:
        ready: Partitions to report now.
        waiting: Deliveries whose news changed since the last look, or were not seen for long enough.
        cursor: What the next look has to know.
    """

    ready: tuple[Unit, ...]
    waiting: tuple[Delivery, ...]
    cursor: str


def _name(delivery: Delivery) -> str:
    return json_digest([delivery.vendor, delivery.raw, delivery.dataset, delivery.delivery])[:16]


def _digest(news: Iterable[Unit]) -> str:
    return json_digest([[unit.key, unit.version] for unit in news])[:16]


def _remembered(cursor: str | None) -> Mapping[str, tuple[str, float]]:
    try:
        kept = {name: pair for name, pair in json.loads(cursor or "{}").items() if name != _REST}
        return {str(name): (str(digest), float(since)) for name, (digest, since) in kept.items()}
    except (ValueError, TypeError, AttributeError):
        return {}  # as after an upgrade: everything waits for one more look


def rested(cursor: str, *, begun_s: float, ended_s: float) -> str:
    """Return the cursor with a rest of ten times what the look took, so that looking at 100,000 recordings takes a tenth of a core.

    A look of less than three seconds needs none: the sensor's own interval is longer.
    """
    took_s = ended_s - begun_s
    if took_s < LONG_LOOK_S:
        return cursor
    return json.dumps({**json.loads(cursor), _REST: round(ended_s + min(REST_FACTOR * took_s, LONGEST_REST_S), 3)}, sort_keys=True)


def rest_left_s(cursor: str | None, *, now_s: float) -> float:
    """Return for how many seconds the next look can wait; 0 where it is due, or where the clock was set back."""
    try:
        left = float(json.loads(cursor or "{}").get(_REST, 0.0)) - now_s
    except (ValueError, TypeError, AttributeError):
        return 0.0
    return left if 0 < left <= LONGEST_REST_S else 0.0


def settled(cursor: str | None, news: Iterable[Unit], *, now_s: float, wait_s: float, limit: int) -> Look:
    """Say which news are complete deliveries.

    Args:
        cursor: What the last look left; None for the first.
        news: New and changed partitions of all deliveries.
        now_s: Time in unix seconds.
        wait_s: For how long news have to stay the same.
        limit: Most partitions to report at once; the others follow at the next look, without waiting again.
    """
    before, groups = _remembered(cursor), dict[Delivery, list[Unit]]()
    for unit in news:
        groups.setdefault(unit.delivery, []).append(unit)
    ready: list[Unit] = []
    waiting: list[Delivery] = []
    after: dict[str, tuple[str, float]] = {}
    for delivery, group in groups.items():
        digest, since = before.get(_name(delivery), ("", now_s))
        if digest != _digest(group):
            after[_name(delivery)] = (_digest(group), now_s)
            waiting.append(delivery)
        elif now_s - since < wait_s:
            after[_name(delivery)] = (digest, since)
            waiting.append(delivery)
        else:
            now, later = group[: limit - len(ready)], group[limit - len(ready) :]
            ready += now
            if later:
                after[_name(delivery)] = (_digest(later), since)
    return Look(tuple(ready), tuple(waiting), json.dumps(after, sort_keys=True))
