"""Findings for which a gate is closed, kept so that `egodata waive` can answer them."""

import json
from collections.abc import Iterable

from egodata.findings import Finding
from egodata.schema.layout import StorePaths, write_atomic


def keep_gate_findings(paths: StorePaths, findings: Iterable[Finding], *, gate: str) -> None:
    """Write the findings for which a gate is closed, so that they can be looked up and waived by their id."""
    for finding in findings:
        body = json.dumps({**finding.to_json(), "content": finding.content, "gate": gate}, indent=1, sort_keys=True, ensure_ascii=False)
        write_atomic(paths.reports / "gates" / f"{finding.id}.json", body.encode() + b"\n")
