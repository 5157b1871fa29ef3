"""The LeRobot v2.1 folder: info.json, the episode list, path templates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egodata.errors import InputError
from egodata.findings import Finding, Severity
from egodata.schema.ids import EPISODE_ID
from egodata.vendors.base import Discovery, RecordingRef, Refused, VendorOptions
from egodata.vendors.files import is_inside, parse_json, present

STATE_DTYPES = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class Listing:
    """What a dataset's meta folder says: its own info, and by episode index the listed entry."""

    info: Mapping[str, Any]
    episodes: Mapping[int, Mapping[str, Any]]
    tasks: Mapping[int, str]

    @property
    def cameras(self) -> list[str]:
        """Video features, sorted."""
        return sorted(name for name, feature in self.info["features"].items() if feature.get("dtype") == "video")


def episode_id(dataset: str, index: int) -> str:
    """Return the id of an episode: vendor, dataset, the vendor's own index.

    >>> episode_id("g1", 29)
    'lerobot-g1-000029'
    """
    return f"lerobot-{dataset}-{index:06d}"


def read_listing(root: Path) -> Listing:
    """Read the meta folder.

    Raises:
        InputError: No info.json, another version, or a required key is missing.
    """
    path = root / "meta" / "info.json"
    if not path.is_file():
        raise InputError(f"delivery {root}: no meta/info.json, so it is not LeRobot v2.1. Point RAW at the dataset's folder.")
    info = _json(path)
    version = str(info.get("codebase_version"))
    if not version.startswith("v2."):
        raise InputError(f"{path}: codebase_version {version}, expected v2.0 or v2.1. Convert it with LeRobot's own tools.")
    missing = [key for key in ("fps", "features", "data_path", "video_path") if not info.get(key)]
    if missing:
        raise InputError(f"{path}: {', '.join(missing)} missing. Ask for the whole meta folder.")
    lines = _json_lines(root / "meta" / "episodes.jsonl")
    tasks = {int(line["task_index"]): str(line["task"]) for line in _json_lines(root / "meta" / "tasks.jsonl")}
    return Listing(info, {int(line["episode_index"]): line for line in lines}, tasks)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}). Ask for the file again.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(value).__name__}.")
    return value


def _json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            if line.strip():
                found.append(dict(parse_json(line.decode("utf-8-sig"))))
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: line {number} is not a JSON object ({error}). Ask for the file again.") from error
    return found


def discover(root: Path, options: VendorOptions) -> Discovery:
    """List recordings: listed ones that hold a file, unlisted ones found on disk; the other listed ones are absent.

    Raises:
        InputError: Not a LeRobot v2.1 dataset, or a dataset name that cannot be part of an id.
    """
    if not EPISODE_ID.fullmatch(episode_id(options.dataset, 0)):
        raise InputError(f"dataset name {options.dataset!r}: ids need A-Z a-z 0-9 _ - only. Name it with --dataset.")
    listing = read_listing(root)
    recordings, absent, refused = [], [], []
    for index in sorted(set(listing.episodes) | _on_disk(root)):
        ref, wanted = _reference(root, options, listing, index)
        outside = [path for path in wanted if not is_inside(root, path)]
        if outside:
            refused.append(Refused(ref, (_outside(ref.id, outside[0]),)))
        elif ref.files["media"]:
            recordings.append(ref)
        else:
            absent.append(ref.id)
    return Discovery(tuple(recordings), tuple(absent), tuple(refused))


def _on_disk(root: Path) -> set[int]:
    names = (re.fullmatch(r"episode_(\d+)\.parquet", path.name) for path in root.glob("data/*/*.parquet"))
    return {int(match[1]) for match in names if match}


def _outside(recording: str, path: Path) -> Finding:
    message = f"{path.name}: leads out of the delivery by a link or '..', not followed. Deliver the file itself."
    return Finding("path-escape", Severity.ERROR, recording, message, stream=path.name)


def _reference(root: Path, options: VendorOptions, listing: Listing, index: int) -> tuple[RecordingRef, list[Path]]:
    info = listing.info
    parts = {"episode_index": index, "episode_chunk": index // int(info.get("chunks_size", 1000))}
    try:
        data = root / str(info["data_path"]).format(**parts)
        videos = {camera: root / str(info["video_path"]).format(video_key=camera, **parts) for camera in listing.cameras}
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(
            f"meta/info.json: path template {info['data_path']!r} or {info['video_path']!r} cannot be filled ({error!r})."
        ) from error
    listed = listing.episodes.get(index)
    details = {
        "index": index,
        "data": str(data.relative_to(root)),
        "videos": {camera: str(path.relative_to(root)) for camera, path in videos.items()},
        "features": {
            name: info["features"][name] for name in sorted(info["features"]) if info["features"][name].get("dtype") in STATE_DTYPES
        },
        "fps": float(info["fps"]),
        "robot_type": info.get("robot_type"),
        "listed": None if listed is None else {"length": listed.get("length"), "tasks": list(listed.get("tasks") or [])},
        "tasks": {str(key): text for key, text in sorted(listing.tasks.items())},
    }
    inside = [path for path in (data, *videos.values()) if is_inside(root, path)]
    files = {"media": present(*inside), "annotations": (), "calibration": ()}
    ref = RecordingRef(episode_id(options.dataset, index), "lerobot", options.dataset, options.delivery, root, files, None, details)
    return ref, [data, *videos.values()]
