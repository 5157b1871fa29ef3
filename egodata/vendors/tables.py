"""Delimited text as vendors really send it: byte order marks, CRLF, padded names, `;`, decimal commas, cut lines."""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egodata.errors import InputError

DELIMITERS = (",", ";", "\t")


class TableError(InputError):
    """A table cannot be read; `code` is that of the finding to make."""

    code = "csv-unreadable"


class EmptyTableError(TableError):
    """The file has 0 bytes."""

    code = "csv-empty"


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells as text, by column.

    Attributes:
        name: File name.
        header: Column names, stripped, in lower case.
        rows: Complete rows, cells stripped.
        ragged: Rows left out because they had another number of cells than the header.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ragged: int = 0

    def column(self, *names: str) -> tuple[str, ...] | None:
        """Return the cells of the first of these columns that exists, or None."""
        for name in names:
            if name in self.header:
                at = self.header.index(name)
                return tuple(row[at] for row in self.rows)
        return None

    def require(self, *names: str) -> tuple[str, ...]:
        """Return the cells of a column, under any of its names.

        Raises:
            TableError: None of them exists; the message lists the columns that do.
        """
        found = self.column(*names)
        if found is None:
            raise TableError(f"{self.name}: no column {' or '.join(names)}, it has {', '.join(self.header)}. Ask for the file again.")
        return found


def read_text(path: Path) -> str:
    """Decode a text file: UTF-8 with or without a byte order mark, UTF-16 with one.

    Raises:
        EmptyTableError: 0 bytes, or only white space.
        TableError: Another encoding.
    """
    data = path.read_bytes()
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise TableError(f"{path.name}: not UTF-8 (byte {error.start}). Ask for the file as UTF-8.") from error
    if not text.strip():
        raise EmptyTableError(f"{path.name}: {len(data)} bytes without any text. Ask for the file again.")
    return text


def read_table(path: Path) -> TextTable:
    """Read a delimited file with a header line; the delimiter is the one most frequent in the header.

    Raises:
        EmptyTableError: 0 bytes.
        TableError: Not text, or most rows do not fit the header.
    """
    text = read_text(path)
    first = text.lstrip("\r\n").splitlines()[0]
    delimiter = max(DELIMITERS, key=first.count)
    try:
        lines = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise TableError(f"{path.name}: not a table ({error}). Ask for the file again.") from error
    header = tuple(name.strip().strip("\ufeff").lower() for name in lines[0])
    rows = tuple(tuple(cell.strip() for cell in row) for row in lines[1:])
    complete = tuple(row for row in rows if len(row) == len(header))
    ragged = len(rows) - len(complete)
    if ragged > len(complete):
        wrong = next(row for row in rows if len(row) != len(header))
        raise TableError(
            f"{path.name}: {ragged} of {len(rows)} rows do not have the header's {len(header)} cells (one has {len(wrong)}); "
            "decimal commas without `;` look so. Ask for decimal points."
        )
    return TextTable(path.name, header, complete, ragged)


def numbers(cells: tuple[str, ...], *, where: str) -> NDArray[np.float64]:
    """Read cells as numbers; an empty cell, NaN and infinity become NaN; one decimal comma counts as a point.

    Raises:
        TableError: A cell is not a number; the message names the row.
    """
    out = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            value = float(cell.replace(",", ".") if cell.count(",") == 1 and "." not in cell else cell) if cell else math.nan
        except ValueError as error:
            raise TableError(f"{where}: row {row + 1} holds {cell[:40]!r}, expected a number. Ask for the file again.") from error
        out[row] = value if math.isfinite(value) else math.nan
    return out


def integers(cells: tuple[str, ...], *, where: str) -> NDArray[np.int64]:
    """Read cells as whole numbers; `12.0` is one.

    Raises:
        TableError: A cell is empty or has a fraction; the message names the row.
    """
    values = numbers(cells, where=where)
    bad = np.flatnonzero(~(values == np.rint(values)) | (np.abs(values) > 2**53))
    if len(bad):
        raise TableError(f"{where}: row {bad[0] + 1} holds {cells[bad[0]][:40]!r}, expected a whole number. Ask for the file again.")
    return values.astype(np.int64)
