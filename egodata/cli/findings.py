"""What command lines share about findings."""

from collections.abc import Sequence

import click

from egodata.findings import Finding, Severity

FAIL_ON = click.Choice(["info", "warning", "error"])


def severity_of(name: str) -> Severity:
    """Return the severity that an option names."""
    return Severity[name.upper()]


def finding_rows(findings: Sequence[Finding]) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    """Return columns and rows of a table of findings; a waiver stands behind the message."""
    rows: list[tuple[str, ...]] = [
        (finding.episode, finding.severity.name.lower(), finding.code, finding.id, finding.message + waived(finding))
        for finding in findings
    ]
    return ("episode", "severity", "code", "id", "message"), rows


def waived(finding: Finding) -> str:
    """Say why a finding is accepted, or nothing."""
    return f" [waived: {finding.waived}]" if finding.waived else ""
