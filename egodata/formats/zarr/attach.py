"""Attaching annotations or calibration to a published episode: a new version that shares unchanged files by hard link."""

import json
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

import zarr

from egodata.annotations import Annotations, Span
from egodata.calibration import Calibration, calibration_attributes
from egodata.errors import ConflictError, CorruptEpisodeError, SchemaError
from egodata.formats.zarr import versions as on_disk
from egodata.formats.zarr.publish import annotation_problems, building, structure_problems, writing
from egodata.formats.zarr.reader import ZarrEpisode
from egodata.formats.zarr.write import annotations_digest, write_annotations
from egodata.schema.digests import EpisodeDigests, calibration_digest
from egodata.schema.layout import StorePaths

_ROOT = "zarr.json"
_CALIBRATION_KEYS = ("calibration", "intrinsics", "extrinsics")


class _Change(Protocol):
    def __call__(self, root: dict[str, Any], digests: EpisodeDigests, *, old: ZarrEpisode) -> EpisodeDigests:
        """Change the attributes in place and return the digests afterwards."""
        ...


def attach_annotations(
    paths: StorePaths, episode_id: str, annotations: Annotations, *, expected: str, structure: Annotations | None = None
) -> EpisodeDigests:
    """Replace all annotation keys of an episode, and its structural spans where they are given.

    Args:
        paths: The store.
        episode_id: A published episode.
        annotations: Every key it shall have; ``{}`` removes all.
        expected: Content digest that the caller saw; the compare of compare-and-swap.
        structure: Every key of structural spans that it shall have; None keeps those that it has.

    Returns:
        The digests afterwards; the same as before if nothing differs.

    Raises:
        EpisodeNotFoundError: No such episode.
        ConflictError: Its content is no longer `expected`, or another process is writing it.
        SchemaError: A key or a span breaks the format.
    """
    wanted: dict[str, Sequence[Span]] = dict(annotations)

    def change(root: dict[str, Any], digests: EpisodeDigests, *, old: ZarrEpisode) -> EpisodeDigests:
        given = {key: old.spans(key) or () for key in old.structure_keys} if structure is None else structure
        total = int(root["attributes"]["total_frames"])
        problems = [*annotation_problems(annotations, total), *structure_problems(given, total, taken=old.meta.features)]
        if problems:
            raise SchemaError(f"episode {episode_id}: {'; '.join(problems[:5])}")
        wanted.update(given)
        return EpisodeDigests(digests.media, annotations_digest(wanted), digests.calibration, digests.meta)

    def write(group: Path) -> None:
        write_annotations(zarr.open_group(str(group), mode="r+"), wanted)

    return _attach(paths, episode_id, expected=expected, change=change, write=write)


def attach_calibration(paths: StorePaths, episode_id: str, calibration: Calibration | None, *, expected: str) -> EpisodeDigests:
    """Replace the calibration of an episode; None makes it unknown.

    Args:
        paths: The store.
        episode_id: A published episode.
        calibration: Scaled to the stored size.
        expected: Content digest that the caller saw.

    Returns:
        The digests afterwards; the same as before if nothing differs.

    Raises:
        EpisodeNotFoundError: No such episode.
        ConflictError: Its content is no longer `expected`, or another process is writing it.
    """

    def change(root: dict[str, Any], digests: EpisodeDigests, *, old: ZarrEpisode) -> EpisodeDigests:
        kept = {key: value for key, value in root["attributes"].items() if key not in _CALIBRATION_KEYS}
        root["attributes"] = {**kept, **calibration_attributes(calibration)}
        return EpisodeDigests(digests.media, digests.annotations, calibration_digest(root["attributes"]), digests.meta)

    return _attach(paths, episode_id, expected=expected, change=change)


def _attach(
    paths: StorePaths,
    episode_id: str,
    *,
    expected: str,
    change: _Change,
    write: Callable[[Path], None] | None = None,
) -> EpisodeDigests:
    """Publish a version with other attributes, and with other spans where `write` writes all of them."""
    on_disk.current_version(paths, episode_id)
    with writing(paths, episode_id), on_disk.episode_lock(paths, episode_id) as folder:
        version = on_disk.current_version(paths, episode_id)
        integrity = on_disk.read_integrity(version)
        if integrity.content != expected:
            raise ConflictError(
                f"episode {episode_id}: expected content {expected[:16]}, it is {integrity.content[:16]} now. Read it again and repeat."
            )
        root = _read_root(version.group / _ROOT, episode_id)
        before = stored_digests(root["attributes"], episode_id)
        old = ZarrEpisode(version.group, episode_id)
        after = change(root, before, old=old)
        if after == before:
            return before
        build = folder / on_disk.BUILD
        with building(build):
            drop = {*old.annotation_keys, *old.structure_keys} if write is not None else set()
            shared = _link_files(version, build / on_disk.GROUP, integrity, drop=drop)
            root["attributes"]["digests"] = after.to_json()
            (build / on_disk.GROUP / _ROOT).write_text(json.dumps(root, indent=2, ensure_ascii=False))
            if write is not None:
                write(build / on_disk.GROUP)
            on_disk.seal(build, content=after.content, known=shared)
            on_disk.publish_build(paths, episode_id, content=after.content)
    return after


def _read_root(path: Path, episode_id: str) -> dict[str, Any]:
    try:
        root = json.loads(path.read_bytes())
        return {**root, "attributes": dict(root["attributes"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptEpisodeError(f"episode {episode_id}: its zarr.json cannot be read ({error}). Rebuild the episode.") from error


def stored_digests(attributes: dict[str, Any], episode_id: str) -> EpisodeDigests:
    """Return the digests that an episode's attributes state.

    Raises:
        CorruptEpisodeError: They are missing.
    """
    try:
        found = attributes["digests"]
        return EpisodeDigests(found["media"], found["annotations"], found["calibration"], found["meta"])
    except (KeyError, TypeError) as error:
        raise CorruptEpisodeError(f"episode {episode_id}: attribute digests is missing or malformed. Rebuild the episode.") from error


def _link_files(
    version: on_disk.Version, group: Path, integrity: on_disk.Integrity, *, drop: Collection[str]
) -> dict[str, on_disk.FileRecord]:
    """Hard-link all listed files but the root's zarr.json and those of the arrays named in `drop`; returns their records."""
    shared = {}
    for name, record in integrity.files.items():
        if name == _ROOT or name.partition("/")[0] in drop:
            continue
        target = group / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(version.group / name, target)
        except FileNotFoundError as error:
            raise CorruptEpisodeError(f"episode {version.folder.parent.name}: file {name} is missing. Rebuild the episode.") from error
        except OSError:
            shutil.copy2(version.group / name, target)  # a file system without hard links
        shared[name] = record
    return shared
