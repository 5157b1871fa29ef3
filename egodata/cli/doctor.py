"""`egodata doctor`: every check on a delivery before ingest, or on a store."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.cli.findings import FAIL_ON, finding_rows, severity_of
from egodata.cli.opened import open_episodes
from egodata.findings import Severity
from egodata.schema.layout import StorePaths, open_root

if TYPE_CHECKING:
    from egodata.doctor import DoctorReport

SHOWN = 40
PROJECTIONS = 10


@click.command()
@click.argument("path", type=PathWord(exists=True, file_okay=False, path_type=Path))
@click.argument("only", nargs=-1, metavar="[ID]...")
@click.option("--vendor", help="Whose layout a delivery is in. Default: the one whose reader finds recordings.")
@click.option("--store", type=PathWord(path_type=Path), help="For a delivery: the store whose waivers count and where the report is kept.")
@click.option("--dataset", help="For a delivery: as for ingest.")
@click.option("--vendor-config", help="For a delivery: vendor config, as --config of ingest.")
@click.option("--declare", help="For a delivery: hand frame, as for ingest.")
@click.option("--config", help="Thresholds: a path ending in .yaml. Default: configs/doctor.yaml.")
@click.option("--no-pictures", is_flag=True, help="Do not decode video: much faster, frozen and black stretches are not seen.")
@click.option("--workers", type=click.IntRange(0), help="For a delivery: processes. Default: 2, or 1 on one core.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--fail-on", type=FAIL_ON, default="error", show_default=True, help="Severity that gives status 1.")
def doctor(  # noqa: PLR0913  click passes one parameter per option
    path: Path,
    only: tuple[str, ...],
    vendor: str | None,
    store: Path | None,
    dataset: str | None,
    vendor_config: str | None,
    declare: str | None,
    config: str | None,
    no_pictures: bool,
    workers: int | None,
    as_json: bool,
    fail_on: str,
) -> int:
    """Run all checks on PATH: a delivery before ingest, a store, or a folder of old <id>.zarr groups. Nothing of it is changed.

    With ID only these recordings or episodes. The first lines to read are the last ones printed: what to look at.
    """
    from egodata.doctor.report import save_report
    from egodata.reports.limits import Checks, load_limits

    checks = Checks(load_limits(config), not no_pictures)
    with ConsoleProgress() as progress:
        if vendor is None and (paths := _store_at(path)) is not None:
            from egodata.doctor import examine_store

            episodes = open_episodes(path, "zarr")
            report = examine_store(episodes, paths, checks=checks, only=only, progress=progress)
            saved_in = paths if (path / "store.json").exists() else None
        else:
            from egodata.doctor import examine_delivery
            from egodata.doctor.delivery import guess_vendor, job_for

            name = vendor or guess_vendor(path)
            saved_in = None if store is None else open_root(store)
            job = job_for(path, vendor=name, store=saved_in, dataset=dataset, config=vendor_config, declare=declare)
            report = examine_delivery(path, job=job, vendor=name, checks=checks, workers=workers, only=only, progress=progress)
    report = replace(report, fail_on=severity_of(fail_on))
    saved = None if saved_in is None else save_report(saved_in, report)
    if as_json:
        echo(json.dumps(report.to_json(), indent=1, sort_keys=True, ensure_ascii=False))
    else:
        _show(report)
        if saved is not None:
            echo(f'report: {saved}; accept a finding with `egodata waive {saved_in.root if saved_in else path} ID --reason "..."`')
    return report.status


def _store_at(path: Path) -> StorePaths | None:
    """Return the root where PATH is a store, or a folder of old groups, else None."""
    if (path / "store.json").exists():
        return open_root(path)
    from egodata.formats.zarr.legacy import LegacyStore

    return StorePaths(path.absolute()) if LegacyStore(path).episode_ids() else None


def _show(report: "DoctorReport") -> None:
    """Print findings of warning and above, the kinds of the others, the counts, and last what to look at."""
    shown = [finding for finding in report.findings if finding.severity >= Severity.WARNING]
    if shown:
        print_table("Findings", *finding_rows(shown[:SHOWN]))
        if len(shown) > SHOWN:
            echo(f"and {len(shown) - SHOWN} more, all with --json")
    kinds = Counter((finding.code, finding.severity.name.lower()) for finding in report.findings if finding.severity < Severity.WARNING)
    if kinds:
        echo("also noted: " + ", ".join(f"{code} ({count})" for (code, _), count in sorted(kinds.items())))
    _show_projections(report)
    counts = report.to_json()["counts"]
    what = f"{report.vendor} delivery" if report.kind == "delivery" else "store"
    absent = f", {len(report.absent)} absent" if report.absent else ""
    numbers = ", ".join(f"{counts[name]} {name}" for name in ("error", "warning", "info", "waived"))
    echo(f"{what} {report.path}: {len(report.examined)} examined{absent}: {numbers}; {'fail' if report.status else 'pass'}")
    for left_out in report.left_out:
        echo(f"not looked at: {left_out}")
    if report.watch:
        rows = [(item.subject, item.why, f"{item.frames[0]}-{item.frames[1]}" if item.frames else "", item.how) for item in report.watch]
        print_table("Watch these", ("episode", "why", "frames", "how"), rows)


def _show_projections(report: "DoctorReport") -> None:
    """Print where keypoints fall in the picture, the episodes with the fewest inside first."""
    seen = {key: found for item in report.examined for key, found in item.figures.items() if "inside_share" in found}
    rows = [
        (key, f"{found['inside_share']:.1%}", f"{found['behind_share']:.1%}", *(_pair(found[name]) for name in ("centre_px", "spread_px")))
        for key, found in sorted(seen.items(), key=lambda pair: (pair[1]["inside_share"], pair[0]))
    ]
    if rows:
        print_table("Keypoints in the picture", ("episode", "inside", "behind", "centre px", "spread px"), rows[:PROJECTIONS])
        if len(rows) > PROJECTIONS:
            echo(f"and {len(rows) - PROJECTIONS} more, all with --json")


def _pair(values: list[float | None]) -> str:
    return ", ".join("none" if value is None else f"{value:.0f}" for value in values)
