"""Feature keys as Lance columns, and arrays as Arrow columns, both ways without loss.

A key's dots become double underscores: ``left.obs_ee_pose`` <-> ``left__obs_ee_pose``. Keys never contain ``__``, so the way back
is unique. Where a table already has that column with another dtype or width (two robots with different joint counts), or keeps the name
for itself (``index``), the column's name carries its own: ``obs_joints:float32x14``. Keys never contain ``:`` either.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from egodata.errors import CorruptEpisodeError, SchemaError
from egodata.formats.lance.tables import FRAMES, SCHEMAS
from egodata.schema.features import FeatureSpec

ARROW = {
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int64": pa.int64(),
    "int32": pa.int32(),
    "uint8": pa.uint8(),
    "bool": pa.bool_(),
}
_KEY, _SHAPE = b"egodata.key", b"egodata.shape"


def column_name(key: str) -> str:
    """Return the plain column of a feature key.

    >>> column_name("left.obs_ee_pose")
    'left__obs_ee_pose'
    """
    return key.replace(".", "__")


def key_of(column: str) -> str:
    """Return the feature key of a column, a variant's included.

    >>> key_of("left__obs_joints:float32x14")
    'left.obs_joints'
    """
    return column.partition(":")[0].replace("__", ".")


def arrow_type(spec: FeatureSpec, *, where: str) -> pa.DataType:
    """Return the Arrow type of a feature's row: a scalar, or one flat fixed-size list in C order.

    Raises:
        SchemaError: A dtype that episodes do not use.
    """
    scalar = ARROW.get(spec.dtype)
    if scalar is None:
        raise SchemaError(f"{where}: dtype {spec.dtype!r}, expected one of {', '.join(ARROW)}. Cast it at ingest.")
    return pa.list_(scalar, math.prod(spec.shape)) if spec.shape else scalar


def _field(name: str, key: str, spec: FeatureSpec) -> pa.Field:
    metadata = {
        _KEY: key.encode(),
        _SHAPE: ",".join(map(str, spec.shape)).encode(),
        b"egodata.unit": spec.unit.encode(),
        b"egodata.coordinate_frame": spec.coordinate_frame.encode(),
    }
    return pa.field(name, arrow_type(spec, where=f"feature {key}"), metadata=metadata)


def feature_column(columns: Mapping[str, pa.DataType], key: str, *, spec: FeatureSpec) -> str:
    """Return the column that holds a feature: the plain one unless something else sits there.

    Args:
        columns: Type by column name, of the table as it is.
        key: Feature key.
        spec: What the episode says about it.
    """
    plain = column_name(key)
    wanted = arrow_type(spec, where=f"feature {key}")
    if plain not in SCHEMAS[FRAMES].names and columns.get(plain, wanted) == wanted:
        return plain
    return f"{plain}:{spec.dtype}x{math.prod(spec.shape)}"


def missing_fields(schema: pa.Schema, features: Iterable[Mapping[str, FeatureSpec]]) -> list[pa.Field]:
    """Return the columns that a frames table lacks for some episodes, sorted by key; in order of episodes where types differ.

    Args:
        schema: The table's.
        features: Numeric features per episode, in id order, so that a rebuilt store makes the same choice.
    """
    columns = {field.name: field.type for field in schema}
    found: dict[str, pa.Field] = {}
    for specs in features:
        for key, spec in specs.items():
            name = feature_column(columns, key, spec=spec)
            if name not in columns:
                columns[name] = arrow_type(spec, where=f"feature {key}")
                found[name] = _field(name, key, spec)
    return [found[name] for name in sorted(found)]


def to_column(array: NDArray[Any], wanted: pa.DataType, *, where: str) -> pa.Array:
    """Return rows (T, ...) as one Arrow column; NaN stays NaN, nothing becomes null.

    Raises:
        SchemaError: The array's dtype or row shape is not the column's.
    """
    inner = wanted.value_type if pa.types.is_fixed_size_list(wanted) else wanted
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    width = wanted.list_size if pa.types.is_fixed_size_list(wanted) else 1
    if flat.type != inner or len(flat) != len(array) * width:
        raise SchemaError(f"{where}: array {array.dtype.name} {array.shape}, column {wanted}. The episode's features do not describe it.")
    return pa.FixedSizeListArray.from_arrays(flat, width) if pa.types.is_fixed_size_list(wanted) else flat


def from_column(column: pa.ChunkedArray, spec: FeatureSpec, *, where: str) -> NDArray[Any]:
    """Return one Arrow column as a fresh array (T, ...).

    Raises:
        CorruptEpisodeError: A row is null, or the type is not the feature's.
    """
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
    if found.type != arrow_type(spec, where=where) or found.null_count:
        raise CorruptEpisodeError(f"{where}: column {found.type} with {found.null_count} nulls, expected {spec.dtype} {spec.shape}")
    rows = len(found)
    values = found.flatten() if spec.shape else found
    return np.array(values.to_numpy(zero_copy_only=False)).reshape((rows, *spec.shape))


def null_column(wanted: pa.DataType, rows: int) -> pa.Array:
    """Return a column of nulls: a feature that this episode does not have."""
    return pa.nulls(rows, wanted)
