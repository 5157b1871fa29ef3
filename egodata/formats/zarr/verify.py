"""Checking a stored episode against its own records: every file, and every digest recomputed from content."""

from egodata.episode import computed_digests
from egodata.errors import CorruptEpisodeError, EgodataError, NotFoundError
from egodata.findings import Finding, Severity
from egodata.formats.zarr import versions as on_disk
from egodata.formats.zarr.reader import ZarrEpisode
from egodata.formats.zarr.store import ZarrStore
from egodata.schema.layout import StorePaths


def verify_episode(paths: StorePaths, episode_id: str, *, content: str | None = None) -> list[Finding]:
    """Verify one version of an episode.

    Args:
        paths: The store.
        episode_id: A published episode.
        content: Which content; None for the current version.

    Returns:
        Findings of severity error: files missing, changed or unlisted, unreadable content, digests that do not match. Empty if good.

    Raises:
        EpisodeNotFoundError: No such episode or content.
    """
    try:
        version = ZarrStore(paths).find_version(episode_id, content=content)
        integrity = on_disk.read_integrity(version)
    except NotFoundError:
        raise
    except CorruptEpisodeError as error:
        return [_finding("integrity-missing", episode_id, message=str(error))]
    found = [
        _finding(code, episode_id, stream=name, expected=expected, got=got, content=integrity.content)
        for code, name, expected, got in on_disk.check_files(version, integrity)
    ]
    reader = ZarrEpisode(version.group, episode_id)
    try:
        found += _digest_findings(reader, episode_id, integrity.content)
    except EgodataError as error:
        found.append(_finding("episode-unreadable", episode_id, message=str(error), content=integrity.content))
    finally:
        reader.close()
    return found


def _digest_findings(reader: ZarrEpisode, episode_id: str, content: str) -> list[Finding]:
    stored, computed = {**reader.digests.to_json(), "recorded content": content}, computed_digests(reader, reader.attributes).to_json()
    computed["recorded content"] = computed["content"]
    return [
        _finding("digest-mismatch", episode_id, stream=name, expected=stored[name][:16], got=computed[name][:16], content=content)
        for name in stored
        if stored[name] != computed[name]
    ]


def _finding(
    code: str, episode_id: str, *, stream: str = "", expected: str = "", got: str = "", content: str = "", message: str = ""
) -> Finding:
    text = message or f"{stream}: expected {expected}, got {got}. Rebuild the episode from its delivery."
    return Finding(code, Severity.ERROR, episode_id, text, stream=stream, expected=expected, got=got, content=content)
