"""Finding episodes by a filter expression: SQL conditions, parsed and run by Lance's engine over the catalog's columns.

The catalog is one scan of the table `episodes`, with registry and terms laid over it column by column; nothing is opened per episode.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from egodata.catalog.known import Known, load_known
from egodata.errors import ConfigError, InputError
from egodata.formats.lance import table_versions
from egodata.formats.lance.tables import EPISODES, open_table, reading
from egodata.names import nearest
from egodata.schema.layout import StorePaths

_SAME = (
    *("episode_id", "recording_id", "clip_index", "vendor", "dataset", "delivery", "session", "task_name", "embodiment", "n_frames", "fps"),
    *("fps_num", "fps_den", "cameras", "annotation_keys", "content"),
)
_RENAMED = {"aliased": "clip_aliased", "media": "media_digest", "operator": "operator"}
COLUMNS = (*_SAME, *_RENAMED, "has_calibration", "vendor_operator", "vendor_task", "scene", "lab", "deleted", "licence", "consent")
"""Columns that an expression may name: those of `CatalogRow`, and `fps` as a number."""
SHOWN_VALUES = 5
_MADE_FROM = ("episode_id", "vendor", "delivery")
_MEMORY, _ROW = "memory://egodata-catalog", "egodata_row"
_TAKEN_ROWS = 500
"""Up to so many rows are taken one by one; more are scanned."""


def catalog_table(paths: StorePaths, *, versions: Mapping[str, int] | None = None) -> pa.Table:
    """Return the catalog as columns, sorted by episode id.

    Args:
        paths: The store.
        versions: Lance table versions; by default what the newest commit names.

    Raises:
        NotFoundError: The store has no Lance copy.
    """
    return _sorted(_laid_over(_scan(_episodes(paths, versions), COLUMNS), load_known(paths), COLUMNS))


def _episodes(paths: StorePaths, versions: Mapping[str, int] | None) -> lance.LanceDataset:
    return open_table(paths, EPISODES, version=(versions or table_versions(paths))[EPISODES])


def _scan(episodes: lance.LanceDataset, columns: Collection[str], rows: pa.Array | None = None) -> pa.Table:
    """Read what some columns of the catalog are made from, in stored order; only some rows where their positions are given."""
    base = {**{name: name for name in _SAME}, **_RENAMED, "has_calibration": "calibration IS NOT NULL"}
    wanted = {name: base[name] for name in base if name in {*columns, *_MADE_FROM}}
    if "vendor_operator" in columns:
        wanted["operator"] = base["operator"]
    if "vendor_task" in columns:
        wanted["task_name"] = base["task_name"]
    with reading(episodes):
        if rows is not None and len(rows) <= _TAKEN_ROWS:
            return episodes.take(rows.to_pylist(), columns=wanted).combine_chunks()
        table = episodes.to_table(columns=wanted)
        return (table if rows is None else table.take(rows)).combine_chunks()


def _sorted(table: pa.Table) -> pa.Table:
    return table.take(pc.sort_indices(table["episode_id"].cast(pa.binary())))


def _laid_over(table: pa.Table, known: Known, columns: Sequence[str]) -> pa.Table:
    """Do what `Known.overlay` does, on columns; only those asked for."""
    vendor, found = table["vendor"], {name: table[name] for name in table.column_names}
    at = pc.index_in(table["episode_id"], value_set=known.registry["episode_id"].combine_chunks())

    def said(name: str) -> pa.Array:
        return known.registry[name].combine_chunks().take(at)

    if "operator" in found:
        found["vendor_operator"] = _qualified(vendor, table["operator"])
        found["operator"] = pc.coalesce(_registry_operators(vendor, said("operator")), found["vendor_operator"])
    if "task_name" in found:
        found["vendor_task"], found["task_name"] = table["task_name"], pc.coalesce(said("task"), table["task_name"])
    if "aliased" in found:
        found["aliased"] = pc.or_(table["aliased"], pc.is_valid(at))
    found |= {"scene": said("scene"), "lab": said("lab"), "deleted": pc.fill_null(said("is_deleted"), False)}
    names = pa.array(list(known.terms), pa.string())
    place = pc.index_in(pc.binary_join_element_wise(vendor, table["delivery"], "/"), value_set=names)
    for name in ("licence", "consent"):
        found[name] = pa.array([getattr(terms, name) for terms in known.terms.values()], pa.string()).take(place)
    return pa.table({name: found[name] for name in columns})


def _qualified(vendor: pa.ChunkedArray, operator: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(vendor, operator, "/")


def _registry_operators(vendor: pa.ChunkedArray, operator: pa.Array) -> pa.ChunkedArray:
    return pc.if_else(_starts(operator, vendor), operator, _qualified(vendor, operator))


def _starts(operator: pa.Array, vendor: pa.ChunkedArray) -> pa.Array:
    """Say where an operator is qualified by its own vendor already."""
    found = pa.array([False] * len(operator))
    for name in pc.unique(vendor).to_pylist():
        found = pc.or_(found, pc.and_(pc.equal(vendor, name), pc.fill_null(pc.starts_with(operator, f"{name}/"), False)))
    return found


def find_episodes(paths: StorePaths, expression: str | None = None, *, versions: Mapping[str, int] | None = None) -> pa.Table:
    """Return the catalog's rows that an expression selects, sorted by episode id.

    Args:
        paths: The store.
        expression: SQL condition such as ``task_name = 'fold_clothes' AND n_frames > 100``; None for all rows.
        versions: Lance table versions; by default what the newest commit names.

    Raises:
        ConfigError: The expression cannot be parsed, or names a column that is not there.
        InputError: No episode matches; the message says what values there are.
        NotFoundError: The store has no Lance copy.
    """
    if expression is None:
        return catalog_table(paths, versions=versions)
    episodes, known = _episodes(paths, versions), load_known(paths)
    named = [name for name in COLUMNS if name in _words(expression) or name == "episode_id"]
    table = _laid_over(_scan(episodes, named), known, named)  # what the expression needs; the rest is read for what it finds
    rows = _run(table, expression)
    if len(rows) == 0:
        raise InputError(f"store {paths.root}: none of {table.num_rows} episodes matches `{expression}`. {_help(table, named, expression)}")
    return _sorted(_laid_over(_scan(episodes, COLUMNS, rows), known, COLUMNS))


def _words(expression: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"'[^']*'", " ", expression)))


def _run(table: pa.Table, expression: str) -> pa.Array:
    """Return the positions of the rows that an expression selects."""
    numbered = table.append_column(_ROW, pa.array(np.arange(table.num_rows)))
    # In brackets: the parser takes the longest condition that it can read and silently drops what is behind it.
    try:
        found = lance.write_dataset(numbered, _MEMORY).to_table(columns=[_ROW], filter=f"({expression}\n)")
        return found[_ROW].combine_chunks()
    except (ValueError, OSError, RuntimeError) as error:
        text = " ".join(str(error).split())
        unknown = re.search(r"No field named \"?(\w+(?:\.\w+)*)|[Cc]olumn \"?(\w+)\"? (?:does not exist|not found)", text)
        if unknown:
            name = unknown.group(1) or unknown.group(2)
            raise ConfigError(f"filter `{expression}`: no such column {name}; {nearest(name, COLUMNS)}") from error
        short = re.sub(r",? /home/\S+|SELECT 1 FROM t WHERE |Invalid user input: |LanceError\(\w+\): ", "", text)[:200].strip(" ,")
        raise ConfigError(f"filter `{expression}`: cannot be used ({short}). Write a SQL condition such as n_frames > 100.") from error


def _help(table: pa.Table, named: Sequence[str], expression: str) -> str:
    """Say which values the columns have that the expression names."""
    words, parts = _words(expression), []
    for name in named:
        if name not in words or table.num_rows == 0:
            continue
        column = table[name]
        if pa.types.is_string(column.type):
            counts = pc.value_counts(column).to_pylist()
            counts.sort(key=lambda entry: (-entry["counts"], str(entry["values"])))
            shown = ", ".join(f"{entry['values']} ({entry['counts']})" for entry in counts[:SHOWN_VALUES])
            more = f" and {len(counts) - SHOWN_VALUES} more" if len(counts) > SHOWN_VALUES else ""
            parts.append(f"{name} is {shown}{more}")
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            ends = pc.min_max(column).as_py()
            parts.append(f"{name} is {ends['min']:g} to {ends['max']:g}")
        elif pa.types.is_boolean(column.type):
            parts.append(f"{name} is true for {pc.sum(column).as_py() or 0}")
    return "; ".join(parts) + "." if parts else "Loosen it."
