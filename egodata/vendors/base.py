"""What every vendor module gives: recordings found in a delivery, and episodes read from a recording."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

from egodata.episode import EpisodeDraft
from egodata.errors import EgodataError
from egodata.findings import Finding, Severity

PARTS = ("media", "annotations", "calibration")


class SetAside(EgodataError):  # noqa: N818  it is a decision about a recording, not a mistake of the caller
    """A recording cannot become an episode; the findings say why.

    Attributes:
        findings: At least one at error level, in the order of discovery.
        evidence: Plain JSON values worth keeping beside the findings, such as row counts.
    """

    def __init__(self, findings: tuple[Finding, ...], evidence: Mapping[str, Any] | None = None) -> None:
        super().__init__(findings, evidence)
        self.findings = findings
        self.evidence = dict(evidence or {})

    def __str__(self) -> str:
        errors = [finding.message for finding in self.findings if finding.severity is Severity.ERROR]
        return "; ".join(errors[:5])


@dataclass(frozen=True, slots=True)
class VendorOptions:
    """What a person says about a delivery.

    Attributes:
        dataset: Name that goes into ids where the vendor's are not unique.
        delivery: Name of this batch.
        config: Shipped vendor config by name, or a path to one's own; None takes the vendor's name.
        declare: Hand frame convention of older stores that carry none.
    """

    dataset: str
    delivery: str
    config: str | None = None
    declare: str | None = None


@dataclass(frozen=True, slots=True)
class RecordingRef:
    """One recording of a delivery, found but not read.

    Attributes:
        id: Recording id; equal to the episode id when one clip is the whole recording.
        root: The delivery's folder.
        files: Absolute paths by part: ``media``, ``annotations``, ``calibration``; only files that exist.
        operator: The vendor's user id, where it is known without reading the recording.
        details: Plain JSON values from shared files that this recording depends on; part of its raw digest.
    """

    id: str
    vendor: str
    dataset: str
    delivery: str
    root: Path
    files: Mapping[str, tuple[Path, ...]]
    operator: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """A recording that discovery itself could not accept."""

    ref: RecordingRef
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a delivery holds.

    Attributes:
        recordings: Delivered and readable so far, sorted by id.
        absent: Ids that the delivery lists but does not hold, sorted.
        refused: Delivered, but not acceptable: an id out of the alphabet, a path that leaves the delivery.
    """

    recordings: tuple[RecordingRef, ...]
    absent: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Drafts:
    """The episodes of one recording, and what was noticed about the recording as a whole."""

    episodes: tuple[EpisodeDraft, ...]
    findings: tuple[Finding, ...] = ()


class Vendor(Protocol):
    """A vendor's reader. It knows no storage format.

    Attributes:
        name: As in `--vendor`.
        version: Of the converter; a new one makes old episodes be built again.
        unique_ids: Whether the vendor's recording ids are unique everywhere.
    """

    name: str
    version: int
    unique_ids: bool

    def discover(self, delivery: Path, options: VendorOptions) -> Discovery:
        """List a delivery's recordings without reading them.

        Raises:
            InputError: The folder is not such a delivery.
        """
        ...

    def read(self, ref: RecordingRef, options: VendorOptions) -> Drafts:
        """Read one recording.

        Raises:
            SetAside: It cannot become an episode.
            VideoError: Its video cannot be read.
        """
        ...

    def settings(self, options: VendorOptions) -> dict[str, Any]:
        """Return the vendor config in use as plain JSON values; changing it makes old episodes be built again.

        Raises:
            ConfigError: The config file has an unknown key or a wrong value.
            NotFoundError: There is no such config.
        """
        ...


class Notes:
    """Collects the findings of one recording while it is being read."""

    def __init__(self, recording: str) -> None:
        self.recording = recording
        self.found: list[Finding] = []
        self.counts: dict[str, Any] = {}

    def add(self, code: str, message: str, *, severity: Severity = Severity.WARNING, **more: Any) -> None:
        """Note a finding; `more` are further fields of `Finding`."""
        self.found.append(Finding(code, severity, self.recording, message, **more))

    def refuse(self, code: str, message: str, **more: Any) -> NoReturn:
        """Set the recording aside, with everything noted so far.

        Raises:
            SetAside: Always.
        """
        self.add(code, message, severity=Severity.ERROR, **more)
        raise SetAside(tuple(self.found), self.counts)
