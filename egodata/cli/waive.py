"""`egodata waive`: accept one finding of one episode, with a reason that stays."""

from pathlib import Path

import click

from egodata.cli.console import PathWord, echo, print_table
from egodata.errors import NotFoundError
from egodata.findings.waivers import add_waiver, read_waivers
from egodata.names import nearest, shell_word
from egodata.schema.layout import open_root, require_writable

LEAST_DIGITS = 6


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("finding", required=False)
@click.option("--reason", help="Why the finding is accepted; shown wherever the finding is.")
@click.option("--withdraw", is_flag=True, help="Take a waiver back; --reason says why.")
def waive(store: Path, finding: str | None, *, reason: str | None, withdraw: bool) -> int:
    """Accept FINDING of one episode in STORE: an id, or its first six digits or more, as doctor, validate and the ingest report print it.

    The decision is kept in ledger/waivers.jsonl. A waived finding is still shown, with its reason, and no longer makes a status 1. Without
    FINDING the waivers in force are listed. A recording that was set aside for errors which its reader could go on with is built by the
    next ingest once all of them are waived.
    """
    from egodata.doctor.stored import known_findings

    paths = open_root(store)
    in_force = read_waivers(paths.ledger)
    if finding is None:
        rows = [(item.episode, item.code, item.id, item.reason, item.at) for item in in_force.values()]
        print_table(f"Waivers of {paths.root}", ("episode", "code", "id", "reason", "at"), rows)
        return 0
    if reason is None:
        raise click.UsageError("--reason is needed: say why the finding is accepted.")
    require_writable(paths)
    known = known_findings(paths)
    matches = [key for key in known if key == finding or (len(finding) >= LEAST_DIGITS and key.startswith(finding))]
    if len(matches) != 1:
        problem = f"{len(matches)} findings begin so" if matches else f"no such finding is known; {nearest(finding, known)}"
        raise NotFoundError(f"finding {finding}: {problem}. Run `egodata doctor {shell_word(store)}` and copy its id.")
    chosen = known[matches[0]]
    if withdraw and chosen.id not in in_force:
        raise NotFoundError(f"finding {chosen.id}: has no waiver. See `egodata waive {shell_word(store)}`.")
    waiver = add_waiver(paths.ledger, chosen, reason=reason, withdrawn=withdraw)
    echo(f"{'withdrawn' if withdraw else 'waived'}: {chosen.id} {chosen.code} of {chosen.episode}: {waiver.reason}")
    return 0
