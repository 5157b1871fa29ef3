"""Rows of the catalog: what a rule may ask about an episode without opening it."""

from dataclasses import dataclass


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
        annotation_keys: Keys that are present, empty ones included, sorted.
        cameras: Camera names, sorted.
        has_calibration: Whether a calibration is known.
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


def qualified_operator(vendor: str, operator: str | None) -> str | None:
    """Qualify a vendor's user id for the catalog: ``mecka`` and ``68ab`` give ``mecka/68ab``; unknown stays None."""
    return None if operator is None else f"{vendor}/{operator}"
