"""Stores of schema v3.0 and v3.1 as a source: `egodata ingest FOLDER --vendor zarr_v3 --declare anat-v1`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from egodata.errors import ConfigError, CorruptEpisodeError, InputError, SchemaError
from egodata.findings import Finding, Severity
from egodata.formats.zarr.legacy import LegacyEpisode, legacy_draft, legacy_groups, needs_declaration
from egodata.names import nearest
from egodata.schema.features import HAND_FRAME_CONVENTIONS
from egodata.schema.ids import ANNOTATION_PREFIX, EPISODE_ID
from egodata.vendors import Discovery, Drafts, RecordingRef, Refused, SetAside, VendorOptions
from egodata.vendors.files import is_inside


class ZarrV3:
    """Reads old episodes; see `egodata.vendors.Vendor`. Their ids are those of their files and count as unique."""

    name = "zarr_v3"
    version = 1
    unique_ids = True

    def discover(self, delivery: Path, options: VendorOptions) -> Discovery:
        """List the old episodes of a folder, or the one that it is.

        Raises:
            InputError: There are none.
        """
        groups = legacy_groups(delivery)
        if not groups:
            raise InputError(f"raw {delivery}: no zarr group of schema v3 there. Point RAW at a folder of <id>.zarr folders.")
        root = delivery.parent if delivery in groups.values() else delivery
        refs, refused = [], []
        for episode_id, group in groups.items():
            files = sorted(path for path in group.rglob("*") if path.is_file())
            ref = RecordingRef(episode_id, self.name, options.dataset, options.delivery, root, _parts(group, files))
            if not EPISODE_ID.fullmatch(episode_id):
                refused.append(_refused(replace(ref, id=_safe(episode_id)), episode_id, "id-not-allowed", "expected A-Z a-z 0-9 _ -"))
            elif not all(is_inside(group, path) for path in files):
                refused.append(_refused(ref, episode_id, "path-outside", "a link in it leads out of the episode"))
            else:
                refs.append(ref)
        return Discovery(tuple(refs), (), tuple(refused))

    def read(self, ref: RecordingRef, options: VendorOptions) -> Drafts:
        """Read one old episode.

        Raises:
            SetAside: It cannot be read, breaks the format, or its hand frame is not declared.
        """
        reader = LegacyEpisode(ref.root / f"{ref.id}.zarr", ref.id)
        try:
            if options.declare is None and needs_declaration(reader.meta):
                message = (
                    f"episode {ref.id}: hand rotations of an undeclared convention. Say which with --declare anat-v1 or mirror-left-v1."
                )
                raise SetAside((Finding("hand-frame-undeclared", Severity.ERROR, ref.id, message),))
            draft = legacy_draft(reader, declared=options.declare, dataset=options.dataset, delivery=options.delivery)
        except CorruptEpisodeError as error:
            raise SetAside((Finding("v3-unreadable", Severity.ERROR, ref.id, str(error)),)) from error
        except SchemaError as error:
            raise SetAside((Finding("v3-not-convertible", Severity.ERROR, ref.id, str(error)),)) from error
        if draft.meta.episode_id != ref.id:
            draft = replace(draft, meta=replace(draft.meta, episode_id=ref.id, recording_id=ref.id))
        return Drafts((draft,))

    def settings(self, options: VendorOptions) -> dict[str, Any]:
        """Return what is declared about the store.

        Raises:
            ConfigError: The declared hand frame is not known.
        """
        known = [name for name in HAND_FRAME_CONVENTIONS if name != "unknown"]
        if options.declare is not None and options.declare not in known:
            raise ConfigError(f"--declare {options.declare!r}: not a hand frame convention; {nearest(options.declare, known)}")
        return {"declare": options.declare}


def _parts(group: Path, files: list[Path]) -> dict[str, tuple[Path, ...]]:
    texts = tuple(path for path in files if path.relative_to(group).parts[0].startswith(ANNOTATION_PREFIX))
    return {"media": tuple(path for path in files if path not in set(texts)), "annotations": texts, "calibration": (group / "zarr.json",)}


def _safe(text: str) -> str:
    return "".join(char if EPISODE_ID.fullmatch(char) else "_" for char in text)[:96] or "_"


def _refused(ref: RecordingRef, episode_id: str, code: str, why: str) -> Refused:
    return Refused(ref, (Finding(code, Severity.ERROR, episode_id, f"episode {episode_id!r}: {why}."),))


SOURCE = ZarrV3()
