"""`egodata stats`: norm statistics of a frozen dataset's training head, and a report on them."""

import json
from pathlib import Path

import click

from egodata.catalog import load_dataset
from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.formats import FORMATS
from egodata.reports.stats_page import report_folder, write_report
from egodata.sampling import load_recipe
from egodata.schema.layout import open_root
from egodata.stats import NormStats, StatsReport, norm_stats, stats_report

SHOWN = 8


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("ref")
@click.option("--recipe", required=True, help="A shipped recipe by name, or a .yaml file.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="zarr", show_default=True, help="Which copy is read.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that gather and sort.")
@click.option("--report/--no-report", "with_report", default=True, help="Write the HTML and JSON report. Default: yes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(store: Path, ref: str, recipe: str, format_name: str, workers: int, with_report: bool, as_json: bool) -> None:
    """Compute norm statistics of REF (NAME@VERSION) under a recipe, or take them from the cache, and report on them."""
    paths = open_root(store)
    manifest = load_dataset(paths, ref, format=format_name)
    loaded = load_recipe(recipe)
    with ConsoleProgress() as progress:
        found = norm_stats(paths, manifest, recipe=loaded, format=format_name, workers=workers, progress=progress)
        report = None
        if with_report:
            report = stats_report(paths, manifest, recipe=loaded, stats=found, format=format_name, progress=progress)
    files, refused = ([], "") if report is None else _kept(report_folder(paths, found, dataset=manifest.ref), report, found)
    flat = [str(channel) for channel in found.flat_channels()]
    if as_json:
        numbers = {"key": found.key, "episodes": found.episodes, "windows": found.windows, "cached": found.cached, "flat_channels": flat}
        written = {"path": str(found.path or ""), "report": [str(path) for path in files]}
        echo(json.dumps({**numbers, **written, "dataset": manifest.ref, "recipe": recipe}, sort_keys=True))
        return
    print_table(
        f"Statistics of {manifest.ref} head train, recipe {recipe}",
        ("feature", "channel", "rows", "mean", "std", "q01", "q99"),
        _rows(found),
    )
    echo(f"key {found.key[:16]}, {found.episodes} episodes, {found.windows} windows" + (", from the cache" if found.cached else ""))
    if flat:
        more = f" and {len(flat) - SHOWN} more" if len(flat) > SHOWN else ""
        echo(f"no scale, so they normalise to 0: {'; '.join(flat[:SHOWN])}{more}")
    echo(f"kept: {found.path}" if found.path else "not kept: the store could not be written")
    if report is not None:
        _print_report(report)
        echo(f"report: {', '.join(str(path) for path in files)}" if files else f"report not kept: {refused}")


def _kept(path: Path, report: StatsReport, found: NormStats) -> tuple[list[Path], str]:
    """Write the report; a store that this user may only read costs the files, not what was computed."""
    try:
        return list(write_report(path, report, stats=found)), ""
    except OSError as error:
        return [], f"{error.filename or path}: {error.strerror or error}"


def _print_report(report: StatsReport) -> None:
    drifting = sorted((one for one in report.drift if one.drifts), key=lambda one: -one.distance)
    if drifting:
        more = f" and {len(drifting) - SHOWN} more" if len(drifting) > SHOWN else ""
        listed = "; ".join(f"{one.head} {one.feature} {one.channel} {one.distance:.2f}" for one in drifting[:SHOWN])
        echo(f"drift against training: {listed}{more}")
    apart = sorted((one for one in report.operators if one.stands_out), key=lambda one: -one.outside)
    for one in apart[:SHOWN]:
        echo(
            f"operator {one.operator or 'unknown'} ({one.head}): {one.outside:.1%} of its cells outside q01 to q99, "
            f"farthest at episode {one.episode_id} frame {one.frame}, {one.channel}"
        )
    if len(apart) > SHOWN:
        echo(f"and {len(apart) - SHOWN} more operators; see the report")


def _rows(found: NormStats) -> list[tuple[object, ...]]:
    """One row per channel; of actions the last step, where the spread is widest."""
    rows: list[tuple[object, ...]] = []
    for feature, stats_of in found.features.items():
        last = {name: values[-1] if values.ndim == 2 else values for name, values in stats_of.fields.items()}
        label = f"{feature} (last step)" if stats_of.fields["mean"].ndim == 2 else feature
        for channel, name in enumerate(stats_of.names):
            numbers = (f"{last[field][channel]:.4g}" for field in ("mean", "std", "q01", "q99"))
            rows.append((label, name, int(last["count"][channel]), *numbers))
    return rows
