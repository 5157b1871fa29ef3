"""`egodata lance`: the Lance copy of a store."""

import json
from pathlib import Path

import click

from egodata.catalog.datasets import list_datasets, load_dataset
from egodata.catalog.leases import held_leases, kept_contents
from egodata.catalog.withdrawn import is_withdrawn
from egodata.cli.console import ConsoleProgress, PathWord, echo
from egodata.formats.lance import build_lance, cleanup_lance, compact_lance
from egodata.schema.layout import open_root


@click.group()
def lance() -> None:
    """Make and refresh the Lance copy of a store."""


@lance.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.option("--video", type=click.Choice(["copy", "av1"]), help="The very bytes (default), or encoded again for size; settled once.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def build(store: Path, video: str | None, as_json: bool) -> None:
    """Write new and changed episodes of STORE into its four Lance tables and take removed ones out."""
    paths = open_root(store)
    with ConsoleProgress() as progress:
        built = build_lance(paths, video=video, progress=progress)
    if as_json:
        echo(json.dumps(built.to_json(), sort_keys=True))
        return
    versions = ", ".join(f"{table} {version}" for table, version in sorted(built.versions.items()))
    if built.wrote:
        echo(f"lance: {built.added} added, {built.changed} changed, {built.removed} removed, {built.unchanged} unchanged")
        echo(f"versions: {versions}")
    else:
        echo(f"lance: nothing to do, {built.unchanged} episodes unchanged; versions: {versions}")


@lance.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: files, versions, blobs.")
def compact(store: Path, as_json: bool) -> None:
    """Merge small files of the Lance tables of STORE; ids, counts and video digests are checked before it counts."""
    paths = open_root(store)
    with ConsoleProgress() as progress:
        found = compact_lance(paths, progress=progress)
    if as_json:
        echo(json.dumps(found.to_json(), sort_keys=True))
        return
    files = ", ".join(f"{table} {before} -> {after}" for table, (before, after) in found.files.items())
    echo(f"lance: files {files}; {found.blobs} video elements checked" if found.wrote else "lance: nothing to merge")


@lance.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.option("--keep", type=click.IntRange(min=1), default=3, show_default=True, help="Newest commits whose versions stay.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: removed, kept, bytes, unfound, blobs, leases.")
def cleanup(store: Path, keep: int, dry_run: bool, as_json: bool) -> None:
    """Remove table versions of STORE that no dataset, no running training and none of the newest commits name."""
    paths = open_root(store)
    named = {(kept.episode_id, kept.content) for kept in kept_contents(paths)}
    refs = [(name, version) for name, version, _ in list_datasets(paths) if not is_withdrawn(paths.manifest(name, version))]
    manifests = [load_dataset(paths, f"{name}@{version}") for name, version in refs]
    recorded = [manifest.lance_versions for manifest in manifests if manifest.lance_versions]
    with ConsoleProgress() as progress:
        found = cleanup_lance(paths, named=named, recorded=recorded, keep=keep, dry_run=dry_run, progress=progress)
    leases = sorted({kept.by for kept in held_leases(paths)})
    if as_json:
        echo(json.dumps({**found.to_json(), "leases": leases}, sort_keys=True))
        return
    for line in leases:
        echo(f"honoured: {line}")
    counts = ", ".join(f"{table} {len(versions)}" for table, versions in found.removed.items())
    if dry_run:
        echo(f"lance: would remove versions: {counts}")
    else:
        echo(f"lance: removed versions: {counts}; freed {found.size_bytes / 1e6:.1f} MB; {found.blobs} video elements checked")
    for episode_id, content in found.unfound[:5]:
        echo(f"episode {episode_id}: no live Lance version holds content {content[:12]}; zarr may")
