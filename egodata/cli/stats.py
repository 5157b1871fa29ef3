"""`egodata stats`: norm statistics of a frozen dataset's training head."""

import json
from pathlib import Path

import click

from egodata.catalog import load_dataset
from egodata.cli.console import ConsoleProgress, echo, print_table
from egodata.formats import FORMATS
from egodata.sampling import load_recipe
from egodata.schema.layout import open_root
from egodata.stats import NormStats, norm_stats

SHOWN = 8


@click.command()
@click.argument("store", type=click.Path(file_okay=False, path_type=Path))
@click.argument("ref")
@click.option("--recipe", required=True, help="A shipped recipe by name, or a .yaml file.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="zarr", show_default=True, help="Which copy is read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(store: Path, ref: str, recipe: str, format_name: str, as_json: bool) -> None:
    """Compute norm statistics of REF (NAME@VERSION) under a recipe, or take them from the cache."""
    paths = open_root(store)
    manifest = load_dataset(paths, ref)
    with ConsoleProgress() as progress:
        found = norm_stats(paths, manifest, recipe=load_recipe(recipe), format=format_name, progress=progress)
    flat = [str(channel) for channel in found.flat_channels()]
    if as_json:
        numbers = {"key": found.key, "episodes": found.episodes, "windows": found.windows, "cached": found.cached, "flat_channels": flat}
        echo(json.dumps({**numbers, "dataset": manifest.ref, "recipe": recipe, "path": str(found.path or "")}, sort_keys=True))
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
