"""What a LeRobot dataset's meta folder says: info.json, the episodes with their places, the tasks."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from egodata.errors import InputError
from egodata.vendors.files import parse_json
from egodata.vendors.lerobot.parquet import read_parquet
from egodata.vendors.lerobot.templates import fill

MAX_FPS, MAX_INDEX = 10_000, 10**12
PLACES = ("data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index", "length")


@dataclass(frozen=True, slots=True)
class Entry:
    """One episode as listed.

    Attributes:
        length: Rows, where the list says so.
        tasks: Its task texts.
        data: Parquet path relative to the dataset.
        videos: By video feature, path relative to the dataset.
        spans_s: By video feature, from and to in seconds of its file; empty where a file is one episode.
        rows: Range in the dataset's running index; None where a file is one episode.
    """

    length: int | None
    tasks: tuple[str, ...]
    data: str
    videos: Mapping[str, str]
    spans_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A dataset's own info, and by episode index the listed entry.

    Attributes:
        shared: Whether several episodes may share a file (v3).
    """

    info: Mapping[str, Any]
    episodes: Mapping[int, Entry]
    tasks: Mapping[int, str]
    shared: bool

    @property
    def cameras(self) -> list[str]:
        """Video features, sorted."""
        return video_features(self.info)

    def own_entry(self, index: int, *, listed: Mapping[str, Any] | None = None) -> Entry:
        """Return the entry of an episode that has files of its own (v2), from the path templates.

        Raises:
            InputError: A template cannot be filled.
        """
        parts: dict[str, int | str] = {"episode_index": index, "episode_chunk": index // int(self.info.get("chunks_size", 1000))}
        data = fill(self.info["data_path"], parts, where="data_path")
        videos = {camera: fill(self.info["video_path"], {**parts, "video_key": camera}, where="video_path") for camera in self.cameras}
        line = listed or {}
        return Entry(line.get("length"), tuple(line.get("tasks") or ()), data, videos)


def video_features(info: Mapping[str, Any]) -> list[str]:
    """Return the features of dtype video, sorted."""
    return sorted(name for name, feature in info["features"].items() if feature.get("dtype") == "video")


def read_listing(root: Path) -> Listing:
    """Read the meta folder of v2.0, v2.1 or v3.0.

    Raises:
        InputError: No info.json, another version, or something required is missing or unusable.
    """
    path = root / "meta" / "info.json"
    if not path.is_file():
        raise InputError(f"delivery {root}: no meta/info.json, so it is not a LeRobot dataset. Point RAW at the dataset's folder.")
    info = _json(path)
    version = str(info.get("codebase_version"))
    if not version.startswith(("v2.", "v3.")):
        raise InputError(f"{path}: codebase_version {version}, expected v2.0, v2.1 or v3.0. Convert it with LeRobot's own tools.")
    missing = [key for key in ("fps", "features", "data_path") if not info.get(key)]
    if missing:
        raise InputError(f"{path}: {', '.join(missing)} missing. Ask for the whole meta folder.")
    _check_info(info, path)
    if version.startswith("v3."):
        return Listing(info, _placed_episodes(root, info), _task_table(root / "meta" / "tasks.parquet"), shared=True)
    lines = _indexed(root / "meta" / "episodes.jsonl", "episode_index")
    tasks = {index: str(line.get("task") or "") for index, line in _indexed(root / "meta" / "tasks.jsonl", "task_index").items()}
    bare = Listing(info, {}, tasks, shared=False)
    return Listing(info, {index: bare.own_entry(index, listed=line) for index, line in lines.items()}, tasks, shared=False)


def _check_info(info: Mapping[str, Any], path: Path) -> None:
    size = info.get("chunks_size", 1000)
    features = info["features"]
    usable = isinstance(features, dict) and all(isinstance(item, dict) for item in features.values())
    wrong = {
        "fps": not isinstance(info["fps"], (int, float)) or not 0 < info["fps"] < MAX_FPS,
        "chunks_size": not isinstance(size, int) or size < 1,
        "data_path": not isinstance(info["data_path"], str),
        "features": not usable,
        "video_path": usable and bool(video_features(info)) and not isinstance(info.get("video_path"), str),
    }
    bad = [f"{key} {str(info.get(key))[:60]!r}" for key, is_wrong in wrong.items() if is_wrong]
    if bad:
        raise InputError(f"{path}: {', '.join(bad)} not as LeRobot has it. Ask for the file again.")


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
                _texts(item.get("tasks"))
        except (TypeError, ValueError) as error:
            message = f"{path}: line {number} is no entry with {key} from 0 ({error}). Ask for the file again."
            raise InputError(message) from error
    return found


def _index(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INDEX:
        raise ValueError(f"got {str(value)[:40]!r}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    texts = tuple(value or ())
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("tasks: expected texts")
    return texts


def _table_rows(paths: Iterable[Path]) -> Iterable[tuple[Path, int, dict[str, Any]]]:
    """Yield the rows of meta tables, without statistics."""
    for path in paths:
        try:
            schema = pq.read_schema(path)
            rows = read_parquet(path, columns=[name for name in schema.names if not name.startswith("stats/")]).to_pylist()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # texts are decoded only when they are asked for
            raise InputError(f"{path}: {' '.join(str(error).split())[:200]}. Ask for the file again.") from error
        yield from ((path, number, row) for number, row in enumerate(rows, 1))


def _placed_episodes(root: Path, info: Mapping[str, Any]) -> dict[int, Entry]:
    paths = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    if not paths:
        raise InputError(f"delivery {root}: no meta/episodes/*/*.parquet, the list of episodes. Ask for the whole meta folder.")
    found: dict[int, Entry] = {}
    for path, number, row in _table_rows(paths):
        try:
            index = _index(row.get("episode_index"))
            if index in found:
                raise ValueError(f"episode {index} is listed twice")
            found[index] = _placed(row, info)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: row {number} does not place an episode ({error}). Ask for the file again.") from error
    return found


def _placed(row: Mapping[str, Any], info: Mapping[str, Any]) -> Entry:
    numbers = {}
    for key in PLACES:
        try:
            numbers[key] = _index(row.get(key))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    data = fill(info["data_path"], _file_parts(row, "data"), where="data_path")
    videos: dict[str, str] = {}
    spans: dict[str, tuple[float, float]] = {}
    for camera in video_features(info):
        prefix = f"videos/{camera}"
        videos[camera] = fill(info["video_path"], {**_file_parts(row, prefix), "video_key": camera}, where="video_path")
        spans[camera] = (_seconds(row, f"{prefix}/from_timestamp"), _seconds(row, f"{prefix}/to_timestamp"))
    rows = (numbers["dataset_from_index"], numbers["dataset_to_index"])
    return Entry(numbers["length"], _texts(row.get("tasks")), data, videos, spans, rows)


def _seconds(row: Mapping[str, Any], key: str) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{key}: got {str(value)[:40]!r}")
    return float(value)


def _file_parts(row: Mapping[str, Any], prefix: str) -> dict[str, int | str]:
    parts: dict[str, int | str] = {}
    for name in ("chunk_index", "file_index"):
        try:
            parts[name] = _index(row.get(f"{prefix}/{name}"))
        except ValueError as error:
            raise ValueError(f"{prefix}/{name}: {error}") from error
    return parts


def _task_table(path: Path) -> dict[int, str]:
    """Read tasks.parquet; the text is a column, or the index of the table that pandas wrote."""
    if not path.is_file():
        return {}
    found = {}
    for _, number, row in _table_rows([path]):
        text = row.get("task", row.get("__index_level_0__"))
        index = row.get("task_index")
        if not isinstance(text, str) or not isinstance(index, int):
            raise InputError(f"{path}: row {number} is no task ({str(row)[:80]}). Ask for the file again.")
        found[index] = text
    return found
