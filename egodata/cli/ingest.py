"""`egodata ingest`: a delivery becomes episodes in a store."""

import json
from collections import Counter
from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, FiniteRange, PathWord, echo, print_table
from egodata.cli.findings import FAIL_ON, severity_of, waived
from egodata.findings import Severity
from egodata.ingest import IngestOptions, IngestReport, ingest as run_ingest
from egodata.ingest.sources import SOURCES
from egodata.names import shell_word
from egodata.video import DEFAULT_SETTINGS, PROFILES

SHOWN = 20
CHANGED = ("new", "gone", "bytes_changed", "now_built", "now_set_aside", "now_absent")


@click.command()
@click.argument("raw", type=PathWord(path_type=Path))
@click.option("--vendor", required=True, help=f"Whose layout the delivery is in: {', '.join(SOURCES)}.")
@click.option("--store", type=PathWord(path_type=Path), default=Path("store"), show_default=True, help="Root folder of the store.")
@click.option("--dataset", help="Goes into ids where the vendor's are not unique. Default: the folder's name.")
@click.option("--delivery", help="Name of this batch. Default: the folder's name.")
@click.option("--config", help="Vendor config: a shipped name, or a path ending in .yaml.")
@click.option("--declare", help="Hand frame of data that carries none: anat-v1 or mirror-left-v1.")
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default=DEFAULT_SETTINGS.profile, show_default=True, help="How video is encoded."
)
@click.option("--workers", type=click.IntRange(0), help="Processes. Default: 2, or 1 on one core.")
@click.option("--limit", type=click.IntRange(1), help="Only the first N recordings by id.")
@click.option("--only", multiple=True, metavar="ID", help="Only this recording. Can be repeated.")
@click.option("--force", is_flag=True, help="Build again what did not change.")
@click.option(
    "--include-forgotten", is_flag=True, help="Build recordings that were forgotten on request; else they are left out and named."
)
@click.option("--copy", is_flag=True, help="Keep the delivery's files in the store, below raw/, and read them there.")
@click.option("--clips", type=PathWord(dir_okay=False, path_type=Path), help="YAML file that says how recordings are cut into episodes.")
@click.option(
    "--stall",
    type=FiniteRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds without a byte after which a reader is stopped.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--fail-on", type=FAIL_ON, default="error", show_default=True, help="Severity that gives status 1.")
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
    include_forgotten: bool,
    copy: bool,
    clips: Path | None,
    stall: float,
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
        fail_on=severity_of(fail_on),
        copy=copy,
        include_forgotten=include_forgotten,
        clips=clips,
        stall_s=stall,
    )
    with ConsoleProgress() as progress:
        report = run_ingest(raw, options=options, progress=progress)
    shown = None if report.path is None else _write_page(report, report.path.with_suffix(".html"))
    if as_json:
        echo(json.dumps({**report.to_json(), "status": report.status}, indent=1, sort_keys=True, ensure_ascii=False))
    else:
        show(report)
        echo(f"page: {shown}; skipped episodes were looked at by file size, `egodata verify {shell_word(store)}` reads every byte")
    return report.status


def _write_page(report: IngestReport, out: Path) -> Path:
    from egodata.formats.zarr import ZarrStore
    from egodata.reports.ingest_page import write_ingest_page  # cv2 is loaded only here
    from egodata.schema.layout import StorePaths

    return write_ingest_page(report.to_json(), ZarrStore(StorePaths(out.parents[2])), out=out)


def show(report: IngestReport) -> None:
    """Print the summary: counts, what was set aside and why, and the kinds of findings."""
    counts = report.to_json()["counts"]
    print_table(f"{report.vendor} delivery {report.delivery}", list(counts), [list(counts.values())])
    set_aside = [outcome for outcome in report.outcomes if outcome.recording in set(report.set_aside)]
    if set_aside:
        rows = [
            (outcome.recording, finding.code, finding.message + waived(finding))
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
    changes = report.changes or {}
    if changes.get("since"):
        told = [f"{len(changes[name])} {name.replace('_', ' ')}" for name in CHANGED if changes[name]]
        echo(f"since {changes['since']}: {', '.join(told) or 'no recording changed'}")
    if report.inputs == len(report.skipped) + len(report.absent):
        echo("nothing to do: every recording was built before from the same bytes and settings")
    echo(f"report: {report.path}")
