"""A cheap look at a published episode: are all its files there, and of the size that was recorded?

Ingest does this for every recording that it skips. Bytes that changed within a file of the same size are seen by `egodata verify`,
which reads everything.
"""

import os

from egodata.errors import CorruptEpisodeError, NotFoundError
from egodata.formats.zarr.versions import current_version, read_integrity
from egodata.schema.layout import StorePaths


def damage_seen(paths: StorePaths, episode_id: str) -> str | None:
    """Compare the sizes of an episode's files with its record.

    Args:
        paths: The store.
        episode_id: Built before.

    Returns:
        What is wrong with the first file that differs, or with the episode; None if all sizes agree.
    """
    try:
        version = current_version(paths, episode_id)
        integrity = read_integrity(version)
    except (NotFoundError, CorruptEpisodeError) as error:
        return str(error)
    for name, record in integrity.files.items():
        try:
            size = os.lstat(version.group / name).st_size
        except OSError:
            return f"episode {episode_id}: {name} is missing"
        if size != record.size:
            return f"episode {episode_id}: {name} has {size} bytes, recorded are {record.size}"
    return None
