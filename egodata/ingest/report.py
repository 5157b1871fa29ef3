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
        operator: The vendor's user id, where it is known.
    """

    recording: str
    status: str
    episodes: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    raw: str = ""
    frames: int = 0
    seconds: float = 0.0
    operator: str | None = None

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
            "operator": self.operator,
        }

    @property
    def accepted(self) -> bool:
        """Whether a person waived every error of it."""
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        return bool(errors) and all(finding.waived for finding in errors)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The whole ingest: inputs = built + set aside + skipped + absent.

    Attributes:
        outcomes: One per recording of the delivery, sorted by id.
        absent: Ids that the delivery lists but does not hold.
        fail_on: Severity from which a finding makes the status 1.
        path: The report file in the store, or None before it is written.
        changes: Against the last report of the delivery; see `egodata.ingest.changes`.
        copied: Files and bytes that were copied into the store, where that was asked for.
    """

    vendor: str
    dataset: str
    delivery: str
    outcomes: tuple[Outcome, ...]
    absent: tuple[str, ...] = ()
    fail_on: Severity = Severity.ERROR
    path: Path | None = None
    changes: Mapping[str, Any] | None = None
    copied: Mapping[str, int] | None = None

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
        """Exit status: 1 where a recording is set aside or a finding is at `fail_on` or above, waived ones left out, else 0."""
        lost = any(outcome.status == SET_ASIDE and not outcome.accepted for outcome in self.outcomes)
        return int(lost or any(finding.severity >= self.fail_on and not finding.waived for finding in self.findings))

    @property
    def operators(self) -> dict[str, dict[str, int]]:
        """Recordings by operator and status; an operator that is not known is the empty text."""
        found: dict[str, dict[str, int]] = {}
        for outcome in self.outcomes:
            counts = found.setdefault(outcome.operator or "", dict.fromkeys((BUILT, ATTACHED, SET_ASIDE, SKIPPED), 0))
            counts[outcome.status] += 1
        return dict(sorted(found.items()))

    @property
    def reasons(self) -> dict[str, int]:
        """Recordings set aside by the code of each of their errors; one recording can have several."""
        found: dict[str, int] = {}
        for outcome in self.outcomes:
            if outcome.status == SET_ASIDE:
                for code in {finding.code for finding in outcome.findings if finding.severity is Severity.ERROR}:
                    found[code] = found.get(code, 0) + 1
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

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
            "operators": self.operators,
            "reasons": self.reasons,
            "changes": None if self.changes is None else dict(self.changes),
            "copied": None if self.copied is None else dict(self.copied),
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
