"""`egodata verify`: check stored zarr episodes against their records."""

import json
import random
from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.findings import Finding
from egodata.formats.zarr import ZarrStore, verify_episode
from egodata.names import shell_word
from egodata.progress import tracked
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import open_root


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("episode_id", required=False)
@click.option("--content", help="Verify the version with this content digest instead of the current one.")
@click.option("--sample", type=click.IntRange(1), help="Verify only N episodes, evenly spread by --seed.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which episodes --sample takes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: episodes, findings.")
@click.pass_context
def verify(
    ctx: click.Context, store: Path, episode_id: str | None, *, content: str | None, sample: int | None, seed: int, as_json: bool
) -> None:
    """Check every file and recompute every digest of all episodes of STORE, of a sample of them, or of EPISODE_ID.

    Exit status 1 if anything is missing, changed or unlisted.
    """
    if content is not None and episode_id is None:
        raise click.UsageError("--content needs an EPISODE_ID")
    paths = open_root(store)
    ids = [episode_id] if episode_id else ZarrStore(paths).episode_ids()
    if sample is not None and sample < len(ids):
        ids = sorted_ids(random.Random(seed).sample(ids, sample))
    findings: list[Finding] = []
    with ConsoleProgress() as progress:
        for one in tracked(ids, label="verify", progress=progress):
            findings += verify_episode(paths, one, content=content)
    if as_json:
        echo(json.dumps({"episodes": len(ids), "findings": [finding.to_json() for finding in findings]}, sort_keys=True))
    elif findings:
        rows = [(finding.episode, finding.code, finding.stream, finding.message) for finding in findings]
        print_table("Findings", ("episode", "code", "stream", "message"), rows)
    if not as_json:
        bad = len({finding.episode for finding in findings})
        echo(f"{len(ids)} episodes verified, {bad} with findings")
        if findings:
            command = f"egodata ingest RAW --vendor V --store {shell_word(paths.root)} --force --only RECORDING"
            echo(f"to build one again from its delivery: {command}")
    ctx.exit(1 if findings else 0)
