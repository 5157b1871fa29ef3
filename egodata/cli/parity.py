"""`egodata parity`: zarr against Lance; exit status 1 where they differ."""

import json
from pathlib import Path

import click

from egodata.catalog import Manifest, load_dataset
from egodata.cli.console import ConsoleProgress, echo, print_table
from egodata.errors import InputError
from egodata.parity import ParityReport, check_parity
from egodata.sampling import load_recipe
from egodata.schema.layout import open_root

SHOWN = 5


@click.command()
@click.argument("store", type=click.Path(file_okay=False, path_type=Path))
@click.argument("what", required=False, metavar="[ID|NAME@VERSION]")
@click.option("--sample", "samples", type=click.IntRange(min=1), default=64, show_default=True, help="Samples per head; frames decoded.")
@click.option("--all", "everything", is_flag=True, help="Every sample and every frame.")
@click.option("--recipe", help="With a dataset: also compare its samples under this recipe.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def parity(ctx: click.Context, store: Path, what: str | None, samples: int, everything: bool, recipe: str | None, as_json: bool) -> None:
    """Compare the zarr episodes of STORE with their Lance copy: all of them, one episode, or a frozen dataset.

    Numbers, spans, attributes and video bytes are compared in full; --sample limits only what is decoded.
    """
    paths = open_root(store)
    dataset: Manifest | None = load_dataset(paths, what) if what and "@" in what else None
    if recipe and dataset is None:
        raise InputError("parity: --recipe needs a dataset, got none. Name it as NAME@VERSION.")
    with ConsoleProgress() as progress:
        report = check_parity(
            paths,
            episode_ids=[what] if what and dataset is None else None,
            dataset=dataset,
            recipe=load_recipe(recipe) if recipe else None,
            samples=None if everything else samples,
            progress=progress,
        )
    if as_json:
        echo(json.dumps(report.to_json(), sort_keys=True))
    else:
        _print(report)
    if not report.passed:
        ctx.exit(1)


def _print(report: ParityReport) -> None:
    rows = []
    for level in report.levels:
        found = level.outcome
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.counts.items())
        rows.append((level.level, "passed" if level.passed else "failed", counts, str(found.numeric or 0), str(found.pixel or 0)))
    print_table(
        "Parity of zarr and Lance", ("level", "verdict", "compared", "largest numeric difference", "largest pixel difference"), rows
    )
    for level in report.levels:
        for finding in level.outcome.findings[:SHOWN]:
            echo(f"{level.level}: {finding.message}")
        more = len(level.outcome.findings) - SHOWN
        if more > 0:
            echo(f"{level.level}: {more} more findings; see reports/parity")
