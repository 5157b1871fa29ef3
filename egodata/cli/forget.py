"""`egodata forget`: take a person or an episode out of a store."""

import json
from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo
from egodata.ingest.forget import Forgotten, forget_episodes
from egodata.schema.layout import open_root

SHOWN = 10
ADVICE = (
    "Ask the vendor for a delivery without it, ingest that, then remove these by hand; "
    "or remove them now: recordings that use them keep their episodes, and cannot be built again."
)


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.option("--operator", help="As the catalog names it, such as mecka/6871...")
@click.option("--episode", "episode_id", help="One episode.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def forget(ctx: click.Context, /, store: Path, operator: str | None, episode_id: str | None, *, yes: bool, as_json: bool) -> None:
    """Remove an operator or an episode from STORE for ever: raw files in the store, zarr and Lance with all old versions, caches, reports.

    Datasets that hold it are marked withdrawn, the others open as before. Raw files that others use too stay, and are named.
    Exit status 1 where bytes remain or may.
    """
    paths = open_root(store)
    if (episode_id is None) == (operator is None):
        raise click.UsageError("give either --episode ID or --operator VENDOR/ID.")
    if not yes:
        click.confirm(f"Remove {operator or episode_id} from {paths.root}? This cannot be undone.", abort=True, err=True)
    with ConsoleProgress() as progress:
        done = forget_episodes(paths, episode_id=episode_id, operator=operator, progress=progress)
    if as_json:
        echo(json.dumps(done.to_json(), sort_keys=True))
    else:
        echo(f"forgotten: {len(done.episodes)} episodes; files removed: {', '.join(f'{name} {n}' for name, n in done.removed.items())}")
        for title, names in (("withdrawn", done.withdrawn), ("open as before", done.kept), ("runs that used it", done.runs)):
            echo(f"{title}: {', '.join(names) or 'none'}")
        _tell_raw(done)
        echo(f"proof: {done.probes} byte strings looked for in every file, {len(done.remains)} files hold one")
    for path in done.remains[:SHOWN]:
        echo(f"remains: {path}")
    if not done.complete:
        ctx.exit(1)


def _tell_raw(done: Forgotten) -> None:
    for where in done.raw_outside[:SHOWN]:
        echo(f"raw files outside the store, to be removed by hand: {_shown(where)}")
    for where in done.raw_shared[:SHOWN]:
        echo(f"raw file that stays, others use it too or may: {_shown(where)}")
    if done.raw_shared:
        echo(f"{len(done.raw_shared)} such raw files still hold the subject, or may. {ADVICE}")
    for why in done.raw_unread[:SHOWN]:
        echo(f"raw files that nobody can tell apart: {_shown(why)}")


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
