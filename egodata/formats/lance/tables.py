"""The four tables: schemas, handles pinned to versions, and what one process may share.

Lance is not fork-safe. The first use records the process; a fork of it is refused, because its inherited threads would never answer.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from egodata.errors import ConflictError, CorruptEpisodeError, HandleError, NotFoundError
from egodata.names import shell_word
from egodata.schema.layout import StorePaths

EPISODES, FRAMES, VIDEOS, ANNOTATIONS = "episodes", "frames", "videos", "annotations"
DATA_TABLES = (VIDEOS, FRAMES, ANNOTATIONS)
"""Committed in this order, before `episodes`."""
TABLES = (*DATA_TABLES, EPISODES)
VIDEO_COLUMN = "video"
REBUILD = "Remove lance_v2 and run `egodata lance build`; frozen datasets find their episodes by content."
INDEX_CACHE_BYTES = 32 << 20
METADATA_CACHE_BYTES = 128 << 20


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_TEXT, _I32, _I64 = pa.string(), pa.int32(), pa.int64()
_ID = pa.dictionary(pa.int32(), pa.string())

SCHEMAS: Mapping[str, pa.Schema] = {
    EPISODES: pa.schema(
        [
            *(_required(name, _TEXT) for name in ("episode_id", "recording_id")),
            _required("episode_index", _I64),
            *(_required(name, _I64) for name in ("clip_index", "clip_start", "clip_end")),
            _required("clip_aliased", pa.bool_()),
            *(_required(name, _TEXT) for name in ("vendor", "dataset", "delivery")),
            *(pa.field(name, _TEXT) for name in ("operator", "session")),
            *(_required(name, _TEXT) for name in ("embodiment", "task_name", "task_description")),
            _required("n_frames", _I64),
            _required("fps", pa.float64()),
            *(_required(name, _I64) for name in ("fps_num", "fps_den")),
            *(_required(name, _TEXT) for name in ("clock", "reference_camera")),
            pa.field("hand_frame_convention", _TEXT),
            *(_required(name, pa.list_(_TEXT)) for name in ("cameras", "annotation_keys")),
            pa.field("calibration", _TEXT),
            *(_required(name, _TEXT) for name in ("media_digest", "annotations_digest", "calibration_digest", "meta_digest", "content")),
            *(_required(name, _TEXT) for name in ("schema_version", "attributes")),
        ]
    ),
    FRAMES: pa.schema(
        [
            _required("episode_id", _ID),
            _required("episode_index", _I64),
            _required("frame_index", _I32),
            _required("index", _I64),
            pa.field("timestamp", pa.float64(), nullable=False, metadata={"egodata.unit": "s"}),
            pa.field("timestamp_ns", _I64, nullable=False, metadata={"egodata.unit": "ns"}),
        ]
    ),
    VIDEOS: pa.schema(
        [
            _required("episode_id", _TEXT),
            _required("camera", _TEXT),
            *(_required(name, _I32) for name in ("chunk_index", "first_frame", "n_frames")),
            _required("size_bytes", _I64),
            _required("sha256", _TEXT),
            lance.blob_field(VIDEO_COLUMN, nullable=False),
        ]
    ),
    ANNOTATIONS: pa.schema(
        [
            *(_required(name, _TEXT) for name in ("episode_id", "key")),
            _required("span_index", _I32),
            _required("text", _TEXT),
            *(_required(name, _I64) for name in ("start", "end")),
        ]
    ),
}

COPY, CODEC_COLUMN = "copy", "codec"
LOSS_FIELDS = (
    pa.field(CODEC_COLUMN, _TEXT, nullable=False),
    pa.field("pixel_mae", pa.float64(), nullable=False, metadata={"egodata.unit": "colour values"}),
    pa.field("psnr_db", pa.float64(), nullable=False, metadata={"egodata.unit": "dB"}),
    pa.field("ssim", pa.float64(), nullable=False),
)
"""Columns of `videos` where the copy was encoded again: how far its pixels are from those of the zarr element, as means over its frames."""


def table_schema(table: str, *, video: str = COPY) -> pa.Schema:
    """Return the schema that a table is made with; `frames` gains a column per feature afterwards."""
    schema = SCHEMAS[table]
    return schema if table != VIDEOS or video == COPY else pa.schema([*schema, *LOSS_FIELDS])


@cache
def _owner_pid() -> int:
    return os.getpid()


@cache
def _session() -> lance.Session:
    return lance.Session(index_cache_size_bytes=INDEX_CACHE_BYTES, metadata_cache_size_bytes=METADATA_CACHE_BYTES)


def require_same_process() -> None:
    """Refuse lance in a fork of a process that has used it.

    Raises:
        HandleError: Called in such a fork.
    """
    if _owner_pid() != os.getpid():
        raise HandleError(
            f"lance: used in process {_owner_pid()} and again in its fork {os.getpid()}; lance does not survive a fork. "
            "Start workers by spawn or forkserver."
        )


def shared_session() -> lance.Session:
    """Return this process's one lance session, with capped caches."""
    require_same_process()
    return _session()


def table_path(paths: StorePaths, table: str) -> Path:
    """Return the folder of a table."""
    return paths.lance / f"{table}.lance"


