"""Frozen datasets in a store: load by name and version, list, compare."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from egodata.catalog.gates import SHOWN, check_gates
from egodata.catalog.manifest import HeadEpisode, Manifest, manifest_from_bytes
from egodata.catalog.presence import SAMPLED, check_present
from egodata.catalog.withdrawn import require_not_withdrawn
from egodata.errors import GateError, NotFoundError
from egodata.formats import open_store
from egodata.names import nearest
from egodata.schema.ids import dataset_ref, sorted_ids
from egodata.schema.layout import StorePaths


def load_dataset(paths: StorePaths, ref: str | Path, *, format: str | None = None, sample: int | None = SAMPLED) -> Manifest:
    """Load a frozen dataset, check its digest and run its gates again.

    Args:
        paths: The store.
        ref: ``name@version``, or the path of a manifest.
        format: The copy that will be read: its episodes are opened at their recorded contents. None opens nothing.
        sample: How many episodes to open; None opens all. See `check_present`.

    Raises:
        SchemaError: A name without version, or ``latest``.
        NotFoundError: No such dataset; the message lists the nearest.
        GateError: The manifest was changed, is not the one asked for, fails a gate, or an episode is gone.
    """
    if isinstance(ref, Path) or ref.endswith(".json"):
        path, asked = Path(ref), None
    else:
        name, version = dataset_ref(ref)
        path, asked = paths.manifest(name, version), f"{name}@{version}"
    if not path.is_file():
        known = [f"{name}@{version}" for name, version, _ in list_datasets(paths)]
        raise NotFoundError(f"dataset {ref}: not frozen in this store; {nearest(str(ref), known)}")
    manifest = manifest_from_bytes(path.read_bytes(), where=f"dataset {asked or path.name}")
    if asked is not None and manifest.ref != asked:
        raise GateError(f"dataset {asked}: the file there is {manifest.ref}. Put it back in its own folder.")
    require_not_withdrawn(path, where=f"dataset {manifest.ref}")
    check_gates(manifest)
    if format is not None:
        check_present(manifest, open_store(paths, format, versions=manifest.lance_versions), sample=sample)
    return manifest


def list_datasets(paths: StorePaths) -> list[tuple[str, str, str]]:
    """Return (name, version, digest) of every frozen dataset, sorted. Unreadable ones have the digest ``unreadable``."""
    found = []
    for path in paths.datasets.glob("*/*/manifest.json"):
        try:
            digest = str(json.loads(path.read_bytes())["digest"])
        except (ValueError, KeyError, TypeError):
            digest = "unreadable"
        found.append((path.parent.parent.name, path.parent.name, digest))
    return sorted(found, key=lambda item: (item[0].encode(), item[1].encode()))


@dataclass(frozen=True, slots=True)
class ManifestDiff:
    """How one dataset differs from another, ids sorted.

    Attributes:
        added: (head, id) only in the second.
        removed: (head, id) only in the first.
        moved: (id, head in the first, head in the second).
        changed: Ids in the same or another head with another content, length, recording, operator or session.
        settings: One line per difference in rule, seed, pins or held-out operators.
    """

    added: tuple[tuple[str, str], ...]
    removed: tuple[tuple[str, str], ...]
    moved: tuple[tuple[str, str, str], ...]
    changed: tuple[str, ...]
    settings: tuple[str, ...]

    def lines(self, limit: int = SHOWN) -> list[str]:
        """Return one line per kind of difference: the count, and the first `limit`; none if equal."""
        kinds = {
            "added": [f"{episode} ({head})" for head, episode in self.added],
            "removed": [f"{episode} ({head})" for head, episode in self.removed],
            "moved": [f"{episode} ({before} -> {after})" for episode, before, after in self.moved],
            "changed": list(self.changed),
        }
        out = [f"{len(items)} {kind}: {_first(items, limit)}" for kind, items in kinds.items() if items]
        return [*out, *self.settings]


def _first(items: list[str], limit: int) -> str:
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def diff_manifests(before: Manifest, after: Manifest) -> ManifestDiff:
    """Compare what two frozen datasets hold; name, version and provenance do not count."""
    old, new = _placed(before), _placed(after)
    both = sorted_ids(old.keys() & new.keys())
    return ManifestDiff(
        added=tuple((new[episode][0], episode) for episode in sorted_ids(new.keys() - old.keys())),
        removed=tuple((old[episode][0], episode) for episode in sorted_ids(old.keys() - new.keys())),
        moved=tuple((episode, old[episode][0], new[episode][0]) for episode in both if old[episode][0] != new[episode][0]),
        changed=tuple(episode for episode in both if old[episode][1] != new[episode][1]),
        settings=tuple(_settings(before, after)),
    )


def _placed(manifest: Manifest) -> dict[str, tuple[str, HeadEpisode]]:
    return {episode.episode_id: (head, episode) for head, members in manifest.heads.items() for episode in members}


def _settings(before: Manifest, after: Manifest) -> Iterable[str]:
    pairs: dict[str, tuple[object, object]] = {
        "seed": (before.seed, after.seed),
        "pins": ({h: list(p) for h, p in before.pins.items()}, {h: list(p) for h, p in after.pins.items()}),
        "held-out operators": (list(before.held_out_operators), list(after.held_out_operators)),
    }
    for key in sorted({*before.rule, *after.rule}):
        pairs[f"rule.{key}"] = (before.rule.get(key), after.rule.get(key))
    for name, (old, new) in pairs.items():
        if old != new:
            yield f"{name}: {old} -> {new}"
