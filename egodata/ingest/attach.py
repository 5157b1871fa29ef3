"""Attach only annotations or only calibration from raw files to published episodes."""

from dataclasses import dataclass
from pathlib import Path

from egodata.errors import InputError, NotFoundError
from egodata.findings import Finding
from egodata.formats.zarr import attach_annotations, attach_calibration
from egodata.ingest.build import published_content
from egodata.ingest.observe import vendor_options
from egodata.ingest.options import IngestOptions
from egodata.ingest.sources import get_source
from egodata.names import nearest
from egodata.schema.layout import StorePaths
from egodata.vendors import RecordingRef, VendorOptions

ATTACHABLE = ("annotations", "calibration")


@dataclass(frozen=True, slots=True)
class AttachReport:
    """What an attachment did.

    Attributes:
        contents: Content digest by episode id, afterwards.
        changed: Episodes that got a new version; none where everything was equal.
        findings: What reading the recording noted.
    """

    recording: str
    part: str
    contents: dict[str, str]
    changed: tuple[str, ...]
    findings: tuple[Finding, ...]


def attach_from_raw(paths: StorePaths, raw: Path, *, recording: str, part: str, options: IngestOptions) -> AttachReport:
    """Read a recording's annotations or calibration from its raw files and attach them to its published episodes.

    Doing it again changes nothing.

    Args:
        paths: The store.
        raw: The delivery's folder.
        recording: Recording id.
        part: ``annotations`` or ``calibration``.
        options: Vendor, dataset, delivery and config, as for `ingest`; the rest is not used.

    Raises:
        InputError: `part` is another word.
        NotFoundError: The delivery has no such recording.
        EpisodeNotFoundError: The recording was not built.
        ConflictError: Someone else published the episode meanwhile.
        SetAside: The recording cannot be read.
    """
    filled = vendor_options(raw, dataset=options.dataset, delivery=options.delivery, config=options.config, declare=options.declare)
    by_id = {ref.id: ref for ref in get_source(options.vendor).discover(raw.resolve(), filled).recordings}
    if recording not in by_id:
        raise NotFoundError(f"recording {recording}: not in delivery {raw}; {nearest(recording, by_id)}")
    return attach_recording(paths, by_id[recording], part=part, options=filled)


def attach_recording(paths: StorePaths, ref: RecordingRef, *, part: str, options: VendorOptions) -> AttachReport:
    """Do what `attach_from_raw` does, for a recording that was found before: many of one delivery need only one look at it.

    Args:
        paths: The store.
        ref: From the delivery's discovery.
        part: ``annotations`` or ``calibration``.
        options: The ones of that discovery.

    Raises:
        InputError: `part` is another word.
        EpisodeNotFoundError: The recording was not built.
        ConflictError: Someone else published the episode meanwhile.
        SetAside: The recording cannot be read.
    """
    if part not in ATTACHABLE:
        raise InputError(f"part {part!r}: expected one of {', '.join(ATTACHABLE)}")
    drafts = get_source(ref.vendor).read(ref, options)
    contents, changed = {}, []
    for draft in drafts.episodes:
        episode_id = draft.meta.episode_id
        before = published_content(paths, episode_id)
        if part == "annotations":
            digests = attach_annotations(paths, episode_id, draft.annotations, expected=before, structure=draft.structure)
        else:
            digests = attach_calibration(paths, episode_id, draft.calibration, expected=before)
        contents[episode_id] = digests.content
        if digests.content != before:
            changed.append(episode_id)
    findings = (*drafts.findings, *(finding for draft in drafts.episodes for finding in draft.findings))
    return AttachReport(ref.id, part, contents, tuple(changed), findings)
