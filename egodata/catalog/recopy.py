"""Giving frozen datasets their Lance copy back after the tables were made anew: what they recorded may be older than what is published."""

from collections.abc import Mapping
from dataclasses import dataclass

from egodata.catalog.datasets import list_datasets, load_dataset
from egodata.catalog.manifest import Manifest
from egodata.catalog.rows import catalog_from_lance
from egodata.catalog.withdrawn import is_withdrawn
from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import GateError, NotFoundError
from egodata.formats import open_store
from egodata.progress import Progress, silent
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths


@dataclass(frozen=True, slots=True)
class Recopied:
    """What `recopy_datasets` did.

    Attributes:
        restored: Datasets whose recorded contents are in the Lance copy again, ``name@version``.
        lost: Datasets with a content that neither format holds any more.
    """

    restored: tuple[str, ...]
    lost: tuple[str, ...]


class _AsRecorded:
    """The published episodes, but those of a dataset at the contents that it recorded."""

    def __init__(self, store: EpisodeStore, held: Mapping[str, str]) -> None:
        self._store, self._held = store, held

    def episode_ids(self) -> list[str]:
        return sorted_ids({*self._store.episode_ids(), *self._held})

    def open(self, episode_id: str, *, content: str | None = None) -> EpisodeReader:
        return self._store.open(episode_id, content=content or self._held.get(episode_id))


def recopy_datasets(paths: StorePaths, *, progress: Progress = silent) -> Recopied:
    """Write recorded contents that the Lance copy lacks and the zarr episodes still hold, in a commit per dataset, and tag it.

    Afterwards the newest commit may hold those older contents: build the Lance copy once more. Where nothing is lacking nothing is
    written and no tag is moved.

    Args:
        paths: The store; it has a Lance copy.
        progress: Told per episode.
    """
    from egodata.formats.lance import build_lance, tag_dataset  # lance is loaded only where its copy is written

    restored, lost = [], []
    for name, version, _ in list_datasets(paths):
        if is_withdrawn(paths.manifest(name, version)):
            continue
        try:
            manifest = load_dataset(paths, f"{name}@{version}")
        except GateError:
            continue  # an unreadable manifest is named where it is used
        if manifest.lance_versions is None or not _lacking(paths, manifest, format="lance"):
            continue
        if _lacking(paths, manifest, format="zarr"):
            lost.append(manifest.ref)
            continue
        held = _held(manifest)
        built = build_lance(paths, source=_AsRecorded(open_store(paths, "zarr"), held), progress=progress)
        tag_dataset(paths, manifest.digest, versions=built.versions)
        restored.append(manifest.ref)
    return Recopied(tuple(restored), tuple(lost))


def _held(manifest: Manifest) -> dict[str, str]:
    return {episode.episode_id: episode.content for members in manifest.heads.values() for episode in members}


def _lacking(paths: StorePaths, manifest: Manifest, *, format: str) -> list[str]:
    """Return the episodes that a format does not hold at the contents that a dataset recorded."""
    store = open_store(paths, format)
    present = {(row.episode_id, row.content) for row in catalog_from_lance(paths)} if format == "lance" else set()
    lacking = []
    for episode_id, content in _held(manifest).items():
        if (episode_id, content) in present:
            continue
        try:
            store.open(episode_id, content=content).close()
        except NotFoundError:
            lacking.append(episode_id)
    return lacking
