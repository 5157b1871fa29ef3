"""The parity check: which episodes, at which contents, level by level, and what is kept of it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from egodata.catalog.manifest import Manifest
from egodata.catalog.rows import catalog_from_lance
from egodata.parity.catalog import compare_catalogs
from egodata.parity.choose import Choice, choose_episodes
from egodata.parity.heads import compare_heads, held_contents
from egodata.parity.loader import compare_head
from egodata.parity.report import EXACT, LevelReport, Outcome, ParityConfig, ParityReport, merged
from egodata.parity.scope import Scope, make_scope, read_catalog
from egodata.parity.spread import compare_all
from egodata.parity.table import append_report
from egodata.progress import Progress, silent
from egodata.sampling import Recipe
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths, require_writable, write_atomic


def check_parity(
    paths: StorePaths,
    *,
    episode_ids: Sequence[str] | Choice | None = None,
    dataset: Manifest | None = None,
    recipe: Recipe | None = None,
    samples: int | None = 64,
    config: ParityConfig = EXACT,
    progress: Progress = silent,
) -> ParityReport:
    """Compare the zarr episodes with their Lance copy: catalog, content, and for a dataset with a recipe the loader.

    All numbers, spans, attributes and video bytes are compared; `samples` limits only what is decoded. The report is written to
    ``reports/parity/`` and its rows are appended to ``reports/parity.lance``.

    Args:
        paths: The store.
        episode_ids: Only these, or a rotating sample; by default the dataset's, or all of both formats.
        dataset: A frozen dataset; its episodes are compared at the contents and table versions that it recorded.
        recipe: What a sample is, for the loader level.
        samples: Samples per head at loader level, and frames decoded in all at content level but at least one per camera;
            None for all.
        config: What may differ, how far, the seed of choices, and the number of processes.
        progress: Told per episode and per batch.

    Raises:
        InputError: The store cannot be written to.
        NotFoundError: The store has no Lance copy, or neither format has an episode asked for.
        RecipeError: The recipe does not fit the dataset.
    """
    require_writable(paths)  # the report is kept: said before the work, not after
    names, chosen = _names(paths, episode_ids, dataset, seed=config.seed)
    scope = make_scope(paths, episode_ids=names, dataset=dataset)
    catalog, held = _catalog_level(paths, scope, dataset)
    levels = [catalog, _content_level(paths, scope, held, samples=samples, config=config, progress=progress)]
    if dataset is not None and recipe is not None:
        outcomes = [
            compare_head(paths, dataset, head=head, recipe=recipe, samples=samples, config=config, progress=progress)
            for head in dataset.heads
        ]
        levels.append(_level("loader", merged(outcomes), held_contents(dataset)))
    report = ParityReport(
        levels=tuple(levels),
        dataset="" if dataset is None else dataset.ref,
        dataset_digest="" if dataset is None else dataset.digest,
        recipe="" if recipe is None else recipe.name,
        recipe_digest="" if recipe is None else recipe.digest,
        versions=getattr(scope.lance, "versions", {}),
        config=config,
        samples=samples,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        chosen=chosen,
    )
    _keep(paths, report)
    return report


def _names(
    paths: StorePaths, episode_ids: Sequence[str] | Choice | None, dataset: Manifest | None, *, seed: int
) -> tuple[Sequence[str] | None, dict[str, Any]]:
    """Return the ids asked for, and how they were chosen where they are a sample."""
    if not isinstance(episode_ids, Choice):
        return episode_ids, {}
    rows = catalog_from_lance(paths)
    if dataset is not None:
        rows = [row for row in rows if row.episode_id in held_contents(dataset)]
    names = choose_episodes(rows, episode_ids, seed=seed)
    return names, {"episodes": len(names), "of": len(rows), "day": episode_ids.day.isoformat()}


def report_file(paths: StorePaths, report: ParityReport, *, suffix: str = "json") -> Path:
    """Return where a report lies: in ``reports/parity``, named after its time."""
    stamp = report.created.replace(":", "").replace("-", "").partition("+")[0]
    return paths.reports / "parity" / f"{stamp}Z.{suffix}"


def _keep(paths: StorePaths, report: ParityReport) -> None:
    body = json.dumps(report.to_json(), indent=1, sort_keys=True).encode() + b"\n"
    write_atomic(report_file(paths, report), body)
    append_report(paths, report)


def _level(level: str, outcome: Outcome, contents: Mapping[str, str]) -> LevelReport:
    failed = {finding.episode for finding in outcome.findings}
    passed = tuple((name, contents[name]) for name in sorted_ids(contents) if name not in failed)
    return LevelReport(level, outcome, tuple(sorted_ids(failed)), passed)


def _catalog_level(paths: StorePaths, scope: Scope, dataset: Manifest | None) -> tuple[LevelReport, dict[str, str]]:
    zarr, lost = read_catalog(scope.zarr, scope)
    unreadable = [finding for finding in lost if finding.code == "parity-unreadable"]
    if scope.contents:
        lance, lost = read_catalog(scope.lance, scope)
        unreadable += [finding for finding in lost if finding.code == "parity-unreadable"]
    else:  # the typed columns themselves, in the order of one scan
        lance = [row for row in catalog_from_lance(paths, versions=getattr(scope.lance, "versions", None)) if row.episode_id in scope.ids]
    known = {finding.episode for finding in unreadable}
    outcomes = [
        compare_catalogs([row for row in zarr if row.episode_id not in known], [row for row in lance if row.episode_id not in known])
    ]
    if dataset is not None:
        outcomes.append(compare_heads(dataset, zarr, lance=lance))
    held = {row.episode_id: row.content for row in zarr}
    return _level("catalog", merged([*outcomes, Outcome(findings=tuple(unreadable))]), held), held


def _content_level(
    paths: StorePaths, scope: Scope, held: Mapping[str, str], *, samples: int | None, config: ParityConfig, progress: Progress
) -> LevelReport:
    frames = None if samples is None else max(1, samples // max(1, len(scope.ids)))
    compared = compare_all(paths, scope, held=held, frames=frames, config=config, progress=progress)
    contents = {name: one.content for name, one in compared.items() if one.content}
    return _level("content", merged([one.outcome for one in compared.values()]), contents)
