"""The episodes of one recording change together: all of them are published, or none; one that is no longer made is withdrawn.

A link is all that publishing moves, so putting it back undoes it. What was built stays as a version for the next attempt, and
`egodata gc` frees it if nothing comes to name it. A killed process is the exception: the ledger then lacks the recording, and the
next ingest does it again.
"""

from collections.abc import Callable, Sequence

from egodata.episode import EpisodeDraft
from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError
from egodata.formats.zarr import versions as on_disk
from egodata.schema.digests import EpisodeDigests
from egodata.schema.layout import StorePaths


def publish_together(
    paths: StorePaths, drafts: Sequence[EpisodeDraft], *, make: Callable[[EpisodeDraft], EpisodeDigests]
) -> dict[str, str]:
    """Publish the episodes of a recording one by one; if one fails, those before it are put back to what they were.

    Args:
        paths: The store.
        drafts: The episodes.
        make: Publishes one.

    Returns:
        Content digest by episode id.
    """
    before: dict[str, on_disk.Version | None] = {}
    contents: dict[str, str] = {}
    try:
        for draft in drafts:
            episode_id = draft.meta.episode_id
            before[episode_id] = _current(paths, episode_id)
            contents[episode_id] = make(draft).content
    except BaseException:
        for episode_id, content in contents.items():
            _put_back(paths, episode_id, content=content, to=before[episode_id])
        raise
    return contents


def withdraw_episode(paths: StorePaths, episode_id: str) -> None:
    """Stop publishing an episode: its link goes, its versions stay for datasets that name them, until `egodata gc`.

    Raises:
        ConflictError: Another process is writing it.
    """
    with on_disk.episode_lock(paths, episode_id):
        paths.episode_link(episode_id).unlink(missing_ok=True)


def _current(paths: StorePaths, episode_id: str) -> on_disk.Version | None:
    try:
        return on_disk.current_version(paths, episode_id)
    except (EpisodeNotFoundError, CorruptEpisodeError):
        return None


def _put_back(paths: StorePaths, episode_id: str, *, content: str, to: on_disk.Version | None) -> None:
    """Undo one publish, unless someone else has published another content since."""
    with on_disk.episode_lock(paths, episode_id):
        now = _current(paths, episode_id)
        if now is None or not content.startswith(now.prefix):
            return
        if to is None:
            paths.episode_link(episode_id).unlink(missing_ok=True)
        elif to.folder != now.folder:
            on_disk.point_link(paths, episode_id, version=to)
