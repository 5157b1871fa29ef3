"""Importing a registry's export: a table with one row per episode, such as the public EgoVerse table as CSV or Parquet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from egodata.catalog.known import REGISTRY_SCHEMA, load_known, registry_operator, save_registry
from egodata.catalog.rows import CatalogRow
from egodata.errors import InputError
from egodata.findings import Finding, Severity
from egodata.names import nearest
from egodata.schema.layout import StorePaths, require_writable

NAMES: Mapping[str, tuple[str, ...]] = {
    "episode_id": ("episode_hash", "episode_id"),
    "operator": ("operator",),
    "task": ("task", "task_name"),
    "scene": ("scene",),
    "lab": ("lab",),
    "embodiment": ("embodiment", "robot_name"),
    "num_frames": ("num_frames", "n_frames"),
    "is_deleted": ("is_deleted",),
}
"""Where each value is looked for in the export; the first name that is there counts."""
_NOTHING = ("", "null", "NULL", "None", "nan", "NaN")
_TRUTH = {"true": True, "t": True, "1": True, "1.0": True, "false": False, "f": False, "0": False, "0.0": False}


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did.

    Attributes:
        rows: Episodes in the file.
        matched: How many of them the catalog has.
        unlisted: Episodes of the catalog that the registry, with this file, says nothing about.
        ignored: Columns of the file that are not used.
        findings: Where the registry disagrees with the episodes.
    """

    rows: int
    matched: int
    unlisted: int
    ignored: tuple[str, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "rows": self.rows,
            "matched": self.matched,
            "unlisted": self.unlisted,
            "ignored": list(self.ignored),
            "findings": [finding.to_json() for finding in self.findings],
        }


def import_registry(paths: StorePaths, file: Path, *, rows: Sequence[CatalogRow]) -> Imported:
    """Take a registry's export into a store's catalog; episodes that it names again get the new values.

    Args:
        paths: The store.
        file: ``.csv`` or ``.parquet``.
        rows: The catalog as the vendors gave it, without a registry over it.

    Raises:
        InputError: Not such a file, no column with episode ids, a row without an id or an id twice, or a value that does not fit.
    """
    require_writable(paths)
    table, ignored = read_registry(file)
    findings = [finding for row, entry in _pairs(rows, table) for finding in _disagreements(row, entry, file.name)]
    before = load_known(paths).registry
    stays = before.filter(pc.invert(pc.is_in(before["episode_id"], value_set=table["episode_id"].combine_chunks())))
    merged = pa.concat_tables([stays, table]).combine_chunks()
    save_registry(paths, merged)
    named, listed = set(table["episode_id"].to_pylist()), set(merged["episode_id"].to_pylist())
    matched = sum(row.episode_id in named for row in rows)
    return Imported(len(named), matched, sum(row.episode_id not in listed for row in rows), ignored, tuple(findings))


def read_registry(file: Path) -> tuple[pa.Table, tuple[str, ...]]:
    """Read an export.

    Returns:
        Columns of `REGISTRY_SCHEMA`, and the names of the file's columns that are not used.

    Raises:
        InputError: As `import_registry`.
    """
    raw = _read(file)
    places = {name: next((one for one in wanted if one in raw.column_names), None) for name, wanted in NAMES.items()}
    if places["episode_id"] is None:
        raise InputError(f"registry {file.name}: no column episode_hash or episode_id; {nearest('episode_hash', raw.column_names)}")
    columns = [_column(raw, places[field.name], field, file.name) for field in REGISTRY_SCHEMA]
    table = pa.Table.from_arrays(columns, schema=REGISTRY_SCHEMA)
    ids = table["episode_id"]
    if ids.null_count:
        raise InputError(
            f"registry {file.name}: {ids.null_count} of {len(ids)} rows have no {places['episode_id']}. Remove or complete them."
        )
    counts = pc.value_counts(ids)
    twice = [entry["values"] for entry in counts.to_pylist() if entry["counts"] > 1]
    if twice:
        raise InputError(f"registry {file.name}: {len(twice)} episodes are listed twice, first {sorted(twice)[0]}. Keep one row of each.")
    return table, tuple(name for name in raw.column_names if name not in places.values())


def _read(file: Path) -> pa.Table:
    try:
        if file.suffix == ".parquet":
            return pq.read_table(file)
        if file.suffix == ".csv":
            names = pc_csv.open_csv(file).schema.names
            text = pc_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=list(_NOTHING), strings_can_be_null=True
            )
            return pc_csv.read_csv(file, convert_options=text)
    except FileNotFoundError as error:
        raise InputError(f"registry {file}: no such file") from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"registry {file.name}: cannot be read ({' '.join(str(error).split())[:160]}).") from error
    raise InputError(f"registry {file.name}: expected a .csv or .parquet file.")


def _column(raw: pa.Table, name: str | None, wanted: pa.Field, file: str) -> pa.Array:
    if name is None:
        return pa.nulls(raw.num_rows, wanted.type)
    found = raw[name].combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
    try:
        if pa.types.is_string(found.type) or pa.types.is_large_string(found.type):
            found = found.cast(pa.string())
            found = pc.if_else(pc.is_in(found, value_set=pa.array(_NOTHING)), pa.scalar(None, pa.string()), pc.utf8_trim_whitespace(found))
            if pa.types.is_boolean(wanted.type):
                return pa.array([None if text is None else _TRUTH[text.lower()] for text in found.to_pylist()], wanted.type)
            if pa.types.is_integer(wanted.type):
                return pc.cast(pc.cast(found, pa.float64()), wanted.type)  # exports of tables with gaps write 300.0
        if pa.types.is_boolean(wanted.type) and not pa.types.is_boolean(found.type):
            return pa.array([None if value is None else _TRUTH[str(value).lower()] for value in found.to_pylist()], wanted.type)
        return found.cast(wanted.type)
    except (pa.ArrowException, KeyError) as error:
        raise InputError(f"registry {file}: column {name}: expected {wanted.type}, got {error}. Correct the export.") from error


def _pairs(rows: Sequence[CatalogRow], table: pa.Table) -> Iterable[tuple[CatalogRow, Mapping[str, Any]]]:
    entries = {entry["episode_id"]: entry for entry in table.to_pylist()}
    return ((row, entries[row.episode_id]) for row in rows if row.episode_id in entries)


def _disagreements(row: CatalogRow, entry: Mapping[str, Any], file: str) -> Iterable[Finding]:
    operator = None if entry["operator"] is None else registry_operator(row.vendor, entry["operator"])
    pairs = (
        ("operator", row.operator, operator, "The registry's is used in filters."),
        ("task", row.task_name or None, entry["task"], "The registry's is used in filters."),
        ("embodiment", row.embodiment or None, entry["embodiment"], "The episode's is used."),
        ("num_frames", row.n_frames, entry["num_frames"], "The episode's is used; look whether it was cut or its video is damaged."),
    )
    for name, own, said, what in pairs:
        if said is None or own is None or own == said:
            continue
        message = f"episode {row.episode_id}: {name} is {own} in the episode, {said} in registry {file}. {what}"
        yield Finding(
            f"registry-{name.replace('_', '-')}", Severity.WARNING, row.episode_id, message, name,
            expected=str(own), got=str(said), content=row.content,
        )  # fmt: skip
