"""Rows of the catalog: what a rule may ask about an episode without opening it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from egodata.episode import EpisodeReader, EpisodeStore
from egodata.schema.layout import StorePaths

_SAME = (
    *("episode_id", "recording_id", "clip_index", "vendor", "dataset", "delivery", "session", "task_name", "embodiment"),
    *("n_frames", "fps_num", "fps_den", "content"),
)
"""Columns of the Lance table `episodes` that have the row's own name."""
_COLUMNS = (*_SAME, "clip_aliased", "operator", "media_digest", "annotation_keys", "cameras")


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """One episode in the catalog, the same whichever format it was read from.

    Attributes:
        episode_id: Unit of identity, split and storage.
        recording_id: Capture that the episode was cut from.
        clip_index: Position among the recording's clips.
        aliased: Whether the vendor or a registry gave this clip its episode id.
        vendor: Who delivered.
        dataset: Name given at ingest.
        delivery: Batch as received.
        operator: Qualified by vendor, such as ``mecka/6871...``; None where unknown.
        session: Collection session; None where unknown.
        task_name: Short name of the task.
        embodiment: Canonical name.
        n_frames: Frames in the episode.
        fps_num: Numerator of frames per second.
        fps_den: Denominator of frames per second.
        content: Content digest, 64 hex digits.
        media: Media digest, 64 hex digits; leakage checks compare it.
        annotation_keys: Keys of spans that are present, of texts and structural, empty ones included, sorted.
        cameras: Camera names, sorted.
        has_calibration: Whether a calibration is known.
        scene: From the registry; None where it says nothing.
        lab: From the registry.
        licence: Of the delivery; None where nobody said.
        consent: Of the delivery; None where nobody said.
        deleted: Whether the registry marks the episode as deleted.
        vendor_operator: The vendor's own, where `operator` is the registry's; else equal to it.
        vendor_task: Likewise for `task_name`.
    """

    episode_id: str
    recording_id: str
    clip_index: int
    aliased: bool
    vendor: str
    dataset: str
    delivery: str
    operator: str | None
    session: str | None
    task_name: str
    embodiment: str
    n_frames: int
    fps_num: int
    fps_den: int
    content: str
    media: str
    annotation_keys: tuple[str, ...]
    cameras: tuple[str, ...]
    has_calibration: bool
    scene: str | None = None
    lab: str | None = None
    licence: str | None = None
    consent: str | None = None
    deleted: bool = False
    vendor_operator: str | None = None
    vendor_task: str | None = None


def qualified_operator(vendor: str, operator: str | None) -> str | None:
    """Qualify a vendor's user id for the catalog: ``mecka`` and ``68ab`` give ``mecka/68ab``; unknown stays None."""
    return None if operator is None else f"{vendor}/{operator}"


def catalog_from_store(store: EpisodeStore) -> list[CatalogRow]:
    """Read the catalog through the readers of any format, one episode at a time; rows are sorted by id."""
    rows = []
    for episode_id in store.episode_ids():
        reader = store.open(episode_id)
        rows.append(catalog_row(reader))
        reader.close()
    return rows


def catalog_row(reader: EpisodeReader) -> CatalogRow:
    """Return the catalog row of one open episode."""
    meta, digests = reader.meta, reader.digests
    return CatalogRow(
        episode_id=meta.episode_id,
        recording_id=meta.recording_id,
        clip_index=meta.clip.index,
        aliased=meta.clip.aliased,
        vendor=meta.vendor,
        dataset=meta.dataset,
        delivery=meta.delivery,
        operator=qualified_operator(meta.vendor, meta.operator),
        session=meta.session,
        task_name=meta.task_name,
        embodiment=meta.embodiment,
        n_frames=meta.total_frames,
        fps_num=meta.fps.numerator,
        fps_den=meta.fps.denominator,
        content=digests.content,
        media=digests.media,
        annotation_keys=tuple(sorted({*reader.annotation_keys, *reader.structure_keys})),
        cameras=meta.cameras,
        has_calibration=reader.calibration is not None,
        vendor_operator=qualified_operator(meta.vendor, meta.operator),
        vendor_task=meta.task_name,
    )


def catalog_from_lance(paths: StorePaths, *, versions: Mapping[str, int] | None = None) -> list[CatalogRow]:
    """Read the catalog in one scan of the Lance table `episodes`; rows are sorted by id.

    Args:
        paths: The store.
        versions: Version by table name; by default what the newest commit names.

    Raises:
        NotFoundError: The store has no Lance copy, or not that version.
    """
    from egodata.formats.lance import read_episodes  # only this function needs lance

    wanted = {**{name: name for name in _COLUMNS}, "has_calibration": "calibration IS NOT NULL"}
    rows = [_row_of(values) for values in read_episodes(paths, wanted, versions=versions)]
    return sorted(rows, key=lambda row: row.episode_id.encode())


def _row_of(values: Mapping[str, Any]) -> CatalogRow:
    return CatalogRow(
        **{name: values[name] for name in _SAME},
        aliased=values["clip_aliased"],
        operator=qualified_operator(values["vendor"], values["operator"]),
        media=values["media_digest"],
        annotation_keys=tuple(values["annotation_keys"]),
        cameras=tuple(values["cameras"]),
        has_calibration=values["has_calibration"],
        vendor_operator=qualified_operator(values["vendor"], values["operator"]),
        vendor_task=values["task_name"],
    )
