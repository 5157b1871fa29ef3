"""`egodata gc`: free the space of versions that nothing names."""

import json
from pathlib import Path

import click

from egodata.catalog.leases import held_leases, named_contents
from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.formats import open_store
from egodata.formats.zarr.gc import collect_garbage
from egodata.sampling.blocks import stale_blocks
from egodata.schema.layout import CONTENT_PREFIX, StorePaths, open_root, require_writable

SHOWN = 30


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: freed, busy, leases, bytes, blocks.")
def gc(store: Path, dry_run: bool, as_json: bool) -> None:
    """Remove versions of episodes in STORE that no link, no dataset and no running training names.

    Of builds with equal content that a dataset names, the newest intact one stays. Episodes that are being written are left alone.
    Cached numbers of contents that nothing holds any more go too.
    """
    paths = open_root(store)
    require_writable(paths)
    with ConsoleProgress() as progress:
        found = collect_garbage(paths, named_contents(paths), dry_run=dry_run, progress=progress)
    blocks, blocks_bytes = _free_blocks(paths, dry_run=dry_run)
    leases = sorted({kept.by for kept in held_leases(paths)})
    if as_json:
        freed = [{"episode": f.episode_id, "version": f.version, "bytes": f.size_bytes, "why": f.why} for f in found.freed]
        cached = {"blocks": blocks, "blocks_bytes": blocks_bytes}
        echo(json.dumps({"bytes": found.size_bytes, "busy": list(found.busy), "freed": freed, "leases": leases, **cached}, sort_keys=True))
        return
    if found.freed:
        rows = [(item.episode_id, item.version, item.size_bytes // 1024, item.why) for item in found.freed[:SHOWN]]
        print_table("Would be removed" if dry_run else "Removed", ("episode", "version", "KB", "why"), rows)
    if len(found.freed) > SHOWN:
        echo(f"and {len(found.freed) - SHOWN} more")
    for line in leases:
        echo(f"honoured: {line}")
    for episode_id in found.busy:
        echo(f"left alone: episode {episode_id} is being written")
    verb = "would free" if dry_run else "freed"
    echo(
        f"{len(found.freed)} versions, {verb} {found.size_bytes / 1e6:.1f} MB"
        + (f"; {found.leftovers} leftovers removed" if found.leftovers else "")
    )
    if blocks:
        echo(f"{blocks} cached blocks of numbers that nothing names, {verb} {blocks_bytes / 1e6:.1f} MB")


def _free_blocks(paths: StorePaths, *, dry_run: bool) -> tuple[int, int]:
    """Remove cached blocks of contents that are neither published nor named by a dataset or a lease; who has one mapped keeps it."""
    wanted = {content for _, content in named_contents(paths)()}
    current = {
        paths.episode_link(episode_id).readlink().parts[-2][:CONTENT_PREFIX] for episode_id in open_store(paths, "zarr").episode_ids()
    }
    found = [path for path in stale_blocks(paths.cache / "blocks", wanted=wanted) if path.stem[:CONTENT_PREFIX] not in current]
    stale = [(path, path.stat().st_size) for path in found]
    if not dry_run:
        for path, _ in stale:
            path.unlink(missing_ok=True)
    return len(stale), sum(size for _, size in stale)
