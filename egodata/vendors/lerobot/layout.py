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
MAX_FPS, MAX_INDEX = 10_000, 10**12


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
    _check_info(info, path)
    episodes = _indexed(root / "meta" / "episodes.jsonl", "episode_index")
    tasks = _indexed(root / "meta" / "tasks.jsonl", "task_index")
    return Listing(info, episodes, {index: str(line.get("task") or "") for index, line in tasks.items()})


def _check_info(info: Mapping[str, Any], path: Path) -> None:
    size = info.get("chunks_size", 1000)
    wrong = {
        "fps": not isinstance(info["fps"], (int, float)) or not 0 < info["fps"] < MAX_FPS,
        "chunks_size": not isinstance(size, int) or size < 1,
        "data_path": not isinstance(info["data_path"], str),
        "video_path": not isinstance(info["video_path"], str),
        "features": not isinstance(info["features"], dict) or not all(isinstance(item, dict) for item in info["features"].values()),
    }
    bad = [f"{key} {str(info.get(key))[:60]!r}" for key, is_wrong in wrong.items() if is_wrong]
    if bad:
        raise InputError(f"{path}: {', '.join(bad)} not as LeRobot v2.1 has it. Ask for the file again.")


def _json(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}). Ask for the file again.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(value).__name__}.")
    return value


def _indexed(path: Path, key: str) -> dict[int, dict[str, Any]]:
    """Read the lines of a list by their index; a list that was not delivered is empty."""
    found = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path.is_file() else (), 1):
        try:
            if line.strip():
                item = dict(parse_json(line.decode("utf-8-sig")))
                found[_index(item.get(key))] = item
                if not all(isinstance(text, str) for text in item.get("tasks") or []):
                    raise ValueError("tasks: expected texts")
        except (TypeError, ValueError) as error:
            message = f"{path}: line {number} is no entry with {key} from 0 ({error}). Ask for the file again."
            raise InputError(message) from error
    return found


def _index(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INDEX:
        raise ValueError(f"got {str(value)[:40]!r}")
    return value


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


def _named(root: Path, path: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


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
        "data": _named(root, data),
        "videos": {camera: _named(root, path) for camera, path in videos.items()},
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
