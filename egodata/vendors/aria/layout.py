"""An Aria delivery on disk: VRS files, and MPS output beside them or alone."""

import hashlib
from pathlib import Path

from egodata.errors import InputError
from egodata.findings import Finding, Severity
from egodata.schema.ids import EPISODE_ID
from egodata.vendors.base import Discovery, RecordingRef, Refused, VendorOptions
from egodata.vendors.beside import GROUND_TRUTH
from egodata.vendors.files import is_inside

HANDS = "hand_tracking"
TRACKS = ("slam", "trajectory")
HAND_FILES = ("hand_tracking_results.csv", "hand_tracking_results_v2.csv", "hand_tracking_results_v1.csv")
WRIST_FILES = ("wrist_and_palm_poses.csv", "wrist_and_palm_poses_v2.csv")
TRACK_FILE = "closed_loop_trajectory.csv"


def discover(root: Path, options: VendorOptions) -> Discovery:
    """List recordings: every VRS file with the MPS output that belongs to it, and MPS output that belongs to no VRS file.

    Raises:
        InputError: Not a folder, neither of the two in it, or a dataset name that cannot be part of an id.
    """
    if not root.is_dir():
        raise InputError(f"delivery {root}: not a folder. Point RAW at the folder that holds the VRS files.")
    if not EPISODE_ID.fullmatch(f"aria-{options.dataset}"):
        raise InputError(f"dataset name {options.dataset!r}: ids need A-Z a-z 0-9 _ - only. Name it with --dataset.")
    folders = _folders(root)
    vrs = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix.lower() == ".vrs" and path.name[0] != "."]
    outputs = [folder for folder in folders if _is_mps(folder)]
    owners = {path: _mps_of(path, [other for other in vrs if other.parent == path.parent], outputs) for path in vrs}
    owned = {folder for folder in owners.values() if folder is not None}
    found = [_recording(root, options, path, vrs=path, mps=folder) for path, folder in owners.items()]
    found += [_recording(root, options, folder, vrs=None, mps=folder) for folder in outputs if folder not in owned]
    if not found:
        raise InputError(f"delivery {root}: no recordings. Expected .vrs files, or MPS folders with {HANDS}/ or {' or '.join(TRACKS)}/.")
    recordings = sorted((ref for ref in found if isinstance(ref, RecordingRef)), key=lambda ref: ref.id.encode())
    return Discovery(tuple(recordings), (), tuple(item for item in found if isinstance(item, Refused)))


def _folders(folder: Path) -> list[Path]:
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.is_symlink() and path.name != GROUND_TRUTH]
    return [folder, *(below for path in inner for below in _folders(path))]


def _is_mps(folder: Path) -> bool:
    return any(path.is_file() for path in mps_files(folder))


def mps_files(folder: Path) -> list[Path]:
    """Return where the MPS files that are read may lie, hands first, in the order of preference."""
    hands = [folder / HANDS / name for name in (*HAND_FILES, *WRIST_FILES)]
    return [*hands, *(folder / name / TRACK_FILE for name in TRACKS)]


def _mps_of(path: Path, siblings: list[Path], outputs: list[Path]) -> Path | None:
    """Return the MPS folder of a VRS file: named after it, or plain `mps` beside the only VRS file of a folder."""
    stem = path.stem
    names = [f"mps_{stem}_vrs", f"mps_{stem}", f"{stem}_mps", *(["mps"] if len(siblings) == 1 else [])]
    return next((path.parent / name for name in names if path.parent / name in outputs), None)


def _recording(root: Path, options: VendorOptions, at: Path, *, vrs: Path | None, mps: Path | None) -> RecordingRef | Refused:
    relative = at.relative_to(root)
    parts = (*relative.parent.parts, at.stem if vrs else at.name) if relative.parts else ("mps",)
    name = "-".join(["aria", options.dataset, *parts])
    files = [path for path in ([vrs] if vrs else []) + (mps_files(mps) if mps else []) if path.is_file() or path.is_symlink()]
    escaping = [path.name for path in files if not is_inside(root, path)]
    nothing: dict[str, tuple[Path, ...]] = {"media": (), "annotations": (), "calibration": ()}
    details = {"vrs": None if vrs is None else vrs.relative_to(root).as_posix(), "mps": None if mps is None else _named(root, mps)}
    if EPISODE_ID.fullmatch(name) and not escaping:
        return RecordingRef(name, "aria", options.dataset, options.delivery, root, {**nothing, "media": tuple(files)}, None, details)
    if escaping:
        code, why = "path-escape", f"{escaping[0]} leads out of the delivery by a link, not followed. Deliver the file itself."
    else:
        code, why = "id-invalid", f"makes the id {name[:80]!r}, expected 1 to 96 of A-Z a-z 0-9 _ -. Rename it."
    known = name if EPISODE_ID.fullmatch(name) else f"unnamed-{hashlib.sha256(relative.as_posix().encode()).hexdigest()[:12]}"
    unread = RecordingRef(known, "aria", options.dataset, options.delivery, root, nothing)
    return Refused(unread, (Finding(code, Severity.ERROR, known, f"{relative.as_posix()}: {why}"),))


def _named(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()
