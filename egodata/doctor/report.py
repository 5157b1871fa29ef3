"""What the doctor found, as values: findings, figures by episode, and the few things that a person should look at."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from egodata.findings import Finding, Severity, worst
from egodata.schema.layout import StorePaths, write_atomic

WATCHED = 5
SAME_AS = {
    "head-jump": "head-pose-jump",
    "head-constant": "head-pose-constant",
    "k-invented": "calibration-invented",
    "camera-without-k": "calibration-unknown",
}
"""Codes of checks here that say what a vendor's reader says already."""
FOLDER = "doctor"


@dataclass(frozen=True, slots=True)
class Examined:
    """What the checks saw of one recording, or of one stored episode.

    Attributes:
        subject: Recording id, or episode id in a store.
        findings: Worst first.
        figures: By episode id.
        numbers: Digest of the numbers by episode id, without time stamps; equal ones are the same movement.
        pictures: Digest of the pictures by episode id: of the stored elements, or of the vendor's file and the rows shown.
        look_at: Where a person sees it: an `egodata preview` command, or a file.
    """

    subject: str
    findings: tuple[Finding, ...] = ()
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)
    look_at: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """One thing to look at.

    Attributes:
        subject: Recording or episode.
        why: The message of its worst finding, and how many there are.
        frames: Half-open range to look at, or None.
        how: Command or file.
    """

    subject: str
    why: str
    frames: tuple[int, int] | None
    how: str


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Everything of one examination.

    Attributes:
        path: What was examined.
        kind: ``delivery`` or ``store``.
        vendor: Of a delivery; empty for a store.
        examined: Sorted by subject.
        absent: Listed in a delivery but not delivered.
        left_out: Checks that were not run, in words.
        fail_on: Severity from which a finding makes the status 1.
    """

    path: Path
    kind: str
    vendor: str
    examined: tuple[Examined, ...]
    absent: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    fail_on: Severity = Severity.ERROR

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, worst first, waived ones last."""
        every = (finding for item in self.examined for finding in item.findings)
        return tuple(sorted(every, key=lambda item: (bool(item.waived), -item.severity, item.code, item.episode)))

    @property
    def status(self) -> int:
        """Exit status: 1 where a finding that nobody waived is at `fail_on` or above."""
        level = worst(self.findings)
        return int(level is not None and level >= self.fail_on)

    @property
    def watch(self) -> tuple[Watch, ...]:
        """The few subjects to look at: most errors first, then most warnings."""
        ranked = []
        for item in self.examined:
            errors, warnings = (
                [finding for finding in item.findings if finding.severity is severity and not finding.waived]
                for severity in (Severity.ERROR, Severity.WARNING)
            )
            if errors or warnings:
                first = (errors or warnings)[0]
                more = f" (and {len(errors) + len(warnings) - 1} more)" if len(errors) + len(warnings) > 1 else ""
                ranked.append(
                    ((-len(errors), -len(warnings), item.subject), Watch(item.subject, first.message + more, first.frames, item.look_at))
                )
        return tuple(watch for _, watch in sorted(ranked, key=lambda pair: pair[0])[:WATCHED])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; stable, documented in docs/faults.md."""
        counts = {severity.name.lower(): sum(f.severity is severity and not f.waived for f in self.findings) for severity in Severity}
        return {
            "path": str(self.path),
            "kind": self.kind,
            "vendor": self.vendor or None,
            "subjects": len(self.examined),
            "episodes": {key: dict(value) for item in self.examined for key, value in item.figures.items()},
            "absent": list(self.absent),
            "left_out": list(self.left_out),
            "counts": {**counts, "waived": sum(bool(finding.waived) for finding in self.findings)},
            "findings": [finding.to_json() for finding in self.findings],
            "watch": [
                {"subject": item.subject, "why": item.why, "frames": list(item.frames) if item.frames else None, "how": item.how}
                for item in self.watch
            ],
            "verdict": "fail" if self.status else "pass",
        }


def merged(own: Sequence[Finding], given: Sequence[Finding]) -> tuple[Finding, ...]:
    """Put the findings of checks behind those of a vendor's reader, worst first, but not what that said at least as severely already."""
    said: dict[object, Severity] = {}
    for finding in given:
        for key in ((finding.code, finding.stream), finding.code):
            said[key] = max(finding.severity, said.get(key, Severity.INFO))

    def known(item: Finding) -> bool:
        keys = ((item.code, item.stream), item.code, SAME_AS.get(item.code))
        return any(key in said and said[key] >= item.severity for key in keys)

    fresh = [item for item in own if not known(item)]
    return tuple(sorted((*given, *fresh), key=lambda finding: -finding.severity))


def with_twins(examined: Sequence[Examined]) -> tuple[Examined, ...]:
    """Add a finding to every episode whose numbers or pictures another one has too."""
    out = []
    owners: dict[tuple[str, str], list[str]] = {}
    for item in examined:
        for kind, digests in (("numbers", item.numbers), ("pictures", item.pictures)):
            for episode_id, digest in digests.items():
                owners.setdefault((kind, digest), []).append(episode_id)
    for item in examined:
        found = []
        for kind, digests in (("numbers", item.numbers), ("pictures", item.pictures)):
            for episode_id, digest in digests.items():
                others = [other for other in owners[kind, digest] if other != episode_id]
                if others:
                    message = f"{episode_id} has the very {kind} of {', '.join(others[:3])}: one recording under {len(others) + 1} ids."
                    found.append(
                        Finding("content-twice", Severity.WARNING, episode_id, message, stream=kind, content=digest, got=others[0])
                    )
        out.append(
            Examined(item.subject, (*item.findings, *found), item.figures, item.numbers, item.pictures, item.look_at) if found else item
        )
    return tuple(out)


def save_report(paths: StorePaths, report: DoctorReport) -> Path:
    """Write a report to ``reports/doctor/<time>.json``, where `egodata waive` finds what its ids mean."""
    stamp, number = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"), 1
    path = paths.reports / FOLDER / f"{stamp}.json"
    while path.exists():
        number += 1
        path = paths.reports / FOLDER / f"{stamp}-{number}.json"
    write_atomic(path, json.dumps(report.to_json(), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n")
    return path
