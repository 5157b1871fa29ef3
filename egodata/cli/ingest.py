"""`egodata ingest`: a delivery becomes episodes in a store."""

import json
from collections import Counter
from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, echo, print_table
from egodata.findings import Severity
from egodata.ingest import IngestOptions, IngestReport, ingest as run_ingest
from egodata.ingest.sources import SOURCES
from egodata.video import DEFAULT_SETTINGS, PROFILES

SHOWN = 20


@click.command()
@click.argument("raw", type=click.Path(path_type=Path))
@click.option("--vendor", required=True, help=f"Whose layout the delivery is in: {', '.join(SOURCES)}.")
@click.option("--store", type=click.Path(path_type=Path), default=Path("store"), show_default=True, help="Root folder of the store.")
@click.option("--dataset", help="Goes into ids where the vendor's are not unique. Default: the folder's name.")
@click.option("--delivery", help="Name of this batch. Default: the folder's name.")
@click.option("--config", help="Vendor config: a shipped name, or a path ending in .yaml.")
@click.option("--declare", help="Hand frame of older stores that carry none: anat-v1 or mirror-left-v1.")
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default=DEFAULT_SETTINGS.profile, show_default=True, help="How video is encoded."
)
@click.option("--workers", type=click.IntRange(0), help="Processes. Default: 2, or 1 on one core.")
@click.option("--limit", type=click.IntRange(1), help="Only the first N recordings by id.")
@click.option("--only", multiple=True, metavar="ID", help="Only this recording. Can be repeated.")
@click.option("--force", is_flag=True, help="Build again what did not change.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--fail-on", type=click.Choice(["info", "warning", "error"]), default="error", show_default=True, help="Severity that gives status 1."
)
def ingest(  # noqa: PLR0913  click passes one parameter per option
    raw: Path,
    vendor: str,
    store: Path,
    dataset: str | None,
    delivery: str | None,
    config: str | None,
    declare: str | None,
    profile: str,
    workers: int | None,
    limit: int | None,
    only: tuple[str, ...],
    force: bool,
    as_json: bool,
    fail_on: str,
) -> int:
    """Turn the delivery RAW into published episodes. What did not change is skipped; what cannot be built is set aside."""
    options = IngestOptions(
        vendor,
        store,
        dataset,
        delivery,
        config,
        declare=declare,
        settings=PROFILES[profile],
        workers=workers,
        limit=limit,
        only=only or None,
        force=force,
        fail_on=Severity[fail_on.upper()],
    )
    with ConsoleProgress() as progress:
        report = run_ingest(raw, options=options, progress=progress)
    if as_json:
        echo(json.dumps({**report.to_json(), "status": report.status}, indent=1, sort_keys=True, ensure_ascii=False))
    else:
        show(report)
    return report.status


def show(report: IngestReport) -> None:
    """Print the summary: counts, what was set aside and why, and the kinds of findings."""
    counts = report.to_json()["counts"]
    print_table(f"{report.vendor} delivery {report.delivery}", list(counts), [list(counts.values())])
    set_aside = [outcome for outcome in report.outcomes if outcome.recording in set(report.set_aside)]
    if set_aside:
        rows = [
            (outcome.recording, finding.code, finding.message)
            for outcome in set_aside
            for finding in outcome.findings
            if finding.severity is Severity.ERROR
        ]
        print_table("Set aside", ("recording", "code", "why"), rows[:SHOWN])
        if len(rows) > SHOWN:
            echo(f"and {len(rows) - SHOWN} more, see {report.path}")
    kinds = Counter((finding.severity.name.lower(), finding.code) for finding in report.findings if finding.severity is not Severity.ERROR)
    if kinds:
        print_table("Noted", ("severity", "code", "times"), [(*kind, count) for kind, count in sorted(kinds.items(), reverse=True)])
    if report.inputs == len(report.skipped) + len(report.absent):
        echo("nothing to do: every recording was built before from the same bytes and settings")
    echo(f"report: {report.path}")
