"""Find recordings in a Mecka delivery: one folder each, with an episode JSON that names the files beside it."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egodata.errors import InputError
from egodata.findings import Finding, Severity
from egodata.schema.ids import EPISODE_ID
from egodata.vendors.base import Discovery, RecordingRef, Refused, VendorOptions
from egodata.vendors.files import Listing, entry_name, is_inside, parse_json

FILES = {
    "video": "video.mp4",
    "hands": "hands.csv",
    "egomotion": "egomotion.txt",
    "frames": "frames.csv",
    "annotations": "annotations.csv",
    "intrinsics": "intrinsics.json",
}
PART_OF = {"annotations": "annotations", "intrinsics": "calibration"}


def discover(delivery: Path, options: VendorOptions) -> Discovery:
    """List the recordings of a delivery; a folder without any of Mecka's files is not one.

    Raises:
        InputError: The delivery is not a folder, or holds no recording.
    """
    if not delivery.is_dir():
        raise InputError(f"delivery {delivery}: not a folder. Point RAW at the folder that holds one folder per recording.")
    recordings, refused = [], []
    for folder in _folders(delivery):
        try:
            found = _recording(delivery, folder, options)
        except OSError as error:
            why = f"{Path(error.filename or folder).name}: {error.strerror}. Make it readable, then ingest again."
            found = _refused(delivery, folder, options, ("io-error", why))
        if isinstance(found, Refused):
            refused.append(found)
        elif found is not None:
            recordings.append(found)
    if not recordings and not refused:
        raise InputError(
            f"delivery {delivery}: no recordings. Expected a folder per recording with <id>.json, hands.csv, egomotion.txt, a video."
        )
    return Discovery(tuple(sorted(recordings, key=lambda ref: ref.id.encode())), (), tuple(refused))


def _folders(delivery: Path) -> list[Path]:
    with os.scandir(delivery) as found:
        names = [entry.name for entry in found if (Path(entry.path) if entry.is_symlink() else entry).is_dir()]
    return [delivery / name for name in sorted(names, key=str.encode)]


def _recording(delivery: Path, folder: Path, options: VendorOptions) -> RecordingRef | Refused | None:
    if not is_inside(delivery, folder):
        return _refused(
            delivery,
            folder,
            options,
            ("path-escape", f"{folder.name}: leads out of the delivery by a link, not followed. Deliver the folder itself."),
        )
    there = Listing.of(folder)
    path, value = episode_json(folder, there)
    if value is None and not _looks_like_one(folder, there):
        return None
    if path is None or value is None:
        names = ", ".join(sorted(name for name in there.names if name.endswith(".json"))) or "none"
        return _refused(
            delivery,
            folder,
            options,
            ("episode-json", f"no readable episode JSON with id and urls (JSON files here: {names}). Ask for it again."),
        )
    identity = value["id"]
    if not isinstance(identity, str) or not EPISODE_ID.fullmatch(identity):
        return _refused(
            delivery,
            folder,
            options,
            ("id-invalid", f"{path.name}: id {str(identity)[:60]!r}, expected 1 to 96 of A-Z a-z 0-9 _ -. Ask for another id."),
        )
    files = recording_files(path, value, there=there)
    for file in files.values():
        if file.name in there.links and not is_inside(delivery, file):
            return _refused(
                delivery,
                folder,
                options,
                ("path-escape", f"{file.name}: leads out of the delivery by a link, not followed. Deliver the file itself."),
            )
    parts: dict[str, list[Path]] = {"media": [path], "annotations": [], "calibration": []}
    for kind, file in files.items():
        if file.name in there.files:
            parts[PART_OF.get(kind, "media")].append(file)
    operator = value.get("user_id")
    return RecordingRef(
        identity,
        "mecka",
        options.dataset,
        options.delivery,
        delivery,
        {part: tuple(paths) for part, paths in parts.items()},
        operator if isinstance(operator, str) and operator else None,
    )


def _looks_like_one(folder: Path, there: Listing) -> bool:
    usual = {*FILES.values(), f"{folder.name}.json"}
    return bool(there.names & usual) or any(name.endswith("_video.mp4") for name in there.names)


def _refused(delivery: Path, folder: Path, options: VendorOptions, why: tuple[str, str]) -> Refused:
    name = folder.name if EPISODE_ID.fullmatch(folder.name) else f"unnamed-{hashlib.sha256(folder.name.encode()).hexdigest()[:12]}"
    ref = RecordingRef(name, "mecka", options.dataset, options.delivery, delivery, {"media": (), "annotations": (), "calibration": ()})
    code, message = why
    return Refused(ref, (Finding(code, Severity.ERROR, name, f"folder {folder.name}: {message}"),))


def episode_json(folder: Path, there: Listing) -> tuple[Path | None, dict[str, Any] | None]:
    """Find a folder's episode JSON: ``<folder>.json``, or the only ``*.json`` there that has `id` and `urls`.

    Returns:
        Its path and object (the first element where the file holds a list), or (None, None).
    """
    named = folder / f"{folder.name}.json"
    if (value := _episode(named, there)) is not None:
        return named, value
    paths = [folder / name for name in sorted(there.names) if name.endswith(".json")]
    candidates = [(path, value) for path in paths if (value := _episode(path, there)) is not None]
    return candidates[0] if len(candidates) == 1 else (None, None)


def _episode(path: Path, there: Listing) -> dict[str, Any] | None:
    if path.name not in there.files or (path.name in there.links and not is_inside(path.parent, path)):
        return None
    try:
        value = parse_json(path.read_text("utf-8-sig"))
    except ValueError:
        return None
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) and "id" in value and isinstance(value.get("urls"), dict) else None


def recording_files(json_path: Path, value: Mapping[str, Any], *, there: Listing) -> dict[str, Path]:
    """Return the path of each kind of file, whether it exists or not; nothing is downloaded.

    The video is ``<id>_video.mp4`` if there, then what the URL names, then ``video.mp4``; others are what the URL names,
    then the usual name.
    """
    out = {}
    for kind, usual in FILES.items():
        url = value["urls"].get(kind)
        named = entry_name(url) if isinstance(url, str) else None
        wanted = [f"{value['id']}_video.mp4"] if kind == "video" else []
        wanted += [named] if named else []
        names = [name for name in (*wanted, usual) if name != json_path.name]
        out[kind] = json_path.parent / next((name for name in names if name in there.files), names[0])
    return out
