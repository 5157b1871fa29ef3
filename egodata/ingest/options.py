"""What a person chooses about an ingest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from egodata.findings import Severity
from egodata.ingest.clips import ClipRule
from egodata.video import DEFAULT_SETTINGS, EncodeSettings


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What to ingest, and how.

    Attributes:
        vendor: Whose layout the delivery is in.
        store: The store's root; made if it is not there.
        dataset: Goes into ids where the vendor's are not unique; the folder's name by default.
        delivery: Name of the batch; the folder's name by default.
        config: Vendor config by name or path; the vendor's shipped one by default.
        workers: Processes; 0 works in this process, where nothing stops a decoder that hangs; None takes two, or one on one core.
        limit: Treat only the first recordings by id.
        only: Treat only these recording ids.
        force: Build again what did not change.
        settings: Encoder settings.
        declare: Hand frame convention of older stores that carry none: ``anat-v1`` or ``mirror-left-v1``.
        fail_on: Severity from which a finding makes the status 1.
        copy: Keep the delivery's files in the store, below ``raw/<vendor>/<delivery>``, and read them there.
        clips: A clip rule, or a file with one (`egodata.ingest.clips.ClipRule`); None takes what the vendor's reader gives.
        include_forgotten: Build recordings that were forgotten on request; else they are left out and named.
        stall_s: A worker process that neither reads nor writes a byte for so long is stopped and its recording set aside.
        expected_raw: Raw digest by recording that its files must still have; others are set aside (`raw-changed`).
    """

    vendor: str
    store: Path
    dataset: str | None = None
    delivery: str | None = None
    config: str | None = None
    workers: int | None = None
    limit: int | None = None
    only: tuple[str, ...] | None = None
    force: bool = False
    settings: EncodeSettings = DEFAULT_SETTINGS
    declare: str | None = None
    fail_on: Severity = Severity.ERROR
    copy: bool = False
    clips: Path | ClipRule | None = None
    include_forgotten: bool = False
    stall_s: float = 300.0
    expected_raw: Mapping[str, str] = field(default_factory=dict)