def open_table(paths: StorePaths, table: str, *, version: int | str | None = None) -> lance.LanceDataset:
    """Open a table at a version or tag; the newest without one.

    Raises:
        NotFoundError: No such table or version.
        CorruptEpisodeError: The table is gone while `episodes` is there, or its newest version cannot be opened.
    """
    session = shared_session()
    path = table_path(paths, table)
    if not path.is_dir():
        if table != EPISODES and table_path(paths, EPISODES).is_dir():
            raise CorruptEpisodeError(f"store {paths.root}: Lance table {table} is gone, others are there. {REBUILD}")
        raise NotFoundError(f"store {paths.root}: no Lance table {table}. Make one with `egodata lance build {shell_word(paths.root)}`.")
    try:
        return lance.dataset(path, version=version, session=session)
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) or (version is None and any((path / "_versions").glob("*.manifest"))):
            text = " ".join(str(error).split())[:120]
            raise CorruptEpisodeError(f"store {paths.root}: Lance table {table} cannot be opened ({text}). {REBUILD}") from error
        raise NotFoundError(
            f"store {paths.root}: Lance table {table} has no version {version}. It was cleaned up or never written."
        ) from error


@contextmanager
def reading(dataset: lance.LanceDataset) -> Iterator[None]:
    """Turn what lance raises while reading into one error that names the table.

    Raises:
        CorruptEpisodeError: Data of the table is missing or cannot be decoded.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError, IndexError) as error:
        text = " ".join(str(error).split())[:200]
        raise CorruptEpisodeError(f"Lance table {dataset.uri} version {dataset.version}: cannot be read ({text}). {REBUILD}") from error


def video_kind(paths: StorePaths) -> str:
    """Return how the copy's video came about: ``copy``, or ``av1`` where it was encoded again.

    Raises:
        NotFoundError: The store has no Lance copy.
    """
    return COPY if CODEC_COLUMN not in open_table(paths, VIDEOS).schema.names else "av1"


def version_property(table: str) -> str:
    """Return the transaction property of an `episodes` commit that holds another table's version."""
    return f"egodata.{table}_version"


def named_versions(episodes: lance.LanceDataset) -> dict[str, int] | None:
    """Return the versions of all four tables that belong to one `episodes` version.

    Returns:
        None if that version was not committed by egodata.
    """
    transaction = episodes.read_transaction(episodes.version)
    properties = (transaction.transaction_properties if transaction else None) or {}
    if any(version_property(table) not in properties for table in DATA_TABLES):
        return None
    return {**{table: int(properties[version_property(table)]) for table in DATA_TABLES}, EPISODES: episodes.version}


def committed_versions(paths: StorePaths) -> list[dict[str, int]]:
    """Return the version sets of every live `episodes` commit, newest first.

    Raises:
        NotFoundError: The store has no Lance copy.
    """
    return list(_walk(open_table(paths, EPISODES)))


def _walk(episodes: lance.LanceDataset) -> Iterator[dict[str, int]]:
    for version in sorted((int(item["version"]) for item in episodes.versions()), reverse=True):
        found = named_versions(episodes.checkout_version(version))
        if found is not None:
            yield found


def table_versions(paths: StorePaths) -> dict[str, int]:
    """Return the versions of all four tables as the newest `episodes` commit names them.

    Raises:
        NotFoundError: The store has no Lance copy.
        ConflictError: No version of `episodes` was committed by egodata.
    """
    found = next(_walk(open_table(paths, EPISODES)), None)
    if found is None:
        raise ConflictError(f"store {paths.root}: no version of table episodes names the others. Remove {paths.lance} and build again.")
    return found


@dataclass(frozen=True, slots=True)
class Tables:
    """Handles of the four tables at versions that belong together.

    Attributes:
        handles: By table name.
    """

    handles: Mapping[str, lance.LanceDataset]

    @property
    def versions(self) -> dict[str, int]:
        """Version by table name."""
        return {name: int(handle.version) for name, handle in self.handles.items()}


def open_tables(paths: StorePaths, versions: Mapping[str, int]) -> Tables:
    """Open all four tables at given versions.

    Raises:
        NotFoundError: A table or version is not there.
        ConflictError: A table is not named in `versions`.
    """
    lacking = [table for table in TABLES if table not in versions]
    if lacking:
        raise ConflictError(f"store {paths.root}: table versions lack {', '.join(lacking)}, got {dict(versions)}. Give all four.")
    return Tables({table: open_table(paths, table, version=versions[table]) for table in TABLES})


def read_episodes(
    paths: StorePaths, columns: Mapping[str, str] | Sequence[str], *, versions: Mapping[str, int] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of the table `episodes`, in stored order.

    Args:
        paths: The store.
        columns: Names, or SQL expressions by name.
        versions: Version by table name; by default what the newest commit names.

    Raises:
        NotFoundError: The store has no Lance copy, or not that version.
        CorruptEpisodeError: The table cannot be read.
    """
    found = table_versions(paths) if versions is None else versions
    episodes = open_table(paths, EPISODES, version=found[EPISODES])
    with reading(episodes):
        rows: list[dict[str, Any]] = episodes.to_table(columns=dict(columns) if isinstance(columns, Mapping) else list(columns)).to_pylist()
    return rows
