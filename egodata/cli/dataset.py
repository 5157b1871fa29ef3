"""`egodata dataset`: freeze a rule, show, list and compare frozen datasets."""

import json
from pathlib import Path
from typing import Any

import click

from egodata.catalog import Manifest, check_present, diff_manifests, freeze as freeze_rule, list_datasets, load_dataset, load_rule
from egodata.catalog.presence import SAMPLED
from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.episode import EpisodeStore
from egodata.errors import NotFoundError
from egodata.formats import FORMATS, open_store
from egodata.names import shell_word
from egodata.reports.dataset_card import write_card
from egodata.schema.layout import StorePaths, open_root

STORE = click.argument("store", type=PathWord(file_okay=False, path_type=Path))


@click.group()
def dataset() -> None:
    """Freeze datasets, show, list and compare them."""


@dataset.command()
@STORE
@click.argument("rule")
@click.option("--version", help="Instead of the rule's own version.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="lance", show_default=True, help="Whose catalog is read.")
@click.option("--card/--no-card", "with_card", default=True, help="Write card.html beside the manifest. Default: yes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def freeze(store: Path, rule: str, version: str | None, format_name: str, with_card: bool, as_json: bool) -> None:
    """Freeze RULE, a shipped one by name or a .yaml file, as a dataset of STORE."""
    paths = open_root(store)
    frozen = freeze_rule(paths, load_rule(rule), version=version, format=format_name)
    written = _card(paths, frozen.manifest, format_name) if with_card and frozen.created else None
    if as_json:
        echo(json.dumps({**_summary(frozen.manifest), "created": frozen.created, "card": str(written or "")}, sort_keys=True))
        return
    _print(frozen.manifest)
    if written:
        echo(f"card: {written}")
    echo(f"frozen: {frozen.path}" if frozen.created else f"unchanged: the same content was frozen before as {frozen.manifest.ref}")


@dataset.command()
@STORE
@click.argument("ref")
@click.option("--format", "format_name", type=click.Choice(FORMATS), help="Look for its episodes in this copy too.")
@click.option("--full", is_flag=True, help="Look for every episode, not for a sample of 64.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(store: Path, ref: str, format_name: str | None, full: bool, as_json: bool) -> None:
    """Show a frozen dataset, NAME@VERSION, after checking its digest and gates."""
    paths = open_root(store)
    manifest = load_dataset(paths, ref)
    looked = None
    if format_name or full:
        chosen = format_name or ("zarr" if manifest.lance_versions is None else "lance")
        with ConsoleProgress() as progress:
            looked = check_present(manifest, _store(paths, manifest, chosen), sample=None if full else SAMPLED, progress=progress)
    if as_json:
        echo(json.dumps({**_summary(manifest), "looked_at": looked}, sort_keys=True))
        return
    _print(manifest)
    if looked is not None:
        echo(f"all there: {looked} episodes opened in the contents recorded")


@dataset.command()
@STORE
@click.argument("ref")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="lance", show_default=True, help="Which copy is read.")
def card(store: Path, ref: str, format_name: str) -> None:
    """Write the card of a frozen dataset, NAME@VERSION, again: an HTML page beside its manifest."""
    paths = open_root(store)
    echo(f"card: {_card(paths, load_dataset(paths, ref), format_name)}")


@dataset.command(name="list")
@STORE
def list_command(store: Path) -> None:
    """List the frozen datasets of STORE."""
    found = list_datasets(open_root(store))
    if not found:
        echo(f"no datasets yet. Freeze one with `egodata dataset freeze {shell_word(store)} RULE`.")
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


def _store(paths: StorePaths, manifest: Manifest, format_name: str) -> EpisodeStore:
    return open_store(paths, format_name, versions=manifest.lance_versions)


def _card(paths: StorePaths, manifest: Manifest, format_name: str) -> Path | None:
    """Write the card, which nothing depends on: where it cannot be written, that is said and no more."""
    with ConsoleProgress() as progress:
        try:
            return write_card(paths, manifest, store=_store(paths, manifest, format_name), progress=progress)
        except (OSError, NotFoundError) as error:
            click.echo(f"no card: {error}", err=True)
            return None


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
    parent = manifest.provenance.get("parent")
    if parent:
        echo(f"follows version {parent['version']}: {'; '.join(parent['difference']['lines']) or 'no difference'}")
    if manifest.held_out_operators:
        echo(f"held-out operators: {', '.join(manifest.held_out_operators)}")
    for reason, count in manifest.provenance.get("left_out", {}).items():
        echo(f"left out: {count} ({reason})")
    absent = manifest.provenance.get("absent_exclusions", [])
    if absent:
        echo(f"excluded but not in the catalog: {', '.join(absent[:5])}{f' and {len(absent) - 5} more' if len(absent) > 5 else ''}")
