"""`egodata dataset`: freeze a rule, show, list and compare frozen datasets."""

import json
from pathlib import Path
from typing import Any

import click

from egodata.catalog import Manifest, diff_manifests, freeze as freeze_rule, list_datasets, load_dataset, load_rule
from egodata.cli.console import echo, print_table
from egodata.formats import FORMATS
from egodata.schema.layout import open_root

STORE = click.argument("store", type=click.Path(file_okay=False, path_type=Path))


@click.group()
def dataset() -> None:
    """Freeze datasets, show, list and compare them."""


@dataset.command()
@STORE
@click.argument("rule")
@click.option("--version", help="Instead of the rule's own version.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="lance", show_default=True, help="Whose catalog is read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def freeze(store: Path, rule: str, version: str | None, format_name: str, as_json: bool) -> None:
    """Freeze RULE, a shipped one by name or a .yaml file, as a dataset of STORE."""
    frozen = freeze_rule(open_root(store), load_rule(rule), version=version, format=format_name)
    if as_json:
        echo(json.dumps({**_summary(frozen.manifest), "created": frozen.created}, sort_keys=True))
        return
    _print(frozen.manifest)
    echo(f"frozen: {frozen.path}" if frozen.created else f"unchanged: the same content was frozen before as {frozen.manifest.ref}")


@dataset.command()
@STORE
@click.argument("ref")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(store: Path, ref: str, as_json: bool) -> None:
    """Show a frozen dataset, NAME@VERSION, after checking its digest and gates."""
    manifest = load_dataset(open_root(store), ref)
    if as_json:
        echo(json.dumps(_summary(manifest), sort_keys=True))
        return
    _print(manifest)


@dataset.command(name="list")
@STORE
def list_command(store: Path) -> None:
    """List the frozen datasets of STORE."""
    found = list_datasets(open_root(store))
    if not found:
        echo(f"no datasets yet. Freeze one with `egodata dataset freeze {store} RULE`.")
        return
    print_table("Datasets", ("name", "version", "digest"), [(name, version, digest[:16]) for name, version, digest in found])


@dataset.command()
@STORE
@click.argument("before")
@click.argument("after")
@click.pass_context
def diff(ctx: click.Context, store: Path, before: str, after: str) -> None:
    """Compare two frozen datasets; the status is 0 if they hold the same, else 1."""
    paths = open_root(store)
    lines = diff_manifests(load_dataset(paths, before), load_dataset(paths, after)).lines(limit=20)
    for line in lines or ["no difference"]:
        echo(line)
    ctx.exit(1 if lines else 0)


def _summary(manifest: Manifest) -> dict[str, Any]:
    return {
        "dataset": manifest.ref,
        "digest": manifest.digest,
        "heads": {
            head: {
                "episodes": len(members),
                "frames": sum(episode.frames for episode in members),
                "operators": len({episode.operator for episode in members} - {None}),
                "pins": list(manifest.pins.get(head, ())),
            }
            for head, members in manifest.heads.items()
        },
        "held_out_operators": list(manifest.held_out_operators),
        "provenance": dict(manifest.provenance),
    }


def _print(manifest: Manifest) -> None:
    summary = _summary(manifest)
    rows = [
        (head, *(found[key] for key in ("episodes", "frames", "operators")), ", ".join(found["pins"]))
        for head, found in summary["heads"].items()
    ]
    print_table(f"Dataset {manifest.ref} {manifest.digest[:16]}", ("head", "episodes", "frames", "operators", "pins"), rows)
    if manifest.held_out_operators:
        echo(f"held-out operators: {', '.join(manifest.held_out_operators)}")
    for reason, count in manifest.provenance.get("left_out", {}).items():
        echo(f"left out: {count} ({reason})")
    absent = manifest.provenance.get("absent_exclusions", [])
    if absent:
        echo(f"excluded but not in the catalog: {', '.join(absent[:5])}{f' and {len(absent) - 5} more' if len(absent) > 5 else ''}")
