"""Waivers: a person accepts one finding of one episode, with a reason. They are kept in ``ledger/waivers.jsonl`` and never rewritten.

A line is one decision: a waiver, or its withdrawal. The newest line of an id counts. A finding's id covers what it was found in, so
that a corrected delivery or a rebuilt episode with other content needs a new decision.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from egodata.errors import InputError
from egodata.findings import Finding

FILE = "waivers.jsonl"


@dataclass(frozen=True, slots=True)
class Waiver:
    """One decision about one finding.

    Attributes:
        id: Of the finding.
        code: Of the finding.
        episode: Episode or recording id.
        stream: Of the finding.
        reason: Why it is accepted; for a withdrawal, why no more.
        at: UTC time as ISO text.
        withdrawn: Whether the line takes an earlier waiver back.
    """

    id: str
    code: str
    episode: str
    stream: str
    reason: str
    at: str
    withdrawn: bool = False


def read_waivers(ledger: Path) -> dict[str, Waiver]:
    """Return the waivers that are in force, by finding id.

    Args:
        ledger: The store's ledger folder; without the file there are none.

    Raises:
        InputError: A line is damaged; it is named. The last one may be cut short by a kill and is then no decision.
    """
    path = ledger / FILE
    if not path.is_file():
        return {}
    found: dict[str, Waiver] = {}
    data = path.read_bytes()
    lines = data.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                waiver = Waiver(**json.loads(line))
                found[waiver.id] = waiver
        except (ValueError, TypeError) as error:
            if number == len(lines) and not data.endswith(b"\n"):
                break
            raise InputError(f"{path}: line {number} is damaged ({error}). Restore the file from a backup or remove the line.") from error
    return {key: waiver for key, waiver in found.items() if not waiver.withdrawn}


def add_waiver(ledger: Path, finding: Finding, *, reason: str, withdrawn: bool = False) -> Waiver:
    """Append one decision and flush it to disk.

    Args:
        ledger: The store's ledger folder; made if it is not there.
        finding: What is accepted, or no more.
        reason: Why, in a person's words.
        withdrawn: Take an earlier waiver back.

    Raises:
        InputError: The reason is empty.
    """
    if not reason.strip():
        raise InputError(f"waiver of {finding.id}: needs a reason. Say why with --reason.")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    waiver = Waiver(finding.id, finding.code, finding.episode, finding.stream, " ".join(reason.split()), now, withdrawn)
    ledger.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(waiver), sort_keys=True, ensure_ascii=False).encode() + b"\n"
    with FileLock(ledger / f".{FILE}.lock"), (ledger / FILE).open("ab+") as file:
        file.seek(0)
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)  # what a kill cut short was no decision
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return waiver


def with_waivers(findings: Iterable[Finding], waivers: Mapping[str, Waiver]) -> tuple[Finding, ...]:
    """Write the reason of its waiver into each finding that has one; the others lose what an earlier look wrote there."""
    return tuple(
        replace(finding, waived=waivers[finding.id].reason if finding.id in waivers else "")
        if finding.waived or finding.id in waivers
        else finding
        for finding in findings
    )
