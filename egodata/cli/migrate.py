"""`egodata migrate`: after an upgrade, what of a store is older, what stays valid, and building it again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo, print_table
from egodata.schema.layout import MARKER, StorePaths, open_root, require_writable

if TYPE_CHECKING:
    from egodata.ingest.migration import Judged, Migrated, MigrationPlan

SHOWN = 30


@click.command()
@click.argument("store", type=PathWord(exists=True, file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what is older, what would be rebuilt and which datasets keep working.")
@click.option("--vendor", help="Only recordings of this vendor.")
@click.option("--config", help="Vendor config of recordings of which nothing says which one they were built with; needs --vendor.")
@click.option("--clips", type=PathWord(dir_okay=False, path_type=Path), help="The same for the file that said how they were cut.")
@click.option("--workers", type=click.IntRange(0), help="Processes. Default: 2, or 1 on one core.")
@click.option("--limit", type=click.IntRange(1), help="Rebuild only the first N outdated recordings by id.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def migrate(  # noqa: PLR0913  click passes one parameter per option
    store: Path,
    dry_run: bool,
    vendor: str | None,
    config: str | None,
    clips: Path | None,
    workers: int | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """Build what is outdated in STORE again from its raw deliveries, as new versions beside the old ones.

    Outdated is what another converter, schema, encoder profile, vendor config or digest algorithm made than this egodata has. Each
    recording is built with the settings that it was built with. Frozen datasets keep opening the contents that they recorded. It may be
    stopped and asked for again. Exit status 0 where nothing is outdated (any more), 1 where something is.
    """
    from egodata.ingest.clips import load_clips
    from egodata.ingest.migration import Given, plan_migration, run_migration
    from egodata.ingest.migration.plan import plan_of_old_store

    if config is not None and vendor is None:
        raise click.UsageError("--config is the config of one vendor: say which with --vendor.")
    if not (store / MARKER).exists() and (old := plan_of_old_store(store)) is not None:
        return _tell(old, None, as_json=as_json, limit=None)
    paths = open_root(store)
    if not dry_run:
        require_writable(paths)
    given = Given(config, load_clips(clips))
    with ConsoleProgress() as progress:
        plan = plan_migration(paths, given=given, vendor=vendor, digests=dry_run, progress=progress)
        done = None if dry_run else run_migration(paths, plan, workers=workers, limit=limit, progress=progress)
    for report in () if done is None else done.reports:
        _write_page(paths, report)
    return _tell(plan, done, as_json=as_json, limit=limit)


def _write_page(paths: StorePaths, report: Path) -> None:
    from egodata.formats.zarr import ZarrStore
    from egodata.reports.ingest_page import write_ingest_page  # cv2 is loaded only here

    write_ingest_page(json.loads(report.read_text("utf-8")), ZarrStore(paths), out=report.with_suffix(".html"))


def _tell(plan: "MigrationPlan", done: "Migrated | None", *, as_json: bool, limit: int | None) -> int:
    status = _status(plan, done)
    if as_json:
        body = {**plan.to_json(), "done": None if done is None else done.to_json(), "status": status}
        echo(json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False))
        return status
    _show_plan(plan, "Recordings" if done is None else "Recordings, before")
    if done is None:
        _show_next(plan, limit)
    else:
        _show_done(plan, done)
    return status


def _status(plan: "MigrationPlan", done: "Migrated | None") -> int:
    """Return 1 where something is outdated, or still is after a migration."""
    if done is None:
        return int(plan.behind)
    from egodata.ingest.migration import BLOCKED

    left = done.set_aside or done.left or plan.of(BLOCKED) or plan.damaged or any(item.reason for item in plan.unlisted)
    return int(bool(left) or (not done.marked and any(part.behind for part in plan.parts)))


def _show_plan(plan: "MigrationPlan", title: str) -> None:
    from egodata.ingest.migration import BLOCKED, NEWER, OUTDATED

    if plan.parts:
        rows = [(part.name, _word(part.here), part.now, "behind" if part.behind else "") for part in plan.parts]
        print_table("Store", ("part", "here", "this egodata", ""), rows)
    if counts := plan.counts():
        print_table(title, [name.replace("_", " ") for name in counts[0]], [list(row.values()) for row in counts])
    _some("Outdated", ("recording", "why"), [(item.entry.recording, "; ".join(item.reasons)) for item in plan.of(OUTDATED)])
    blocked = [(item.entry.recording, "; ".join(item.reasons), item.blocked) for item in plan.of(BLOCKED)]
    _some("Outdated, cannot be rebuilt", ("recording", "why", "why not"), blocked)
    _some("Newer than this egodata", ("recording", "note"), [(item.entry.recording, item.note) for item in plan.of(NEWER)])
    _show_notes(plan.recordings)
    rest = [(item.episode_id, item.reason, item.note) for item in plan.unlisted]
    _some("Episodes without a ledger entry: nothing rebuilds them", ("episode", "why", "note"), rest)
    for line in plan.damaged:
        echo(line)
    _show_datasets(plan)
    for stale in plan.statistics[:SHOWN]:
        echo(f"statistics {stale.ref} {stale.file}: {stale.why}; computed again when they are asked for")


def _show_notes(recordings: "Sequence[Judged]") -> None:
    """Print what is noted of current recordings, equal notes once."""
    found: dict[str, list[str]] = {}
    for item in recordings:
        if item.state == "current" and item.note:
            found.setdefault(item.note, []).append(item.entry.recording)
    for note, names in found.items():
        echo(f"{len(names)} current recordings ({names[0]}{' ...' if len(names) > 1 else ''}): {note}")


def _show_datasets(plan: "MigrationPlan") -> None:
    rows = []
    for item in plan.datasets:
        held = [format for format, lacks in item.formats.items() if not lacks]
        lacking = [f"{format}: {lacks}" for format, lacks in item.formats.items() if lacks]
        said = f"keeps working on {' and '.join(held)}" if held else {"lacks": "lacks something already"}.get(item.state, item.state)
        rows.append((item.ref, said, item.episodes, item.outdated, "; ".join(lacking) or item.why))
    _some("Frozen datasets", ("dataset", "", "episodes", "outdated", "note"), rows)


def _show_next(plan: "MigrationPlan", limit: int | None) -> None:
    from egodata.ingest.migration import BLOCKED, OUTDATED

    count, blocked = len(plan.of(OUTDATED)), len(plan.of(BLOCKED))
    unlisted = sum(bool(item.reason) for item in plan.unlisted)
    if not plan.behind:
        echo("nothing to do: the store is what this egodata would write")
        return
    if plan.datasets and count + blocked:
        echo(
            "rebuilding makes new versions beside the old ones: frozen datasets keep opening the contents that they recorded, "
            "and a new version of a dataset is needed to get the rebuilt ones"
        )
    bound = f", {min(limit, count)} of them with this --limit" if limit is not None else ""
    echo(f"{count} recordings would be rebuilt{bound}, {blocked} are outdated and cannot be; nothing was changed")
    if unlisted:
        echo(f"{unlisted} episodes without a ledger entry are outdated")


def _show_done(plan: "MigrationPlan", done: "Migrated") -> None:
    from egodata.ingest.migration import BLOCKED

    _some("Not rebuilt: their episodes stay as they were", ("recording", "why"), sorted(done.set_aside.items()))
    if not plan.behind:
        echo("nothing to do: the store is what this egodata would write")
        return
    kept = f" ({len(done.unchanged)} with equal content)" if done.unchanged else ""
    rest = {"failed": len(done.set_aside), "left for another call": len(done.left), "cannot be rebuilt": len(plan.of(BLOCKED))}
    echo(f"{len(done.rebuilt)} recordings rebuilt{kept}" + "".join(f", {number} {name}" for name, number in rest.items() if number))
    echo("store.json is up to date" if done.marked else "store.json stays as it is until everything that can be is rebuilt")
    for path in done.reports:
        echo(f"report: {path}, page: {path.with_suffix('.html')}")
    if len(done.rebuilt) > len(done.unchanged):
        echo("next: `egodata lance build`, `egodata parity`, and a new version of each dataset that is to have the rebuilt episodes")


def _some(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print the first rows of a table and how many more there are; nothing where there are none."""
    if rows:
        print_table(title, columns, rows[:SHOWN])
    if len(rows) > SHOWN:
        echo(f"and {len(rows) - SHOWN} more, all with --json")


def _word(value: object) -> object:
    return "not recorded" if value is None else value
