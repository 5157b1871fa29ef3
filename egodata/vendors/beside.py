"""Recordings that are files: one HDF5 each, anywhere below the delivery, with an id made of their path."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from egodata.errors import InputError
from egodata.findings import Finding, Severity
from egodata.schema.ids import EPISODE_ID
from egodata.vendors.base import Discovery, RecordingRef, Refused, VendorOptions
from egodata.vendors.extras import require
from egodata.vendors.files import is_inside, present

SUFFIXES = (".hdf5", ".h5")
GROUND_TRUTH = "ground_truth"

Companions = Callable[[Path], tuple[Path, ...]]


def discover_files(delivery: Path, options: VendorOptions, *, vendor: str, companions: Companions) -> Discovery:
    """List the HDF5 files of a delivery as recordings.

    The id is ``<vendor>-<dataset>-<path>``: folders and stem, joined by ``-``.

    Args:
        delivery: The folder.
        options: Names the dataset.
        vendor: Its name.
        companions: Gives the other files of a recording, whether they exist or not.

    Raises:
        InputError: Not a folder, no such file in it, or a dataset name that cannot be part of an id.
        MissingExtraError: h5py is not installed.
    """
    require("h5py", extra="hdf5", vendor=vendor)
    if not delivery.is_dir():
        raise InputError(f"delivery {delivery}: not a folder. Point RAW at the folder that holds the HDF5 files.")
    if not EPISODE_ID.fullmatch(f"{vendor}-{options.dataset}"):
        raise InputError(f"dataset name {options.dataset!r}: ids need A-Z a-z 0-9 _ - only. Name it with --dataset.")
    recordings, refused = [], []
    for path in sorted(_files(delivery), key=lambda path: path.relative_to(delivery).as_posix().encode()):
        found = _recording(delivery, path, options, vendor=vendor, companions=companions)
        if isinstance(found, Refused):
            refused.append(found)
        else:
            recordings.append(found)
    if not recordings and not refused:
        raise InputError(f"delivery {delivery}: no recordings. Expected {' or '.join(SUFFIXES)} files in it or in folders below it.")
    return Discovery(tuple(sorted(recordings, key=lambda ref: ref.id.encode())), (), tuple(refused))


def _files(folder: Path) -> list[Path]:
    found = []
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and path.name != GROUND_TRUTH:
            found += _files(path)
        elif path.suffix.lower() in SUFFIXES:
            found.append(path)
    return found


def _recording(delivery: Path, path: Path, options: VendorOptions, *, vendor: str, companions: Companions) -> RecordingRef | Refused:
    relative = path.relative_to(delivery)
    name = "-".join([vendor, options.dataset, *relative.parent.parts, path.stem])
    files = (path, *companions(path))
    escaping = [file.name for file in files if not is_inside(delivery, file)]
    nothing: dict[str, tuple[Path, ...]] = {"media": (), "annotations": (), "calibration": ()}
    ref = RecordingRef(name, vendor, options.dataset, options.delivery, delivery, {**nothing, "media": present(*files)})
    if EPISODE_ID.fullmatch(name) and not escaping:
        return ref
    if escaping:
        code, why = "path-escape", f"{escaping[0]} leads out of the delivery by a link, not followed. Deliver the file itself."
    else:
        code, why = "id-invalid", f"makes the id {name[:80]!r}, expected 1 to 96 of A-Z a-z 0-9 _ -. Rename it."
    known = name if EPISODE_ID.fullmatch(name) else f"unnamed-{hashlib.sha256(relative.as_posix().encode()).hexdigest()[:12]}"
    unread = RecordingRef(known, vendor, options.dataset, options.delivery, delivery, nothing)
    return Refused(unread, (Finding(code, Severity.ERROR, known, f"{relative.as_posix()}: {why}"),))
