"""What an ingest did, recording by recording."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egodata.findings import Finding, Severity
from egodata.schema.layout import StorePaths, write_atomic

BUILT, ATTACHED, SKIPPED, SET_ASIDE = "built", "attached", "skipped", "set_aside"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one recording.

    Attributes:
        status: ``built``, ``attached`` (only annotations or calibration changed), ``skipped`` (nothing changed) or ``set_aside``.
        episodes: Content digest by episode id, as published; none where it was set aside.
        findings: Everything noticed, errors included where it was set aside.
        raw: Digest over its raw files, empty where they could not be read.
        frames: Frames of the episodes that were built.
        seconds: How long it took.
    """

    recording: str
    status: str
    episodes: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    raw: str = ""
    frames: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "recording": self.recording,
            "status": self.status,
            "episodes": dict(self.episodes),
            "findings": [finding.to_json() for finding in self.findings],
            "raw": self.raw,
            "frames": self.frames,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The whole ingest: inputs = built + set aside + skipped + absent.

    Attributes:
        outcomes: One per recording of the delivery, sorted by id.
        absent: Ids that the delivery lists but does not hold.
        fail_on: Severity from which a finding makes the status 1.
        path: The report file in the store, or None before it is written.
    """

    vendor: str
    dataset: str
    delivery: str
    outcomes: tuple[Outcome, ...]
    absent: tuple[str, ...] = ()
    fail_on: Severity = Severity.ERROR
    path: Path | None = None

    def _with(self, *statuses: str) -> tuple[str, ...]:
        return tuple(outcome.recording for outcome in self.outcomes if outcome.status in statuses)

    @property
    def inputs(self) -> int:
        """Recordings delivered or listed."""
        return len(self.outcomes) + len(self.absent)

    @property
    def built(self) -> tuple[str, ...]:
        """Recordings published anew, those with only an attachment included."""
        return self._with(BUILT, ATTACHED)

    @property
    def attached(self) -> tuple[str, ...]:
        """Of the built ones, those where only annotations or calibration changed and no video was encoded."""
        return self._with(ATTACHED)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Recordings that were built before from the same bytes, converter and settings."""
        return self._with(SKIPPED)

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Recordings that could not be built."""
        return self._with(SET_ASIDE)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, those of skipped recordings included."""
        return tuple(finding for outcome in self.outcomes for finding in outcome.findings)

    @property
    def status(self) -> int:
        """Exit status: 1 where a recording is set aside or a finding is at `fail_on` or above, else 0."""
        return int(bool(self.set_aside) or any(finding.severity >= self.fail_on for finding in self.findings))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; stable, documented in docs/vendors."""
        return {
            "vendor": self.vendor,
            "dataset": self.dataset,
            "delivery": self.delivery,
            "counts": {
                "inputs": self.inputs,
                "built": len(self.built),
                "attached": len(self.attached),
                "set_aside": len(self.set_aside),
                "skipped": len(self.skipped),
                "absent": len(self.absent),
            },
            "recordings": [outcome.to_json() for outcome in self.outcomes],
            "absent": list(self.absent),
        }


def write_report(paths: StorePaths, report: IngestReport, *, stamp: str) -> Path:
    """Write the report to ``reports/ingest/<delivery>-<stamp>.json``; a second one in the same second gets a number.

    Args:
        paths: The store.
        report: What to write.
        stamp: Time as text, such as ``20250131T120000Z``.
    """
    folder, number = paths.reports / "ingest", 1
    path = folder / f"{report.delivery}-{stamp}.json"
    while path.exists():
        number += 1
        path = folder / f"{report.delivery}-{stamp}-{number}.json"
    write_atomic(path, json.dumps(report.to_json(), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n")
    return path
