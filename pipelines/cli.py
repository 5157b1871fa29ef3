"""The `egopipe` command."""

import sys
from pathlib import Path

import click

from egodata import __version__
from egodata.cli.main import run
from egodata.schema.layout import open_root

DEFAULT_PORT = 3000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="egopipe")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
def cli(show_traceback: bool) -> None:
    """Make datasets as Dagster assets: from deliveries to trained models."""


@cli.command()
@click.option("--store", type=click.Path(path_type=Path), default=Path("store"), show_default=True, help="Store whose assets to show.")
@click.option("--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True)
def up(store: Path, port: int) -> int:
    """Start the Dagster UI and daemon on 127.0.0.1; Ctrl-C stops both."""
    from pipelines.server import serve

    return serve(open_root(store), port=port, ready=lambda url: click.echo(f"{url}  (store {store.absolute()}, Ctrl-C stops)"))


@cli.command()
@click.option("--raw", type=click.Path(path_type=Path), default=None, help="A delivery of your own; without it a synthetic one is made.")
@click.option("--vendor", default="mecka", show_default=True, help="Vendor of the delivery.")
@click.option("--store", type=click.Path(path_type=Path), default=Path("store"), show_default=True)
@click.option("--rule", default=None, help="Dataset rule: a shipped name or a YAML file. Default: by vendor.")
@click.option("--recipe", default=None, help="Sampling recipe. Default: by vendor.")
@click.option("--experiment", default=None, help="Training experiment. Default: by vendor.")
@click.option("--steps", type=click.IntRange(1), default=60, show_default=True, help="Optimiser steps: a first look, not a good policy.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="A further word for `egotrain fit`; may be given often.")
@click.option("--episodes", type=click.IntRange(7), default=24, show_default=True, help="Episodes of the synthetic delivery.")
def quickstart(**values: object) -> int:
    """Take one delivery all the way to two trained policies, as Dagster assets, and print what came out."""
    from pipelines.plan import Plan
    from pipelines.quickstart import quickstart as run_quickstart

    return run_quickstart(Plan.resolve(**values))


def main() -> None:
    """Run `egopipe` from the command line."""
    sys.exit(run(cli, program="egopipe"))
