"""Build or refresh the Lance copy of a store. Upsert by content digest: only new and changed episodes are written.

The order of commits, and what a killed build leaves, are in docs/decisions/004-lance-commit-order.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
from filelock import FileLock, Timeout
from lance.fragment import FragmentMetadata

from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import ConflictError, InputError, NotFoundError
from egodata.formats import open_store
from egodata.formats.lance.columns import missing_fields
from egodata.formats.lance.commit import replace_episodes, restore, stage
from egodata.formats.lance.encode import annotation_rows, episode_row, frame_rows, numeric_features, video_rows
from egodata.formats.lance.recode import VIDEO_MODES
from egodata.formats.lance.tables import (
    ANNOTATIONS,
    CODEC_COLUMN,
    COPY,
    DATA_TABLES,
    EPISODES,
    FRAMES,
    SCHEMAS,
    TABLES,
    VIDEOS,
    open_table,
    shared_session,
    table_path,
    table_schema,
    table_versions,
    version_property,
)
from egodata.names import nearest
from egodata.progress import Progress, silent, tracked
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import MARKER, StorePaths, read_marker, require_writable, write_marker
from egodata.video import AV1

LOCK_WAIT_S = 600.0
STABLE = "stable"


@dataclass(frozen=True, slots=True)
class LanceBuild:
    """What a build did.

    Attributes:
        added: Episodes that were not there.
        changed: Episodes whose content differed.
        removed: Episodes that the store no longer has.
        unchanged: Episodes left alone.
        versions: Version by table afterwards.
    """

    added: int
    changed: int
    removed: int
    unchanged: int
    versions: dict[str, int]

    @property
    def wrote(self) -> bool:
        """Whether any episode was written or removed."""
        return bool(self.added or self.changed or self.removed)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "unchanged": self.unchanged,
            "versions": dict(self.versions),
        }


@dataclass(frozen=True, slots=True)
class _Write:
    """One episode to write: which of its parts, under which number."""

    episode_id: str
    content: str
    new: bool
    media: bool
    annotations: bool
    episode_index: int


@dataclass(frozen=True, slots=True)
class _Plan:
    writes: tuple[_Write, ...]
    removed: tuple[str, ...]
    unchanged: int

    def leaving(self, part: str) -> list[str]:
        """Return whose rows go from the tables of a part, ``media`` or ``annotations``; of a new episode there should be none."""
        return [*self.removed, *(write.episode_id for write in self.writes if getattr(write, part))]


def build_lance(
    paths: StorePaths, *, source: EpisodeStore | None = None, video: str | None = None, progress: Progress = silent
) -> LanceBuild:
    """Bring the Lance copy up to date with the published episodes.

    Episodes are compared by content digest. Videos, frames and annotations are committed first; the commit of `episodes` makes
    everything visible at once and names the versions of the other three. Without a difference nothing is committed.

    Args:
        paths: The store.
        source: Where the episodes come from; by default its published zarr episodes.
        video: ``copy`` (the very bytes) or ``av1`` (encoded again for size, with its measured loss); settled when the tables are made,
            ``copy`` unless asked. None takes what is settled.
        progress: Told per episode and stage.

    Raises:
        ConflictError: Another build holds the lock for longer than ten minutes, or the tables were made with another `video`.
        CorruptEpisodeError: A source episode is not what its digests say; nothing becomes visible.
        InputError: The store is not writable.
    """
    require_writable(paths)
    if video not in (None, *VIDEO_MODES):
        raise InputError(f"lance build: video {video!r}: {nearest(str(video), VIDEO_MODES)}")
    source = open_store(paths, "zarr") if source is None else source
    paths.lance.mkdir(exist_ok=True)
    shared_session()
    try:
        with FileLock(paths.lance / ".lock", timeout=LOCK_WAIT_S):
            return _build(paths, source, video, progress)
    except Timeout as error:
        raise ConflictError(f"store {paths.root}: another Lance build holds {paths.lance / '.lock'}. Wait for it to end.") from error


def _build(paths: StorePaths, source: EpisodeStore, video: str | None, progress: Progress) -> LanceBuild:
    versions = _ensure_tables(paths, video)
    settled = _video_mode(open_table(paths, VIDEOS, version=versions[VIDEOS]))
    if video not in (None, settled):
        raise ConflictError(f"store {paths.root}: its Lance copy was made with video {settled}, got {video}. Remove {paths.lance} first.")
    plan = _plan(source, open_table(paths, EPISODES, version=versions[EPISODES]), progress)
    newest = {table: open_table(paths, table) for table in TABLES}
    stray = [table for table in TABLES if newest[table].version != versions[table]]
    if plan.writes or plan.removed or stray:
        for table in stray:
            newest[table] = restore(newest[table], versions[table])
        versions = _write(source, plan, newest, progress)
    added = sum(write.new for write in plan.writes)
    return LanceBuild(added, len(plan.writes) - added, len(plan.removed), plan.unchanged, versions)


def _video_mode(videos: lance.LanceDataset) -> str:
    return AV1 if CODEC_COLUMN in videos.schema.names else COPY


def _ensure_tables(paths: StorePaths, video: str | None) -> dict[str, int]:
    """Return the named versions; make four empty tables first where there is no `episodes` table."""
    try:
        return table_versions(paths)
    except NotFoundError:
        pass
    settings = read_marker(paths) if (paths.root / MARKER).exists() else {}
    wanted = settings.get("lance_storage_version", STABLE)
    made: dict[str, lance.LanceDataset] = {}
    for table in DATA_TABLES:
        made[table] = _empty_table(paths, table, wanted, properties={}, video=video or COPY)
        wanted = made[table].data_storage_version
    if settings.get("lance_storage_version") != wanted:
        write_marker(paths, {**settings, "lance_storage_version": wanted})
    made[EPISODES] = _empty_table(paths, EPISODES, wanted, properties=_named(made))
    return {table: int(made[table].version) for table in TABLES}


def stable_storage_version() -> str:
    """Return the storage version that lance gives a new table; an empty one in memory says so."""
    options: dict[str, Any] = {"data_storage_version": STABLE}
    probe = lance.write_dataset(SCHEMAS[ANNOTATIONS].empty_table(), "memory://probe", session=shared_session(), **options)
    return str(probe.data_storage_version)


def _empty_table(
    paths: StorePaths, table: str, storage_version: str, *, properties: Mapping[str, str], video: str = COPY
) -> lance.LanceDataset:
    path = table_path(paths, table)
    options: dict[str, Any] = {"data_storage_version": storage_version, "mode": "overwrite" if path.exists() else "create"}
    return lance.write_dataset(
        table_schema(table, video=video).empty_table(),
        path,
        transaction_properties=dict(properties) or None,
        session=shared_session(),
        **options,
    )


def _named(tables: Mapping[str, lance.LanceDataset]) -> dict[str, str]:
    return {version_property(table): str(tables[table].version) for table in DATA_TABLES}


def _plan(source: EpisodeStore, episodes: lance.LanceDataset, progress: Progress) -> _Plan:
    columns = ["episode_id", "episode_index", "content", "media_digest", "annotations_digest"]
    known = {row["episode_id"]: row for row in episodes.to_table(columns=columns).to_pylist()}
    number = 1 + max((row["episode_index"] for row in known.values()), default=-1)
    writes, unchanged = [], 0
    ids = source.episode_ids()
    for episode_id in tracked(ids, label="lance compare", progress=progress):
        reader = source.open(episode_id)
        digests = reader.digests
        reader.close()
        old = known.get(episode_id)
        if old is not None and old["content"] == digests.content:
            unchanged += 1
        elif old is None:
            writes.append(_Write(episode_id, digests.content, True, True, True, number))
            number += 1
        else:
            media, spans = digests.media != old["media_digest"], digests.annotations != old["annotations_digest"]
            writes.append(_Write(episode_id, digests.content, False, media, spans, old["episode_index"]))
    return _Plan(tuple(writes), tuple(sorted_ids(set(known) - set(ids))), unchanged)


def _readers(source: EpisodeStore, writes: list[_Write], label: str, progress: Progress) -> Iterator[tuple[_Write, EpisodeReader]]:
    for write in tracked(writes, label=label, progress=progress):
        reader = source.open(write.episode_id, content=write.content)
        yield write, reader
        reader.close()


def _write(source: EpisodeStore, plan: _Plan, tables: dict[str, lance.LanceDataset], progress: Progress) -> dict[str, int]:
    """Stage all rows, then commit: videos, frames, annotations, and last `episodes`."""
    tables[FRAMES] = _with_feature_columns(source, plan, tables[FRAMES])
    staged = _stage_all(source, plan, tables, progress)
    leaving = {VIDEOS: plan.leaving("media"), FRAMES: plan.leaving("media"), ANNOTATIONS: plan.leaving("annotations")}
    for table in DATA_TABLES:
        tables[table] = replace_episodes(tables[table], leaving[table], fragments=staged[table], properties={})
    leaving[EPISODES] = [*plan.removed, *(write.episode_id for write in plan.writes)]
    tables[EPISODES] = replace_episodes(tables[EPISODES], leaving[EPISODES], fragments=staged[EPISODES], properties=_named(tables))
    return {table: int(tables[table].version) for table in TABLES}


def _with_feature_columns(source: EpisodeStore, plan: _Plan, frames: lance.LanceDataset) -> lance.LanceDataset:
    """Return the frames table with a column for every feature to write; a new one reads as null in old rows, without a rewrite."""
    specs = []
    for write in plan.writes:
        if write.media:
            reader = source.open(write.episode_id, content=write.content)
            specs.append(numeric_features(reader))
            reader.close()
    fields = missing_fields(frames.schema, specs)
    if fields:
        frames.add_columns(fields)
    return frames


def _stage_all(
    source: EpisodeStore, plan: _Plan, tables: Mapping[str, lance.LanceDataset], progress: Progress
) -> dict[str, list[FragmentMetadata]]:
    media = [write for write in plan.writes if write.media]
    video = _video_mode(tables[VIDEOS])
    digests: dict[str, dict[str, str]] = {}

    def videos() -> Iterator[pa.RecordBatch]:
        for write, reader in _readers(source, media, "lance videos", progress):
            batch, digests[write.episode_id] = video_rows(reader, video=video)
            yield batch

    def frames() -> Iterator[pa.RecordBatch]:
        index = _next_index(tables[FRAMES])
        for write, reader in _readers(source, media, "lance frames", progress):
            batch = frame_rows(
                reader, tables[FRAMES].schema, episode_index=write.episode_index, first_index=index, videos=digests.pop(write.episode_id)
            )
            index += batch.num_rows
            yield batch

    def annotations() -> Iterator[pa.RecordBatch]:
        wanted = [write for write in plan.writes if write.annotations]
        for _, reader in _readers(source, wanted, "lance annotations", progress):
            yield annotation_rows(reader)

    def episodes() -> Iterator[pa.RecordBatch]:
        for write, reader in _readers(source, list(plan.writes), "lance episodes", progress):
            yield episode_row(reader, episode_index=write.episode_index)

    schemas = {**SCHEMAS, VIDEOS: table_schema(VIDEOS, video=video), FRAMES: tables[FRAMES].schema}
    rows = {VIDEOS: videos, FRAMES: frames, ANNOTATIONS: annotations, EPISODES: episodes}
    return {table: stage(tables[table], rows[table](), schema=schemas[table]) for table in TABLES}


def _next_index(frames: lance.LanceDataset) -> int:
    """Return the number of the next frame row: one more than that of the last row, since rows are only ever added at the end."""
    rows = frames.count_rows()
    return 0 if rows == 0 else 1 + int(frames.to_table(columns=["index"], offset=rows - 1, limit=1)["index"][0].as_py())
