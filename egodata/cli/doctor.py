"""`egodata doctor`: every check on a delivery before ingest, or on a store."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.cli.findings import FAIL_ON, finding_rows, severity_of
from egodata.cli.opened import open_episodes
from egodata.errors import InputError
from egodata.findings import Severity
from egodata.names import shell_word
from egodata.schema.layout import StorePaths, open_root

if TYPE_CHECKING:
    from egodata.doctor import DoctorReport
    from egodata.doctor.several import Place

SHOWN = 40
PROJECTIONS = 10
NAMED = 10


@click.command()
@click.argument("path", type=PathWord(exists=True, file_okay=False, path_type=Path))
@click.argument("only", nargs=-1, metavar="[ID]...")
@click.option("--vendor", help="Whose layout PATH is in. Default: found by looking, also where PATH holds several deliveries.")
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
    """Run all checks on PATH: a delivery before ingest, a folder of them, a store, or a folder of old <id>.zarr groups. Nothing is changed.

    With ID only these recordings or episodes. The first lines to read are the last ones printed: what to look at.
    """
    from egodata.reports.limits import Checks, load_limits

    checks = Checks(load_limits(config), not no_pictures)
    if vendor is None and (paths := _store_at(path)) is not None:
        from egodata.doctor import examine_store

        with ConsoleProgress() as progress:
            report = examine_store(open_episodes(path, "zarr"), paths, checks=checks, only=only, progress=progress)
        saved_in = paths if (path / "store.json").exists() else None
        return _tell(path, [replace(report, fail_on=severity_of(fail_on))], store=saved_in, as_json=as_json)
    given = {"dataset": dataset, "config": vendor_config, "declare": declare}
    asked = [f"--{'vendor-config' if name == 'config' else name}" for name, value in given.items() if value is not None]
    clear, unclear = _deliveries(path, vendor, one_only=[*only, *asked])
    saved_in = None if store is None else open_root(store)
    options = {"checks": checks, "workers": workers, "only": only}
    with ConsoleProgress() as progress:
        found = [_examine(place, store=saved_in, given=given, progress=progress, **options) for place in clear]
    reports = [replace(report, fail_on=severity_of(fail_on)) for report in found]
    return _tell(path, reports, unclear, store=saved_in, as_json=as_json)


def _store_at(path: Path) -> StorePaths | None:
    """Return the root where PATH is a store, or a folder of old groups, else None."""
    if (path / "store.json").exists():
        return open_root(path)
    from egodata.formats.zarr.legacy import LegacyStore

    return StorePaths(path.absolute()) if LegacyStore(path).episode_ids() else None


def _deliveries(path: Path, vendor: str | None, *, one_only: Sequence[str]) -> tuple[Sequence["Place"], Sequence["Place"]]:
    """Return the deliveries that PATH holds, and the folders that could be several vendors'.

    Raises:
        InputError: There is none, or there are several and something was asked for that holds for one only.
    """
    from egodata.doctor.several import Place, find_deliveries

    if vendor is not None:
        return [Place(path, (vendor,))], []
    found = find_deliveries(path)
    clear, unclear = ([place for place in found if (len(place.vendors) == 1) is one] for one in (True, False))
    if len(found) > 1 and one_only:
        names = ", ".join(f"{place.folder} ({' or '.join(place.vendors)})" for place in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise InputError(f"{path}: holds {len(found)} deliveries, and {' '.join(one_only)} goes with one of them. Name it: {names}{more}.")
    return clear, unclear


def _examine(place: "Place", *, store: StorePaths | None, given: Mapping[str, str | None], **options: Any) -> "DoctorReport":
    from egodata.doctor import examine_delivery
    from egodata.doctor.delivery import job_for

    (vendor,) = place.vendors
    job = job_for(place.folder, vendor=vendor, store=store, **given)
    return examine_delivery(place.folder, job=job, vendor=vendor, **options)


def _tell(
    path: Path, reports: Sequence["DoctorReport"], unclear: Sequence["Place"] = (), *, store: StorePaths | None, as_json: bool
) -> int:
    """Print and keep the reports; return the exit status: that of the worst, or 1 where a folder was left out."""
    from egodata.doctor.report import save_report

    status = max((int(bool(unclear)), *(report.status for report in reports)))
    saved = [None if store is None else save_report(store, report) for report in reports]
    if as_json:
        several = len(reports) + len(unclear) > 1
        shown = _together(path, reports, unclear, status=status) if several else reports[0].to_json()
        echo(json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False))
        return status
    for report, file in zip(reports, saved, strict=True):
        _show(report)
        if file is not None and store is not None:
            echo(f'report: {file}; accept a finding with `egodata waive {shell_word(store.root)} ID --reason "..."`')
    if len(reports) > 1:
        counts = [f"{report.vendor} {report.path}: {'fail' if report.status else 'pass'}" for report in reports]
        echo(f"{len(reports)} deliveries in {path}: {'; '.join(counts)}")
    for place in unclear:
        if not place.vendors:
            echo(f"not looked at: {place.folder} cannot be opened. Check its permissions.")
            continue
        command = f"egodata doctor {shell_word(place.folder)} --vendor {shell_word(place.vendors[0])}"
        echo(f"not looked at: {place.folder} can be read as {' and as '.join(place.vendors)}. Say which: {command}")
    return status


def _together(path: Path, reports: Sequence["DoctorReport"], unclear: Sequence["Place"], *, status: int) -> dict[str, Any]:
    return {
        "path": str(path),
        "kind": "deliveries",
        "deliveries": [report.to_json() for report in reports],
        "not_looked_at": [{"path": str(place.folder), "vendors": list(place.vendors)} for place in unclear],
        "verdict": "fail" if status else "pass",
    }


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
