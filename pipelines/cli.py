"""The `egopipe` command."""

import sys
from pathlib import Path
from typing import Any

import click

from egodata import __version__
from egodata.cli.console import PathWord
from egodata.cli.main import run
from egodata.schema.layout import open_root

DEFAULT_PORT = 3000


STORE = click.option("--store", type=PathWord(path_type=Path), default=Path("store"), show_default=True, help="The store.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="egopipe")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
def cli(show_traceback: bool) -> None:
    """Make datasets as Dagster assets: from deliveries to trained models."""


@cli.command()
@click.option("--store", type=PathWord(path_type=Path), default=Path("store"), show_default=True, help="Store whose assets to show.")
@click.option("--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True)
@click.option("--automate", is_flag=True, help="Build, refresh and check what is new by itself: switches those sensors on by default.")
def up(store: Path, port: int, automate: bool) -> int:
    """Start the Dagster UI and daemon on 127.0.0.1 and keep them alive; Ctrl-C stops both."""
    from pipelines.server import serve

    def ready(url: str) -> None:
        click.echo(f"{url}  (store {store.absolute()}, Ctrl-C stops)")

    extra = {"EGO_AUTOMATE": "1"} if automate else {}
    return serve(open_root(store), port=port, ready=ready, say=lambda text: click.echo(text, err=True), extra=extra)


@cli.command()
@click.argument("raw", type=PathWord(file_okay=False, path_type=Path))
@click.option("--vendor", required=True, help="Whose layout the delivery is in.")
@STORE
@click.option("--dataset", default="", help="Prefix of ids for vendors whose ids are not unique. Default: the folder's name.")
@click.option("--delivery", default="", help="Name of the batch. Default: the folder's name.")
def watch(raw: Path, vendor: str, store: Path, dataset: str, delivery: str) -> int:
    """Register the delivery RAW, so that its recordings are partitions and corrections of it are seen."""
    from pipelines.commands import watch as run_watch

    return run_watch(store, raw, vendor=vendor, dataset=dataset, delivery=delivery)


@cli.command()
@click.argument("assets", nargs=-1, required=True)
@STORE
@click.option("--partition", "partitions", multiple=True, help="A partition of an asset that has some; may be given often.")
def materialize(assets: tuple[str, ...], store: Path, partitions: tuple[str, ...]) -> int:
    """Make ASSETS, or single partitions of one, and wait: in the running `egopipe up` if there is one, else here."""
    from pipelines.commands import materialize as run_materialize

    return run_materialize(store, assets, partitions=partitions)


@cli.command()
@click.argument("assets", nargs=-1, required=True)
@STORE
@click.option("--partition", "partitions", multiple=True, help="Only these; may be given often.")
@click.option("--all", "everything", is_flag=True, help="Every partition.")
@click.option("--failed", is_flag=True, help="Only what failed last time.")
def backfill(assets: tuple[str, ...], store: Path, *, partitions: tuple[str, ...], everything: bool, failed: bool) -> int:
    """Make partitions of ASSETS one asset after the other, by default those that are missing or stale; status 1 if some fail."""
    from pipelines.commands import backfill as run_backfill

    return run_backfill(store, assets, partitions=partitions, everything=everything, failed=failed)


@cli.command()
@STORE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: address, assets, deliveries.")
def status(store: Path, as_json: bool) -> int:
    """Say per asset what is there, what failed and why, and what is stale; status 1 if something failed."""
    from pipelines.commands import status as run_status

    return run_status(store, as_json=as_json)


@cli.command()
@click.argument("checkpoint", required=False, type=PathWord(exists=True, path_type=Path))
@click.option("--episode", help="The other way: which datasets and checkpoints used this episode.")
@click.option("--store", type=PathWord(path_type=Path), default=None, help="Default: the store that holds CHECKPOINT, else ./store.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def lineage(checkpoint: Path | None, episode: str | None, store: Path | None, as_json: bool) -> int:
    """Say what CHECKPOINT (or a run folder) was made from: dataset, episodes, raw files, converters, settings, parity. Needs no server."""
    from pipelines.lineage import lineage as run_lineage

    return run_lineage(checkpoint, episode=episode, store=store, as_json=as_json)


@cli.command()
@click.option("--raw", type=PathWord(path_type=Path), default=None, help="A delivery of your own; without it a synthetic one is made.")
@click.option("--vendor", default="mecka", show_default=True, help="Vendor of the delivery.")
@click.option("--store", type=PathWord(path_type=Path), default=Path("store"), show_default=True)
@click.option("--rule", default=None, help="Dataset rule: a shipped name or a YAML file. Default: by vendor.")
@click.option("--recipe", default=None, help="Sampling recipe. Default: by vendor.")
@click.option("--experiment", default=None, help="Training experiment. Default: by vendor.")
@click.option("--steps", type=click.IntRange(1), default=60, show_default=True, help="Optimiser steps: a first look, not a good policy.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="A further word for `egotrain fit`; may be given often.")
@click.option("--episodes", type=click.IntRange(7), default=24, show_default=True, help="Episodes of the synthetic delivery.")
def quickstart(**values: Any) -> int:
    """Take one delivery all the way to two trained policies, as Dagster assets, and print what came out."""
    odd = [word for word in values["overrides"] if not word.partition("=")[1] or word.startswith("=")]
    if odd:  # said now, not when everything before the training is done
        raise click.UsageError(f"--set {odd[0]!r}: expected KEY=VALUE, such as seed=1")
    from pipelines.plan import Plan
    from pipelines.quickstart import quickstart as run_quickstart

    return run_quickstart(Plan.resolve(**values))


def main() -> None:
    """Run `egopipe` from the command line."""
    sys.exit(run(cli, program="egopipe"))
