"""Reading parquet so that everything that a damaged file can do is one kind of error."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(path: Path, *, columns: list[str] | None = None, filters: Any = None) -> pa.Table:
    """Read a table whose column names are text.

    Args:
        path: The file.
        columns: Only these; all without.
        filters: As pyarrow has them.

    Raises:
        pa.ArrowException: Not parquet, damaged, without such a column, or with names that are no UTF-8.
        OSError: It cannot be read.
    """
    try:
        table = pq.read_table(path, columns=columns, filters=filters)
        table.column_names  # noqa: B018  names and texts are decoded only when they are asked for
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"a column name is no UTF-8 ({error})") from error
    return table
