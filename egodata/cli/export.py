"""`egodata export`: episodes in the form that other programs read."""

from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, echo
from egodata.progress import tracked
from egodata.schema.layout import open_root


@click.group()
def export() -> None:
    """Write episodes of a store in another layout."""


@export.command()
@click.argument("store", type=click.Path(file_okay=False, path_type=Path))
@click.argument("what", metavar="NAME@VERSION|ID")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
def zarr31(store: Path, what: str, out: Path) -> None:
    """Write a dataset's episodes, or one episode, of STORE as zarr groups of schema v3.1 into OUT.

    Invalid rows become zeros and masks are left out, as v3.1 has none; mp4 elements are copied.
    """
    from egodata.catalog import load_dataset
    from egodata.formats.zarr import ZarrStore
    from egodata.formats.zarr.export31 import export_zarr31

    paths = open_root(store)
    zarr = ZarrStore(paths)
    if "@" in what:
        manifest = load_dataset(paths, what)
        wanted: dict[str, str | None] = {episode.episode_id: episode.content for members in manifest.heads.values() for episode in members}
    else:
        wanted = {what: None}
    left_out: set[str] = set()
    with ConsoleProgress() as progress:
        for episode_id, content in tracked(list(wanted.items()), label="export", progress=progress):
            reader = zarr.open(episode_id, content=content)
            left_out.update(export_zarr31(reader, out))
            reader.close()
    echo(f"{out}: {len(wanted)} episodes as v3.1; masks and sources have no place there: {', '.join(sorted(left_out)) or 'none'}")
