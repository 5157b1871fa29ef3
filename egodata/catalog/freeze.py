"""Freeze a dataset: apply a rule to the catalog once, gate the result, and keep it for ever."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from egodata import __version__
from egodata.catalog.assign import assign
from egodata.catalog.caps import ValidShares, read_valid_shares
from egodata.catalog.datasets import diff_manifests
from egodata.catalog.gates import check_gates
from egodata.catalog.known import load_known
from egodata.catalog.lineage import parent_note
from egodata.catalog.manifest import Manifest, head_episode, manifest_bytes, manifest_digest, manifest_from_bytes
from egodata.catalog.rows import CatalogRow, catalog_from_lance, catalog_from_store
from egodata.catalog.rules import DatasetRule, checked_rule, matches, rule_identity
from egodata.errors import ConflictError, InputError
from egodata.formats import open_store
from egodata.schema.canonical import jsonable
from egodata.schema.layout import StorePaths, require_writable, write_once


@dataclass(frozen=True, slots=True)
class Frozen:
    """What freezing gave.

    Attributes:
        manifest: The dataset, as it lies in the store.
        path: Its file.
        created: False where the same content was frozen under this version before.
    """

    manifest: Manifest
    path: Path
    created: bool


def build_manifest(
    rows: Sequence[CatalogRow], rule: DatasetRule, *, provenance: Mapping[str, Any], shares: ValidShares | None = None
) -> Manifest:
    """Apply a rule to a catalog and gate the result; nothing is written.

    Args:
        rows: The whole catalog, in any order.
        rule: Its `version` is used as it is.
        provenance: Kept beside the identity; what the rule left out is added to it.
        shares: Valid shares by episode, for rules with `min_valid_share`.

    Raises:
        ConfigError: The rule makes no sense.
        GateError: The rule cannot be applied to this catalog, or the result fails a gate.
    """
    rule = checked_rule(rule, where=f"rule {rule.name}")
    result = assign(rows, rule, shares=shares)
    counts = {"catalog_episodes": len(rows), "left_out": result.left_out, "absent_exclusions": list(result.absent_exclusions)}
    draft = Manifest(
        name=rule.name,
        version=rule.version,
        digest="",
        heads={head: tuple(head_episode(row) for row in members) for head, members in result.heads.items()},
        pins=result.pins,
        provenance=jsonable({**provenance, **counts}),
        rule=jsonable(rule_identity(rule)),
        seed=rule.seed,
        held_out_operators=result.held_out_operators,
    )
    check_gates(draft)
    return replace(draft, digest=manifest_digest(draft))


def freeze(
    paths: StorePaths,
    rule: DatasetRule,
    *,
    version: str | None = None,
    format: str = "lance",
    provenance: Mapping[str, Any] | None = None,
    gate: Callable[[Manifest], Mapping[str, Any]] | None = None,
) -> Frozen:
    """Freeze a rule as a dataset of a store.

    Args:
        paths: The store.
        rule: What to select and how to split it.
        version: Used instead of the rule's own.
        format: Whose catalog is read, ``lance`` or ``zarr``; both give the same digest. With lance its tables are tagged.
        provenance: Extra values to record, such as run ids.
        gate: Looks at the manifest before anything is written: raises to refuse it, and returns what its provenance should say besides.

    Returns:
        The manifest; `created` is False where equal content was frozen under this version before.

    Raises:
        ConfigError: The rule makes no sense.
        GateError: The rule cannot be applied to this catalog, or the result fails a gate.
        ConflictError: Other content is frozen under this version; the message shows the difference.
    """
    require_writable(paths)
    rows, versions = _catalog(paths, format)
    known = load_known(paths)
    rows = known.overlay(rows)
    noted: dict[str, Any] = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "egodata": __version__, "format": format}
    if versions is not None:
        noted["lance_versions"] = versions
    if known.digest:
        noted["catalog_known"] = known.digest
    rule = rule if version is None else replace(rule, version=version)
    shares = _shares(paths, rows, rule, format=format, versions=versions)
    manifest = build_manifest(rows, rule, provenance={**(provenance or {}), **noted}, shares=shares)
    if gate is not None:
        manifest = replace(manifest, provenance={**manifest.provenance, **jsonable(dict(gate(manifest)))})
    path = paths.manifest(manifest.name, manifest.version)
    if not path.exists():
        manifest = replace(manifest, provenance={**manifest.provenance, **parent_note(paths, manifest)})
    created = write_once(path, manifest_bytes(manifest))
    if not created:
        manifest = _same_or_refuse(path, manifest)
    if versions is not None:
        from egodata.formats.lance import tag_dataset

        tag_dataset(paths, manifest.digest, versions=versions)  # these hold the contents; an earlier tag stays as it is
    return Frozen(manifest, path, created)


def _catalog(paths: StorePaths, format: str) -> tuple[list[CatalogRow], dict[str, int] | None]:
    if format == "lance":
        from egodata.formats.lance import table_versions  # lance is loaded only where its copy is read

        versions = table_versions(paths)
        return catalog_from_lance(paths, versions=versions), versions
    if format != "zarr":
        raise InputError(f"format {format!r}: expected zarr or lance")
    return catalog_from_store(open_store(paths, format)), None


def _shares(
    paths: StorePaths, rows: Sequence[CatalogRow], rule: DatasetRule, *, format: str, versions: dict[str, int] | None
) -> dict[str, dict[str, float]]:
    if not rule.min_valid_share:
        return {}
    wanted = [row for row in rows if matches(row, rule.where) and row.n_frames >= rule.min_frames]
    return read_valid_shares(open_store(paths, format, versions=versions), wanted, rule=rule)


def _same_or_refuse(path: Path, manifest: Manifest) -> Manifest:
    existing = manifest_from_bytes(path.read_bytes(), where=f"dataset {manifest.ref}")
    if existing.digest != manifest.digest:
        lines = "; ".join(diff_manifests(existing, manifest).lines())
        raise ConflictError(
            f"dataset {manifest.ref}: already frozen with digest {existing.digest[:16]}, this would be {manifest.digest[:16]} ({lines}). "
            f"Freeze it as another version."
        )
    return existing
