"""The one sentence per frame that LeRobot calls its task, taken from one named place and no other."""

from egodata.annotations import active_texts
from egodata.episode import EpisodeReader
from egodata.errors import InputError

META_TASKS = ("task_description", "task_name")


def frame_tasks(reader: EpisodeReader, source: str) -> list[str]:
    """Return the task of every frame; the empty string where the source says nothing there.

    Args:
        reader: The episode.
        source: ``task_description``, ``task_name``, or an annotation key; of several active texts the first stored one.

    Raises:
        InputError: Neither of these.
    """
    total = reader.meta.total_frames
    if source in META_TASKS:
        return [str(getattr(reader.meta, source))] * total
    if not source.startswith("annotations"):
        raise InputError(f"task source {source!r}: expected {', '.join(META_TASKS)} or an annotation key such as annotations_subtask.")
    spans = reader.spans(source)
    return [next(iter(active_texts(spans, frame)), "") for frame in range(total)]
