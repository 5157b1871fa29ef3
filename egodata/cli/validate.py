"""`egodata validate`: does an episode make sense?"""

import json
from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.cli.findings import finding_rows
from egodata.cli.opened import open_episodes
from egodata.errors import EgodataError
from egodata.findings import Finding, Severity, worst
from egodata.findings.waivers import read_waivers, with_waivers
from egodata.formats import FORMATS
from egodata.progress import tracked
from egodata.reports.validate import validate_episode


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("episode_id", required=False)
@click.option("--strict", is_flag=True, help="Warnings give status 1 too.")
@click.option("--format", "stored_as", type=click.Choice(FORMATS), default="zarr", show_default=True, help="Which copy to read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: episodes, findings, verdict.")
def validate(store: Path, episode_id: str | None, *, strict: bool, stored_as: str, as_json: bool) -> int:
    """Check EPISODE_ID of STORE, or all episodes: masks, rotations, time stamps, intrinsics, spans, names.

    STORE may also be a folder of old <id>.zarr groups (schema v3.0, v3.1). Exit status 1 if there are errors.
    """
    episodes = open_episodes(store, stored_as)
    ids = [episode_id] if episode_id else episodes.episode_ids()
    findings: list[Finding] = []
    with ConsoleProgress() as progress:
        for one in tracked(ids, label="validate", progress=progress):
            try:
                reader = episodes.open(one)
                reader.meta  # noqa: B018  read here, so that the finding names the episode
            except EgodataError as error:
                if episode_id:
                    raise
                findings.append(Finding("episode-unreadable", Severity.ERROR, one, str(error)))
                continue
            findings += validate_episode(reader)
            reader.close()
    findings = list(with_waivers(findings, read_waivers(store / "ledger")))
    limit = Severity.WARNING if strict else Severity.ERROR
    level = worst(findings)
    passed = level is None or level < limit
    if as_json:
        body = {"episodes": len(ids), "findings": [finding.to_json() for finding in findings], "verdict": "pass" if passed else "fail"}
        echo(json.dumps(body, sort_keys=True, ensure_ascii=False))
        return 0 if passed else 1
    if findings:
        print_table("Findings", *finding_rows(findings))
    counts = {name: sum(finding.severity is name and not finding.waived for finding in findings) for name in reversed(Severity)}
    waived = sum(bool(finding.waived) for finding in findings)
    echo(
        f"{len(ids)} episodes: "
        + ", ".join(f"{count} {name.name.lower()}" for name, count in counts.items())
        + (f", {waived} waived" if waived else "")
        + f"; {'pass' if passed else 'fail'}"
    )
    return 0 if passed else 1
