"""What is known about episodes from elsewhere: a registry's values, and licence and consent of deliveries.

Neither is part of an episode's content. They lie in ``catalog/`` of the store, are laid over the catalog of either format in the same
way, and win in filters; the vendor's own operator and task stay beside them as ``vendor_operator`` and ``vendor_task``.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from egodata.catalog.rows import CatalogRow
from egodata.errors import CorruptEpisodeError, InputError
from egodata.names import nearest
from egodata.schema.canonical import canonical_json, sha256_hex
from egodata.schema.layout import StorePaths, write_atomic

REGISTRY_FILE, TERMS_FILE = "registry.parquet", "terms.json"
REGISTRY_SCHEMA = pa.schema(
    [
        pa.field("episode_id", pa.string(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("operator", "task", "scene", "lab", "embodiment")),
        pa.field("num_frames", pa.int64()),
        pa.field("is_deleted", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a delivery may be used for.

    Attributes:
        licence: Name of the licence, or None where nobody said.
        consent: What the recorded people agreed to, or None.
    """

    licence: str | None = None
    consent: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """Registry and terms of a store.

    Attributes:
        registry: Columns of `REGISTRY_SCHEMA`, one row per episode, sorted by id.
        terms: By ``vendor/delivery``.
        digest: Over both; empty where there is neither.
    """

    registry: pa.Table
    terms: Mapping[str, Terms] = field(default_factory=dict)
    digest: str = ""

    def overlay(self, rows: Iterable[CatalogRow]) -> list[CatalogRow]:
        """Lay what is known over catalog rows, in their order."""
        registry = {entry["episode_id"]: entry for entry in self.registry.to_pylist()}
        return [_overlaid(row, registry.get(row.episode_id), self.terms.get(f"{row.vendor}/{row.delivery}")) for row in rows]


def _overlaid(row: CatalogRow, entry: Mapping[str, Any] | None, terms: Terms | None) -> CatalogRow:
    changes: dict[str, Any] = {}
    if terms is not None:
        changes |= {"licence": terms.licence, "consent": terms.consent}
    if entry is not None:
        changes |= {"scene": entry["scene"], "lab": entry["lab"], "deleted": bool(entry["is_deleted"])}
        if entry["operator"] is not None:
            changes["operator"] = registry_operator(row.vendor, entry["operator"])
        if entry["task"] is not None:
            changes["task_name"] = entry["task"]
        changes["aliased"] = True  # a registry that lists an episode gave it its id
    return replace(row, **changes) if changes else row


def registry_operator(vendor: str, operator: str) -> str:
    """Qualify a registry's operator by vendor, as the catalog does; one that is qualified already stays.

    >>> registry_operator("mecka", "68ab"), registry_operator("mecka", "mecka/68ab")
    ('mecka/68ab', 'mecka/68ab')
    """
    return operator if operator.startswith(f"{vendor}/") else f"{vendor}/{operator}"


def load_known(paths: StorePaths) -> Known:
    """Read registry and terms of a store; empty ones where nothing was imported.

    Raises:
        CorruptEpisodeError: A file cannot be read.
    """
    registry, terms = paths.catalog / REGISTRY_FILE, paths.catalog / TERMS_FILE
    parts = []
    table, found = REGISTRY_SCHEMA.empty_table(), {}
    try:
        if registry.exists():
            data = registry.read_bytes()
            table = pq.read_table(pa.BufferReader(data)).cast(REGISTRY_SCHEMA)
            parts.append(sha256_hex(data))
        if terms.exists():
            data = terms.read_bytes()
            found = {name: Terms(**values) for name, values in json.loads(data).items()}
            parts.append(sha256_hex(data))
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        text = " ".join(str(error).split())[:160]
        raise CorruptEpisodeError(
            f"store {paths.root}: catalog/ cannot be read ({text}). Import the registry and set the terms again."
        ) from error
    return Known(table, found, sha256_hex(canonical_json(parts)) if parts else "")


def save_registry(paths: StorePaths, registry: pa.Table) -> None:
    """Write the registry of a store, as a whole."""
    sink = pa.BufferOutputStream()
    pq.write_table(registry.sort_by("episode_id"), sink)
    write_atomic(paths.catalog / REGISTRY_FILE, sink.getvalue().to_pybytes())


def set_terms(paths: StorePaths, delivery: str, *, terms: Terms, known_deliveries: Iterable[str]) -> None:
    """Say under which licence and consent a delivery came; None leaves a value as it was.

    Args:
        paths: The store.
        delivery: ``vendor/delivery``.
        terms: What is known.
        known_deliveries: Those of the catalog.

    Raises:
        InputError: No such delivery, or nothing to set.
    """
    deliveries = sorted(set(known_deliveries))
    if delivery not in deliveries:
        raise InputError(f"store {paths.root}: no delivery {delivery!r}; {nearest(delivery, deliveries)}. Name it as vendor/delivery.")
    if terms == Terms():
        raise InputError(f"delivery {delivery}: nothing to set. Give --licence, --consent or both.")
    all_terms = dict(load_known(paths).terms)
    before = all_terms.get(delivery, Terms())
    all_terms[delivery] = Terms(terms.licence or before.licence, terms.consent or before.consent)
    body = {name: {"licence": one.licence, "consent": one.consent} for name, one in sorted(all_terms.items())}
    write_atomic(paths.catalog / TERMS_FILE, json.dumps(body, indent=1, sort_keys=True).encode() + b"\n")
