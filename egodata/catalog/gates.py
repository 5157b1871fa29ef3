"""Gates: what has to hold of a dataset when it is frozen, and again whenever it is loaded."""

from collections.abc import Callable, Iterable

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.errors import GateError
from egodata.schema.ids import sorted_ids

SHOWN = 5


def check_gates(manifest: Manifest) -> None:
    """Run every structural gate of a dataset.

    Heads are non-empty, sorted and disjoint; no recording, no media digest and, where the rule groups by it, no session or operator
    is in two heads; held-out operators are absent from train and seen; every pin is inside its head.

    Raises:
        GateError: One line per failing gate, each naming the first five of what fails and how many there are.
    """
    problems = [*_heads(manifest), *_leaks(manifest), *_held_out(manifest), *_pins(manifest)]
    if problems:
        raise GateError(f"dataset {manifest.ref}: " + "; ".join(problems))


def some(names: Iterable[str]) -> str:
    """List the first of some names, sorted, and say how many more there are."""
    listed = sorted_ids(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def _heads(manifest: Manifest) -> Iterable[str]:
    if "train" not in manifest.heads:
        yield "no head train, expected one"
    for head, members in manifest.heads.items():
        ids = [episode.episode_id for episode in members]
        if not ids:
            yield f"head {head} is empty, expected at least one episode; widen the rule or change its ratio"
        if ids != sorted_ids(set(ids)):
            yield f"head {head}: ids are not sorted and distinct; freeze the rule again"


def leak_kinds(manifest: Manifest) -> dict[str, Callable[[HeadEpisode], str | None]]:
    """Return what no two heads may share, and how an episode's value is read: None counts for nothing."""
    group_by = manifest.rule.get("group_by")
    kinds: dict[str, Callable[[HeadEpisode], str | None]] = {
        "episode": lambda e: e.episode_id,
        "recording": lambda e: e.recording,
        "media digest": lambda e: e.media or None,
    }
    if group_by == "session":
        kinds["session"] = lambda e: e.session
    if group_by == "operator":
        kinds["operator"] = lambda e: e.operator
    return kinds


def _leaks(manifest: Manifest) -> Iterable[str]:
    for kind, value_of in leak_kinds(manifest).items():
        yield from _in_two_heads(manifest, kind, value_of)


def _in_two_heads(manifest: Manifest, kind: str, value_of: Callable[[HeadEpisode], str | None]) -> Iterable[str]:
    first: dict[str, tuple[str, str]] = {}
    pairs = []
    for head, members in manifest.heads.items():
        for episode in members:
            value = value_of(episode)
            if value is None:
                continue
            other_head, other = first.setdefault(value, (head, episode.episode_id))
            if other_head != head:
                pairs.append(f"{other} ({other_head}) and {episode.episode_id} ({head})")
    if pairs:
        yield f"{len(pairs)} pairs of episodes in two heads share one {kind}: {some(pairs)}; exclude one of each or group them"


def _held_out(manifest: Manifest) -> Iterable[str]:
    apart = set(manifest.held_out_operators)
    for head in ("train", "seen"):
        bad = [e.episode_id for e in manifest.heads.get(head, ()) if e.operator in apart]
        if bad:
            yield f"head {head} holds {len(bad)} episodes of held-out operators: {some(bad)}; freeze the rule again"
    outside = [e.episode_id for e in manifest.heads.get("unseen_operator", ()) if e.operator not in apart]
    if outside:
        yield f"head unseen_operator holds {len(outside)} episodes of other operators: {some(outside)}; freeze the rule again"


def _pins(manifest: Manifest) -> Iterable[str]:
    where = {episode.episode_id: head for head, members in manifest.heads.items() for episode in members}
    for head, pins in manifest.pins.items():
        for pin in pins:
            found = where.get(pin)
            if found != head:
                place = f"it is in {found}" if found else "it is in no head"
                yield f"pin {pin} of head {head}: {place}; move or remove the pin"
