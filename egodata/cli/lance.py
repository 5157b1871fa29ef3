"""`egodata lance`: the Lance copy of a store."""

import json
from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, echo
from egodata.formats.lance import build_lance
from egodata.schema.layout import open_root


@click.group()
def lance() -> None:
    """Make and refresh the Lance copy of a store."""


@lance.command()
@click.argument("store", type=click.Path(file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def build(store: Path, as_json: bool) -> None:
    """Write new and changed episodes of STORE into its four Lance tables and take removed ones out."""
    paths = open_root(store)
    with ConsoleProgress() as progress:
        built = build_lance(paths, progress=progress)
    if as_json:
        echo(json.dumps(built.to_json(), sort_keys=True))
        return
    versions = ", ".join(f"{table} {version}" for table, version in sorted(built.versions.items()))
    if built.wrote:
        echo(f"lance: {built.added} added, {built.changed} changed, {built.removed} removed, {built.unchanged} unchanged")
        echo(f"versions: {versions}")
    else:
        echo(f"lance: nothing to do, {built.unchanged} episodes unchanged; versions: {versions}")
