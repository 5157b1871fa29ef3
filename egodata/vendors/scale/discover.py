"""Find recordings in a Scale delivery: one folder per task, with a scene, an annotation JSON and a video."""

import hashlib
from pathlib import Path

from egodata.errors import InputError
from egodata.findings import Finding, Severity
from egodata.schema.ids import EPISODE_ID
from egodata.vendors.base import Discovery, RecordingRef, Refused, VendorOptions
from egodata.vendors.extras import require
from egodata.vendors.files import is_inside

VIDEOS = ("left_rectified", "left_rgb")
"""Videos that are read, by a part of their name, the better one first."""

SUFFIXES = (".sfs", ".json", ".mp4")


def discover(delivery: Path, options: VendorOptions) -> Discovery:
    """List the recordings of a delivery; a folder without scene, JSON or video is not one.

    Raises:
        InputError: The delivery is not a folder, or holds no recording.
        MissingExtraError: The library that reads scenes is not installed.
    """
    require("scale_json_binary", extra="scale", vendor="scale")
    if not delivery.is_dir():
        raise InputError(f"delivery {delivery}: not a folder. Point RAW at the folder that holds one folder per task.")
    recordings, refused = [], []
    for folder in sorted((path for path in delivery.iterdir() if path.is_dir()), key=lambda path: path.name.encode()):
        found = _recording(delivery, folder, options)
        if isinstance(found, Refused):
            refused.append(found)
        elif found is not None:
            recordings.append(found)
    if not recordings and not refused:
        raise InputError(
            f"delivery {delivery}: no recordings. Expected a folder per task with a .sfs scene, a .json and a left_rectified video."
        )
    return Discovery(tuple(recordings), (), tuple(refused))


def _recording(delivery: Path, folder: Path, options: VendorOptions) -> RecordingRef | Refused | None:
    if not is_inside(delivery, folder):
        return _refused(
            delivery, folder, options, ("path-escape", "leads out of the delivery by a link, not followed. Deliver the folder itself.")
        )
    files = sorted((path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES), key=lambda path: path.name.encode())
    scenes = [path for path in files if path.suffix.lower() == ".sfs"]
    if not scenes and not any(name in path.name for path in files for name in VIDEOS):
        return None
    if not EPISODE_ID.fullmatch(folder.name):
        return _refused(delivery, folder, options, ("id-invalid", "expected a task id of 1 to 96 of A-Z a-z 0-9 _ -. Rename the folder."))
    escaping = [path.name for path in files if not is_inside(delivery, path)]
    if escaping:
        why = f"{escaping[0]} leads out of the delivery by a link, not followed. Deliver the file itself."
        return _refused(delivery, folder, options, ("path-escape", why))
    media = tuple(path for path in files if path.is_file())
    parts: dict[str, tuple[Path, ...]] = {"media": media, "annotations": (), "calibration": ()}
    return RecordingRef(folder.name, "scale", options.dataset, options.delivery, delivery, parts)


def _refused(delivery: Path, folder: Path, options: VendorOptions, why: tuple[str, str]) -> Refused:
    name = folder.name if EPISODE_ID.fullmatch(folder.name) else f"unnamed-{hashlib.sha256(folder.name.encode()).hexdigest()[:12]}"
    ref = RecordingRef(name, "scale", options.dataset, options.delivery, delivery, {"media": (), "annotations": (), "calibration": ()})
    code, message = why
    return Refused(ref, (Finding(code, Severity.ERROR, name, f"folder {folder.name}: {message}"),))
