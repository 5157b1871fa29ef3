"""HDF5 files of a delivery: opened without following a link out of it, read whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from egodata.vendors.base import Notes
from egodata.vendors.extras import require

MAX_VALUES = 10**8
"""A data set of numbers with more values than this is damaged: a day at 30 Hz has 2.6 million rows."""

DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
"""What h5py raises where a file is cut off or its structure is damaged."""


@contextmanager
def open_hdf5(path: Path, *, vendor: str, notes: Notes) -> Iterator[Any]:
    """Open a file for reading.

    Args:
        path: The file.
        vendor: Whose it is, for the message where the library is missing.
        notes: Where a refusal goes.

    Yields:
        An `h5py.File`.

    Raises:
        SetAside: The file is empty, cut off or no HDF5.
        MissingExtraError: h5py is not installed.
    """
    h5py = require("h5py", extra="hdf5", vendor=vendor)
    try:
        file = h5py.File(path, "r", locking=False)
    except DAMAGED as error:
        notes.refuse(
            "hdf5-unreadable",
            f"{path.name}: {path.stat().st_size} bytes, no readable HDF5 ({_short(error)}). Ask for the file again.",
            stream=path.name,
        )
    with file:
        yield file


def find_dataset(file: Any, name: str, *, notes: Notes) -> Any:
    """Return a dataset by path, or None where there is none.

    Raises:
        SetAside: The path leads out of the file (an external link, external or virtual storage), or the structure is damaged.
    """
    h5py = require("h5py", extra="hdf5", vendor="hdf5")
    node = file
    try:
        for part in name.split("/"):
            if not isinstance(node, h5py.Group) or part not in node:
                link = node.get(part, getlink=True) if isinstance(node, h5py.Group) else None
                if not isinstance(link, h5py.ExternalLink):
                    return None
            if isinstance(node.get(part, getlink=True), h5py.ExternalLink):
                _leads_out(file, name, "an external link", notes)
            node = node[part]
        if not isinstance(node, h5py.Dataset):
            return None
        if node.external is not None or node.is_virtual:
            _leads_out(file, name, "external or virtual storage", notes)
    except DAMAGED as error:
        _damaged(file, name, error, notes)
    return node


def read_numbers(file: Any, name: str, *, notes: Notes) -> NDArray[np.float64] | None:
    """Read a dataset of numbers whole, as float64; None where there is none.

    Raises:
        SetAside: It holds something else, leads out of the file, or cannot be read to its end.
    """
    dataset = find_dataset(file, name, notes=notes)
    if dataset is None:
        return None
    if dataset.dtype.kind not in "fiu":
        notes.refuse(
            "hdf5-unusable",
            f"{_name(file)}: {name} holds {dataset.dtype}, expected numbers. Ask for the file again.",
            stream=name,
        )
    if dataset.size is None or dataset.size > MAX_VALUES:
        _damaged(file, name, ValueError(f"{dataset.size} values"), notes)
    try:
        return np.asarray(dataset[()], np.float64)
    except DAMAGED as error:
        _damaged(file, name, error, notes)


def attribute_text(file: Any, name: str) -> str:
    """Return a root attribute as text, several texts joined by commas; empty where it is absent, unreadable or no text."""
    try:
        value = file.attrs.get(name)
    except DAMAGED:
        return ""
    parts = list(value.reshape(-1)) if isinstance(value, np.ndarray) else [value]
    texts = [part.decode("utf-8", errors="replace") if isinstance(part, bytes) else part for part in parts]
    return ", ".join(str(part) for part in texts if isinstance(part, (str, int, np.integer)) and str(part).strip())


def _leads_out(file: Any, name: str, how: str, notes: Notes) -> NoReturn:
    notes.refuse(
        "path-escape", f"{_name(file)}: {name} leads out of the file by {how}, not followed. Deliver the data itself.", stream=name
    )


def _damaged(file: Any, name: str, error: Exception, notes: Notes) -> NoReturn:
    notes.refuse("hdf5-unreadable", f"{_name(file)}: {name} cannot be read ({_short(error)}). Ask for the file again.", stream=name)


def _name(file: Any) -> str:
    return Path(str(file.filename)).name


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
