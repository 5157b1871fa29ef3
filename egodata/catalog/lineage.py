"""Where a dataset comes from and what became of an episode: parent versions, origins of episodes, datasets that hold one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from egodata.catalog.datasets import diff_manifests
from egodata.catalog.manifest import HeadEpisode, Manifest, manifest_from_bytes
from egodata.episode import EpisodeMeta, EpisodeStore
from egodata.errors import CorruptEpisodeError, GateError, NotFoundError
from egodata.formats import open_store
from egodata.schema.canonical import json_digest, jsonable
from egodata.schema.layout import StorePaths

SHOWN = 20


def parent_note(paths: StorePaths, manifest: Manifest) -> dict[str, Any]:
    """Return what a new version's provenance says about the one that it follows; empty for the first version.

    The parent is the version of that name that no other one names as its parent; of several, the one frozen last, then the one whose
    name sorts last. An unreadable manifest is passed over: it cannot be compared with.

    Args:
        paths: The store.
        manifest: About to be written.
    """
    others = _others(paths, manifest)
    named = {str(found.provenance.get("parent", {}).get("version")) for found in others}
    leaves = [found for found in others if found.version not in named] or others
    if not leaves:
        return {}
    parent = max(leaves, key=lambda found: (str(found.provenance.get("created", "")), found.version.encode()))
    diff = diff_manifests(parent, manifest)
    counts = {"added": len(diff.added), "removed": len(diff.removed), "moved": len(diff.moved), "changed": len(diff.changed)}
    return {
        "parent": {
            "version": parent.version,
            "digest": parent.digest,
            "difference": {**counts, "settings": len(diff.settings), "lines": diff.lines(limit=SHOWN)},
        }
    }


def _others(paths: StorePaths, manifest: Manifest) -> list[Manifest]:
    folder = paths.manifest(manifest.name, manifest.version).parent.parent
    found = []
    for path in sorted(folder.glob("*/manifest.json")):
        try:
            found.append(manifest_from_bytes(path.read_bytes(), where=f"dataset {manifest.name}@{path.parent.name}"))
        except GateError:
            continue
    return found


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one episode of a dataset came from, as the episode itself says at the content that the dataset recorded.

    Attributes:
        episode_id: The episode.
        head: Head of the dataset.
        frames: Its length.
        content: Content digest.
        recording_id: Capture that it was cut from.
        vendor: Who delivered it.
        delivery: Batch as received.
        uri: Where its raw files lay; empty where the episode does not say.
        raw: Digest over the raw files; empty likewise.
        parts: Raw digest by part.
        converter: Converter and version, such as ``mecka/1``.
        settings: Digest of the converter's settings.
    """

    episode_id: str
    head: str
    frames: int
    content: str
    recording_id: str
    vendor: str
    delivery: str
    uri: str
    raw: str
    parts: Mapping[str, str]
    converter: str
    settings: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in asdict(self).items()}


def origins(paths: StorePaths, manifest: Manifest) -> tuple[list[Origin], list[str]]:
    """Return the origin of every episode of a dataset, in its order, and the ids of those that no format holds any more.

    Args:
        paths: The store.
        manifest: The dataset.
    """
    stores = [open_store(paths, "zarr")]
    if manifest.lance_versions is not None:
        stores.append(open_store(paths, "lance", versions=manifest.lance_versions))
    found, gone = [], []
    for head, members in manifest.heads.items():
        for episode in members:
            meta = _meta(stores, episode)
            if meta is None:
                gone.append(episode.episode_id)
            else:
                found.append(_origin(episode, head, meta))
    return found, gone


def _meta(stores: Sequence[EpisodeStore], episode: HeadEpisode) -> EpisodeMeta | None:
    for store in stores:
        try:
            reader = store.open(episode.episode_id, content=episode.content)
        except (NotFoundError, CorruptEpisodeError):
            continue
        try:
            return reader.meta
        finally:
            reader.close()
    return None


def _origin(episode: HeadEpisode, head: str, meta: EpisodeMeta) -> Origin:
    source, processing = dict(meta.provenance.get("source", {})), dict(meta.processing)
    return Origin(
        episode.episode_id,
        head,
        episode.frames,
        episode.content,
        episode.recording,
        meta.vendor,
        meta.delivery,
        str(source.get("uri", "")),
        str(source.get("raw", "")),
        {str(part): str(digest) for part, digest in dict(source.get("parts", {})).items()},
        f"{processing.get('converter', 'unknown')}/{processing.get('version', 'unknown')}",
        json_digest(jsonable(dict(processing.get("settings", {})))),
    )


@dataclass(frozen=True, slots=True)
class Use:
    """A dataset that holds an episode.

    Attributes:
        dataset: ``name@version``.
        digest: Of the dataset.
        head: Head that the episode is in.
        content: Content digest that the dataset recorded.
    """

    dataset: str
    digest: str
    head: str
    content: str


def uses(paths: StorePaths, episode_id: str) -> list[Use]:
    """Return every dataset of a store that holds an episode or a clip of that recording, sorted by name and version.

    Args:
        paths: The store.
        episode_id: Episode or recording.

    Raises:
        GateError: A manifest cannot be read: nobody knows what it holds.
    """
    found = []
    for path in sorted(paths.datasets.glob("*/*/manifest.json")):
        manifest = manifest_from_bytes(path.read_bytes(), where=f"dataset {path.parent.parent.name}@{path.parent.name}")
        found += [
            Use(manifest.ref, manifest.digest, head, episode.content)
            for head, members in manifest.heads.items()
            for episode in members
            if episode_id in (episode.episode_id, episode.recording)
        ]
    return found
