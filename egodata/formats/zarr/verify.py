"""Checking a stored episode against its own records: every file, and every digest recomputed from content."""

from egodata.annotations import encode_span
from egodata.errors import CorruptEpisodeError, EgodataError, NotFoundError
from egodata.findings import Finding, Severity
from egodata.formats.zarr import versions as on_disk
from egodata.formats.zarr.reader import ZarrEpisode
from egodata.formats.zarr.store import ZarrStore
from egodata.schema.digests import EpisodeDigests, array_digest, calibration_digest, combined_digest, elements_digest, meta_digest
from egodata.schema.features import camera_key
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


def recomputed_digests(reader: ZarrEpisode) -> EpisodeDigests:
    """Compute an episode's digests from what its reader gives.

    Raises:
        CorruptEpisodeError: Something cannot be read.
    """
    meta, parts = reader.meta, {}
    for key in meta.numeric_keys:
        parts[key] = array_digest(key, reader.rows([key], [(0, meta.total_frames)])[key])
    for camera in meta.cameras:
        chunks = reader.video_info(camera).chunks
        elements = (reader.video_chunk(camera, number) for number in range(chunks))
        parts[camera_key(camera)] = elements_digest(camera_key(camera), elements, count=chunks)
    spans = {key: reader.spans(key) or () for key in reader.annotation_keys}
    texts = {key: elements_digest(key, [encode_span(span) for span in found], count=len(found)) for key, found in spans.items()}
    return EpisodeDigests(
        media=combined_digest(parts),
        annotations=combined_digest(texts),
        calibration=calibration_digest(reader.attributes),
        meta=meta_digest(reader.attributes),
    )


def _digest_findings(reader: ZarrEpisode, episode_id: str, content: str) -> list[Finding]:
    stored, computed = {**reader.digests.to_json(), "recorded content": content}, recomputed_digests(reader).to_json()
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
