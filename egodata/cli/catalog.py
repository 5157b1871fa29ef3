"""`egodata catalog`: what is known about episodes from elsewhere."""

import json
from pathlib import Path

import click

from egodata.catalog.known import Terms, set_terms
from egodata.catalog.registry import import_registry
from egodata.catalog.rows import CatalogRow, catalog_from_lance, catalog_from_store
from egodata.cli.console import PathWord, echo
from egodata.findings import Severity
from egodata.formats import open_store
from egodata.schema.layout import StorePaths, open_root

SHOWN = 10


@click.group()
def catalog() -> None:
    """Registries, licences and consent beside the episodes."""


@catalog.command("import")
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("file", type=PathWord(dir_okay=False, path_type=Path))
@click.option("--fail-on", type=click.Choice(["warning", "error"]), default="error", show_default=True, help="Disagreements are warnings.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: rows, matched, unlisted, ignored, findings.")
@click.pass_context
def import_(ctx: click.Context, store: Path, file: Path, fail_on: str, as_json: bool) -> None:
    """Attach operator, task, scene, lab and deletion marks of a registry's export FILE (.csv, .parquet) to the episodes of STORE.

    The columns are those of the public EgoVerse table: episode_hash, operator, lab, task, scene, embodiment, num_frames, is_deleted.
    Its values win in filters; the vendor's stay beside them. Where both say something else, that is a finding.
    """
    paths = open_root(store)
    found = import_registry(paths, file, rows=_rows(paths))
    if as_json:
        echo(json.dumps(found.to_json(), sort_keys=True))
    else:
        for finding in found.findings[:SHOWN]:
            echo(finding.message)
        if len(found.findings) > SHOWN:
            echo(f"and {len(found.findings) - SHOWN} more disagreements; see --json")
        unused = f"; not used: {', '.join(found.ignored)}" if found.ignored else ""
        echo(
            f"registry: {found.rows} episodes, {found.matched} of them in the store, {found.unlisted} of the store unlisted, "
            f"{len(found.findings)} disagreements{unused}"
        )
    if any(finding.severity >= Severity[fail_on.upper()] for finding in found.findings):
        ctx.exit(1)


@catalog.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("delivery", metavar="VENDOR/DELIVERY")
@click.option("--licence", help="Name of the licence.")
@click.option("--consent", help="What the recorded people agreed to.")
def terms(store: Path, delivery: str, licence: str | None, consent: str | None) -> None:
    """Say under which licence and consent a delivery came; rules and filters can ask for both."""
    paths = open_root(store)
    known = [f"{row.vendor}/{row.delivery}" for row in _rows(paths)]
    set_terms(paths, delivery, terms=Terms(licence, consent), known_deliveries=known)
    echo(f"delivery {delivery}: {known.count(delivery)} episodes, licence {licence or 'as before'}, consent {consent or 'as before'}")


def _rows(paths: StorePaths) -> list[CatalogRow]:
    return catalog_from_lance(paths) if paths.lance.is_dir() else catalog_from_store(open_store(paths, "zarr"))
