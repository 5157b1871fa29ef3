"""Which frozen datasets of a store keep working, and on which formats."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egodata.catalog.manifest import HeadEpisode, Manifest, manifest_from_bytes
from egodata.catalog.presence import absent_contents
from egodata.catalog.withdrawn import is_withdrawn
from egodata.episode import EpisodeStore
from egodata.errors import EgodataError, NotFoundError
from egodata.formats import FORMATS, open_store
from egodata.progress import Progress, silent, tracked
from egodata.schema.layout import StorePaths

WORKS, LACKS, WITHDRAWN, UNREADABLE = "works", "lacks", "withdrawn", "unreadable"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """One frozen dataset.

    Attributes:
        ref: ``name@version``.
        state: ``works`` (a format at least holds every content), ``lacks``, ``withdrawn`` or ``unreadable``.
        formats: Per format what it lacks, in words; empty where it holds every recorded content.
        episodes: How many it names.
        outdated: How many of them are at contents of outdated recordings.
        why: Why it cannot be read.
    """

    ref: str
    state: str
    formats: Mapping[str, str] = field(default_factory=dict)
    episodes: int = 0
    outdated: int = 0
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "dataset": self.ref,
            "state": self.state,
            "formats": dict(self.formats),
            "episodes": self.episodes,
            "outdated": self.outdated,
            "why": self.why,
        }


def standings(paths: StorePaths, outdated: Collection[tuple[str, str]], *, progress: Progress = silent) -> list[Standing]:
    """Look for every content that a frozen dataset recorded, on both formats; nothing is decoded.

    Args:
        paths: The store.
        outdated: Id and content of the episodes of outdated recordings.
        progress: Told per dataset.
    """
    manifests = sorted(paths.datasets.glob("*/*/manifest.json"), key=lambda path: path.parts[-3:-1])
    return [_standing(paths, path, outdated) for path in tracked(manifests, label="datasets", progress=progress)]


def _standing(paths: StorePaths, path: Path, outdated: Collection[tuple[str, str]]) -> Standing:
    ref = f"{path.parent.parent.name}@{path.parent.name}"
    if is_withdrawn(path):
        return Standing(ref, WITHDRAWN)
    try:
        manifest = manifest_from_bytes(path.read_bytes(), where=f"dataset {ref}")
    except (EgodataError, OSError) as error:
        return Standing(ref, UNREADABLE, why=str(error))
    members = {(episode.episode_id, episode.content) for head in manifest.heads.values() for episode in head}
    formats = {format: _lacking(paths, manifest, format) for format in FORMATS}
    state = WORKS if "" in formats.values() else LACKS
    return Standing(ref, state, formats, len(members), len(members & set(outdated)))


def _lacking(paths: StorePaths, manifest: Manifest, format: str) -> str:
    """Say what a format lacks of a dataset; nothing if it lacks nothing."""
    if format == "lance" and not paths.lance.is_dir():
        return "no Lance copy"
    try:
        store: EpisodeStore = open_store(paths, format, versions=manifest.lance_versions)
        missing = absent_contents(manifest, store)
    except NotFoundError:
        return "no Lance copy" if format == "lance" else "no episodes"
    except EgodataError as error:
        return str(error)
    return "" if not missing else f"{len(missing)} of its contents are gone: {', '.join(map(_named, missing[:_NAMED]))}{_more(missing)}"


def _named(item: tuple[str, HeadEpisode]) -> str:
    head, episode = item
    return f"{episode.episode_id} ({head}, content {episode.content[:16]})"


def _more(items: Collection[object]) -> str:
    return f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
