"""Rebuild what is outdated, by way of ingest, and then say in `store.json` that the store is up to date."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from egodata.errors import EgodataError
from egodata.findings import Severity
from egodata.ingest.migration.delivered import Group, grouped
from egodata.ingest.migration.judge import OUTDATED, Judged
from egodata.ingest.migration.plan import LANCE, MigrationPlan
from egodata.ingest.options import IngestOptions
from egodata.ingest.report import SET_ASIDE, Outcome
from egodata.ingest.run import ingest
from egodata.progress import Progress, silent
from egodata.schema.layout import StorePaths, current_marker, read_marker, require_writable, write_marker


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a migration did.

    Attributes:
        rebuilt: New content by episode id, by recording.
        unchanged: Of those recordings the ones that came out as they were: a new converter, equal content.
        set_aside: Why, by recording that could not be rebuilt; its episodes stay as they were.
        left: Outdated recordings that were not asked for.
        marked: Whether `store.json` is up to date now.
        reports: Ingest reports.
    """

    rebuilt: dict[str, dict[str, str]] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    set_aside: dict[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    marked: bool = False
    reports: list[Path] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "rebuilt": self.rebuilt,
            "unchanged": self.unchanged,
            "set_aside": self.set_aside,
            "left": list(self.left),
            "marked": self.marked,
            "reports": [str(path) for path in self.reports],
        }


def run_migration(
    paths: StorePaths,
    plan: MigrationPlan,
    *,
    workers: int | None = None,
    limit: int | None = None,
    progress: Progress = silent,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Migrated:
    """Rebuild outdated recordings from their raw deliveries, as new versions beside the old ones.

    It may be killed at any moment: what was rebuilt is current in the next plan. Frozen manifests and the contents that they name
    are not touched.

    Args:
        paths: The store.
        plan: Of `plan_migration`, for this store and this egodata.
        workers: As for ingest.
        limit: Only the first so many by id.
        progress: Told per recording.
        on_outcome: Told of every recording as it finishes.

    Raises:
        InputError: The store cannot be written to, or `workers` makes no sense.
    """
    require_writable(paths)
    outdated = plan.of(OUTDATED)
    chosen = outdated[:limit]
    done = Migrated(left=tuple(item.entry.recording for item in outdated[len(chosen) :]))
    for group in grouped(chosen, paths):
        _rebuild(paths, group, done, workers=workers, progress=progress, on_outcome=on_outcome)
    if done.set_aside or done.left or plan.others:
        return done
    return _marked(paths, done)


def _rebuild(
    paths: StorePaths,
    group: Group,
    done: Migrated,
    *,
    workers: int | None,
    progress: Progress,
    on_outcome: Callable[[Outcome], None] | None,
) -> None:
    """Ingest one group; whatever is wrong with all of it is said of each member."""
    members = {item.entry.recording: item for item in group.members}

    def heard(outcome: Outcome) -> None:
        name = outcome.recording
        if outcome.status == SET_ASIDE or not outcome.episodes:
            done.set_aside[name] = _why(outcome)
        else:
            done.rebuilt[name] = dict(outcome.episodes)
            if name in members and dict(members[name].entry.episodes) == done.rebuilt[name]:
                done.unchanged.append(name)
        if on_outcome is not None:
            on_outcome(outcome)

    try:
        report = ingest(group.folder, options=_options(paths, group, workers), progress=progress, on_outcome=heard)
    except (EgodataError, OSError) as error:
        done.set_aside.update({name: str(error) for name in members if name not in done.rebuilt})
        return
    lost = set(members) - set(done.rebuilt) - set(done.set_aside)
    done.set_aside.update(dict.fromkeys(lost, "the delivery does not hold it any more"))
    if report.path is not None:
        done.reports.append(report.path)


def _options(paths: StorePaths, group: Group, workers: int | None) -> IngestOptions:
    settings = group.settings
    return IngestOptions(
        group.vendor,
        paths.root,
        group.dataset,
        group.delivery,
        settings.config,
        workers=workers,
        only=tuple(item.entry.recording for item in group.members),
        force=settings.force,
        settings=settings.encode,
        declare=settings.declare,
        clips=group.rule(),
        expected_raw=_expected(group.members),
    )


def _expected(members: Sequence[Judged]) -> dict[str, str]:
    return {item.entry.recording: item.entry.raw for item in members}


def _why(outcome: Outcome) -> str:
    errors = [finding for finding in outcome.findings if finding.severity is Severity.ERROR] or list(outcome.findings)
    return f"{errors[0].code}: {errors[0].message}" if errors else outcome.status


def _marked(paths: StorePaths, done: Migrated) -> Migrated:
    """Bring `store.json` up to date; what it says of the Lance tables stays."""
    here = read_marker(paths)
    wanted = {**here, **current_marker(), **({LANCE: here[LANCE]} if LANCE in here else {})}
    if here != wanted:
        write_marker(paths, wanted)
    return replace(done, marked=True)
