"""Findings that a person has answered for: ``ledger/waivers.jsonl``, one JSON object a line with finding, reason, by and time."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from egodata.errors import InputError
from egodata.findings import Finding
from egodata.schema.layout import StorePaths, write_atomic


def waivers_file(paths: StorePaths) -> Path:
    """Return where waivers are kept."""
    return paths.ledger / "waivers.jsonl"


def waivers(paths: StorePaths) -> dict[str, Mapping[str, Any]]:
    """Return the newest waiver of every finding id.

    Raises:
        InputError: A line is damaged, or gives no reason: nothing is waived by guessing.
    """
    path = waivers_file(paths)
    found: dict[str, Mapping[str, Any]] = {}
    if not path.exists():
        return found
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            finding, reason = str(value["finding"]), str(value["reason"]).strip()
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} line {number}: expected an object with finding and reason, got {line[:80]!r}. Correct it.") from error
        if not reason:
            raise InputError(f"{path} line {number}: finding {finding} is waived without a reason. Give one.")
        found[finding] = value
    return found


def keep_gate_findings(paths: StorePaths, findings: Iterable[Finding], *, gate: str) -> None:
    """Write the findings for which a gate is closed, so that they can be looked up and waived by their id."""
    for finding in findings:
        body = json.dumps({**finding.to_json(), "content": finding.content, "gate": gate}, indent=1, sort_keys=True, ensure_ascii=False)
        write_atomic(paths.reports / "gates" / f"{finding.id}.json", body.encode() + b"\n")
