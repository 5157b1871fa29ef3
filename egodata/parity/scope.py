"""Which episodes a check looks at, and opening each in both formats so that a missing or damaged one is a finding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from egodata.catalog.manifest import Manifest
from egodata.catalog.rows import CatalogRow, catalog_row
from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError, FeatureNotFoundError, NotFoundError, VideoError, WindowError
from egodata.findings import Finding, Severity
from egodata.formats import open_store
from egodata.names import nearest
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths

READ_ERRORS = (CorruptEpisodeError, FeatureNotFoundError, VideoError, WindowError)
"""What reading a damaged episode raises."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is checked.

    Attributes:
        zarr: The published episodes.
        lance: Their copy.
        ids: Episode ids in order.
        contents: Content digest by id, where a dataset recorded it; else empty.
    """

    zarr: EpisodeStore
    lance: EpisodeStore
    ids: tuple[str, ...]
    contents: Mapping[str, str]


def make_scope(paths: StorePaths, *, episode_ids: Sequence[str] | None, dataset: Manifest | None) -> Scope:
    """Open both stores and choose the episodes.

    Args:
        paths: The store.
        episode_ids: Only these; None for all of the dataset, or of both formats.
        dataset: Fixes contents and table versions.

    Raises:
        NotFoundError: The store has no Lance copy, or an episode asked for is in neither format or not in the dataset.
    """
    zarr = open_store(paths, "zarr")
    lance = open_store(paths, "lance", versions=None if dataset is None else dataset.lance_versions)
    contents: dict[str, str] = {}
    if dataset is not None:
        contents = {episode.episode_id: episode.content for episodes in dataset.heads.values() for episode in episodes}
    known = set(contents) if dataset is not None else {*zarr.episode_ids(), *lance.episode_ids()}
    wanted = known if episode_ids is None else set(episode_ids)
    unknown = sorted_ids(wanted - known)
    if unknown:
        where = f"dataset {dataset.ref}" if dataset is not None else f"store {paths.root}, neither format"
        raise NotFoundError(f"{where}: no episode {unknown[0]}; {nearest(unknown[0], known)}")
    return Scope(zarr, lance, tuple(sorted_ids(wanted)), contents)


def open_episode(store: EpisodeStore, episode_id: str, *, scope: Scope) -> EpisodeReader | Finding:
    """Open an episode at the content that the scope asks for, its attributes read; a finding where that fails."""
    content = scope.contents.get(episode_id)
    name = "zarr" if store is scope.zarr else "lance"
    try:
        reader = store.open(episode_id, content=content)
        reader.meta, reader.digests  # noqa: B018  read lazily; damage shows here
    except EpisodeNotFoundError as error:
        behind = name == "lance" and content is None
        reason = "lance does not have it. Run `egodata lance build`." if behind else str(error)
        message = f"episode {episode_id}: nothing to compare with: {reason}"
        return Finding("parity-missing", Severity.ERROR, episode_id, message, stream=name, content=content or "")
    except READ_ERRORS as error:
        return Finding("parity-unreadable", Severity.ERROR, episode_id, str(error), stream=name, content=content or "")
    return reader


def read_catalog(store: EpisodeStore, scope: Scope) -> tuple[list[CatalogRow], list[Finding]]:
    """Return the catalog rows of the scope's episodes in one format, and the episodes that cannot be opened."""
    rows, findings = [], []
    for episode_id in scope.ids:
        reader = open_episode(store, episode_id, scope=scope)
        if isinstance(reader, Finding):
            findings.append(reader)
            continue
        rows.append(catalog_row(reader))
        reader.close()
    return rows, findings
