"""`egodata parity`: zarr against Lance; exit status 1 where they differ."""

import json
import os
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from egodata.catalog import Manifest, load_dataset
from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.config import find_config, load_config
from egodata.errors import InputError
from egodata.parity import Choice, ParityConfig, ParityReport, check_parity
from egodata.reports.parity_page import write_parity_page
from egodata.sampling import load_recipe
from egodata.schema.layout import StorePaths, open_root

SHOWN = 5
_EPISODES_PER_WORKER = 8


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("what", required=False, metavar="[ID|NAME@VERSION]")
@click.option("--sample", type=click.IntRange(min=1), help="Only so many episodes, spread over vendors and operators, others every day.")
@click.option("--frames", type=click.IntRange(min=1), default=64, show_default=True, help="Frames decoded; samples per head.")
@click.option("--all", "everything", is_flag=True, help="Every episode, every frame and every sample.")
@click.option("--recipe", help="With a dataset: also compare its samples under this recipe.")
@click.option("--config", default="exact", show_default=True, help="Bounds: a shipped name (exact, av1) or a YAML file.")
@click.option("--seed", type=int, help="Of what is looked at, instead of the config's.")
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Day that the sample is for; by default today (UTC).")
@click.option("--workers", type=click.IntRange(min=1), help="Processes; by default as many as there are cores and work.")
@click.option("--fresh", is_flag=True, help="Do not go on from where an interrupted check stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def parity(ctx: click.Context, /, store: Path, what: str | None, **options: Any) -> None:
    """Compare the zarr episodes of STORE with their Lance copy: all of them, one episode, or a frozen dataset.

    Numbers, spans, attributes and video bytes are compared in full; --frames limits only what is decoded. The report is kept in
    STORE/reports/parity as JSON and as a page, and its rows are appended to the table reports/parity.lance.
    """
    paths = open_root(store)
    dataset: Manifest | None = load_dataset(paths, what) if what and "@" in what else None
    if options["recipe"] and dataset is None:
        raise InputError("parity: --recipe needs a dataset, got none. Name it as NAME@VERSION.")
    if options["sample"] and (options["everything"] or (what and dataset is None)):
        raise InputError("parity: --sample chooses among many episodes, got one episode or --all. Give one of them.")
    with ConsoleProgress() as progress:
        report = check_parity(
            paths,
            episode_ids=[what] if what and dataset is None else _choice(options["sample"], options["day"]),
            dataset=dataset,
            recipe=load_recipe(options["recipe"]) if options["recipe"] else None,
            samples=None if options["everything"] else options["frames"],
            config=_config(paths, options, dataset),
            progress=progress,
        )
    page = write_parity_page(paths, report, dataset=dataset)
    if options["as_json"]:
        echo(json.dumps(report.to_json(), sort_keys=True))
    else:
        _print(report)
        echo(f"page: {page}")
    if not report.passed:
        ctx.exit(1)


def _choice(sample: int | None, day: datetime | None) -> Choice | None:
    if sample is None:
        return None
    return Choice(sample, date(day.year, day.month, day.day) if day else datetime.now(UTC).date())


def _config(paths: StorePaths, options: dict[str, Any], dataset: Manifest | None) -> ParityConfig:
    config = load_config(find_config("parity", options["config"]), ParityConfig)
    if dataset is not None:
        episodes = sum(len(members) for members in dataset.heads.values())
    else:
        episodes = options["sample"] or sum(1 for _ in paths.zarr.glob("*.zarr"))
    workers = options["workers"] or max(1, min(os.cpu_count() or 1, episodes // _EPISODES_PER_WORKER))
    seed = config.seed if options["seed"] is None else options["seed"]
    return replace(config, workers=workers, seed=seed, fresh=options["fresh"] or config.fresh)


def _print(report: ParityReport) -> None:
    rows = []
    for level in report.levels:
        found = level.outcome
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.counts.items())
        rows.append((level.level, "passed" if level.passed else "failed", counts, str(found.numeric or 0), str(found.pixel or 0)))
    print_table(
        "Parity of zarr and Lance", ("level", "verdict", "compared", "largest numeric difference", "largest pixel difference"), rows
    )
    if report.chosen:
        echo(f"sample: {report.chosen['episodes']} of {report.chosen['of']} episodes, for {report.chosen['day']}")
    for level in report.levels:
        if level.outcome.likeness is not None:
            echo(f"{level.level}: {level.outcome.likeness}")
        for finding in level.outcome.findings[:SHOWN]:
            echo(f"{level.level}: {finding.message}")
        more = len(level.outcome.findings) - SHOWN
        if more > 0:
            echo(f"{level.level}: {more} more findings; see reports/parity")
