"""MPS tables: named columns of large delimited files, read without holding the rest in memory."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from egodata.vendors.base import Notes
from egodata.vendors.tables import DELIMITERS

_HEAD_BYTES = 1 << 16
_ENCODINGS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of one file: time stamps as integers, the others as float64 with NaN for an empty cell."""

    name: str
    stamps: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]

    def stack(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return columns side by side (N, len(names))."""
        return np.stack([self.values[name] for name in names], axis=-1)


def read_columns(path: Path, stamp: str, *, wanted: Sequence[str], notes: Notes) -> Columns:
    """Read a time column and number columns of a table with a header line.

    Args:
        path: The file; UTF-8 or UTF-16 with a byte order mark, CRLF, padded header names, `;` and decimal commas are read.
        stamp: Name of the column of whole microseconds.
        wanted: Names of number columns.
        notes: Told of rows left out.

    Raises:
        SetAside: 0 bytes, no such columns, or cells that are no numbers.
    """
    head, encoding = _head(path, notes)
    delimiter = max(DELIMITERS, key=head.count)
    header = [name.strip().strip('\ufeff"') for name in head.split(delimiter)]
    missing = [name for name in (stamp, *wanted) if name not in header]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        _refuse(path, f"no column {missing[0]}{more}, it has {', '.join(header[:4])}, ...", notes=notes)
    ragged: list[int] = []

    def skip(row: Any) -> str:
        ragged.append(row.number or 0)
        return "skip"

    comma = "," if delimiter == ";" else "."
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=header, skip_rows=1, encoding=encoding, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip),
            convert_options=csv.ConvertOptions(
                include_columns=[stamp, *wanted],
                column_types={stamp: pa.int64(), **dict.fromkeys(wanted, pa.float64())},
                null_values=["", "nan", "NaN", "NAN"],
                decimal_point=comma,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
        _refuse(path, " ".join(str(error).split())[:200], notes=notes)
    if len(ragged) > table.num_rows:
        _refuse(path, f"{len(ragged)} rows do not have the header's {len(header)} cells", notes=notes)
    if ragged:
        notes.add("rows-ragged", f"{path.name}: {len(ragged)} rows without the header's {len(header)} cells; left out", stream=path.name)
    if table[stamp].null_count:
        _refuse(path, f"{stamp}: {table[stamp].null_count} rows without a time", notes=notes)
    return Columns(path.name, table[stamp].to_numpy(), {name: table[name].to_numpy().astype(np.float64) for name in wanted})


def header_of(path: Path, notes: Notes) -> list[str]:
    """Return a table's column names.

    Raises:
        SetAside: 0 bytes, or not text.
    """
    head, _ = _head(path, notes)
    return [name.strip().strip('\ufeff"') for name in head.split(max(DELIMITERS, key=head.count))]


def _head(path: Path, notes: Notes) -> tuple[str, str]:
    with path.open("rb") as file:
        data = file.read(_HEAD_BYTES)
    encoding = _ENCODINGS.get(data[:2], "utf8")
    first = data.decode(encoding if encoding != "utf8" else "utf-8-sig", "replace").lstrip("\r\n").splitlines()
    if not first or not first[0].strip():
        notes.refuse("csv-empty", f"{path.name}: {path.stat().st_size} bytes without any text. Ask for the file again.", stream=path.name)
    return first[0], encoding


def _refuse(path: Path, why: str, *, notes: Notes) -> NoReturn:
    notes.refuse("csv-unreadable", f"{path.name}: {why}. Ask for the file again.", stream=path.name)
