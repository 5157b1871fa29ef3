"""`egodata export`: episodes in the form that other programs read."""

from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo
from egodata.formats import FORMATS, open_store
from egodata.progress import tracked
from egodata.schema.layout import open_root


@click.group()
def export() -> None:
    """Write episodes of a store in another layout."""


@export.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("what", metavar="NAME@VERSION|ID")
@click.argument("out", type=PathWord(file_okay=False, path_type=Path))
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


@export.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("ref", metavar="NAME@VERSION")
@click.argument("out", type=PathWord(file_okay=False, path_type=Path))
@click.option("--storage", type=click.Choice(("parquet", "lance")), default="parquet", show_default=True, help="Files that it is made of.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="zarr", show_default=True, help="Which copy is read.")
@click.option("--task", default="task_name", show_default=True, help="Task text: task_name, task_description or an annotation key.")
@click.option("--raw", is_flag=True, help="Write every stored array too, as egodata.KEY, NaN where it is invalid.")
def lerobot(store: Path, ref: str, out: Path, storage: str, format_name: str, task: str, raw: bool) -> None:
    """Write a frozen dataset of STORE as a LeRobot v3.0 dataset into OUT; video is copied, not encoded again.

    Where nothing was measured, state and action hold the last measured row; egodata.*_valid says where.
    """
    from egodata.catalog import load_dataset
    from egodata.interop import ExportOptions, export_lerobot

    paths = open_root(store)
    manifest = load_dataset(paths, ref, format=format_name)
    source = open_store(paths, format_name, versions=manifest.lance_versions)
    options = ExportOptions(storage=storage, task=task, raw=raw)
    with ConsoleProgress() as progress:
        done = export_lerobot(manifest, source, out=out, options=options, progress=progress)
    echo(f"{out}: {done.episodes} episodes, {done.frames} frames, {done.video_files} video files copied; heads {', '.join(manifest.heads)}")
    if done.held:
        echo(f"{done.held} cells of state and action hold the last measured row; egodata.*_valid is false there")
    for episode_id, keys in list(done.unknown.items())[:5]:
        echo(f"episode {episode_id}: never measured, zero: {', '.join(keys)}")
    if len(done.unknown) > 5:
        echo(f"and {len(done.unknown) - 5} more episodes with parts never measured")
    if done.untold:
        echo(f"{done.untold} of {done.frames} frames have an empty task: {task} says nothing there")
