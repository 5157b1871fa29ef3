"""The parity check: which episodes, at which contents, level by level, and what is kept of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from egodata.catalog.manifest import Manifest
from egodata.catalog.rows import catalog_from_lance
from egodata.findings import Finding
from egodata.parity.catalog import compare_catalogs
from egodata.parity.content import compare_content
from egodata.parity.loader import compare_head
from egodata.parity.report import EXACT, LevelReport, Outcome, ParityConfig, ParityReport, merged
from egodata.parity.scope import Scope, make_scope, open_episode, read_catalog
from egodata.parity.table import append_report
from egodata.progress import Progress, silent, tracked
from egodata.sampling import Recipe
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths, write_atomic


def check_parity(
    paths: StorePaths,
    *,
    episode_ids: Sequence[str] | None = None,
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
        episode_ids: Only these; by default the dataset's, or all of both formats.
        dataset: A frozen dataset; its episodes are compared at the contents and table versions that it recorded.
        recipe: What a sample is, for the loader level.
        samples: Samples per head at loader level, and frames decoded in all at content level but at least one per camera;
            None for all.
        config: What may differ, how far, and the seed of choices.
        progress: Told per episode and per batch.

    Raises:
        NotFoundError: The store has no Lance copy, or neither format has an episode asked for.
        RecipeError: The recipe does not fit the dataset.
    """
    scope = make_scope(paths, episode_ids=episode_ids, dataset=dataset)
    levels = [_catalog_level(paths, scope), _content_level(scope, samples=samples, config=config, progress=progress)]
    if dataset is not None and recipe is not None:
        outcomes = [
            compare_head(paths, dataset, head=head, recipe=recipe, samples=samples, config=config, progress=progress)
            for head in dataset.heads
        ]
        held = {episode.episode_id: episode.content for episodes in dataset.heads.values() for episode in episodes}
        levels.append(_level("loader", merged(outcomes), held))
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
    )
    _keep(paths, report)
    return report


def _keep(paths: StorePaths, report: ParityReport) -> None:
    stamp = report.created.replace(":", "").replace("-", "").partition("+")[0]
    body = json.dumps(report.to_json(), indent=1, sort_keys=True).encode() + b"\n"
    write_atomic(paths.reports / "parity" / f"{stamp}Z.json", body)
    append_report(paths, report)


def _level(level: str, outcome: Outcome, contents: Mapping[str, str]) -> LevelReport:
    failed = {finding.episode for finding in outcome.findings}
    passed = tuple((name, contents[name]) for name in sorted_ids(contents) if name not in failed)
    return LevelReport(level, outcome, tuple(sorted_ids(failed)), passed)


def _catalog_level(paths: StorePaths, scope: Scope) -> LevelReport:
    zarr, lost = read_catalog(scope.zarr, scope)
    unreadable = [finding for finding in lost if finding.code == "parity-unreadable"]
    if scope.contents:
        lance, lost = read_catalog(scope.lance, scope)
        unreadable += [finding for finding in lost if finding.code == "parity-unreadable"]
    else:  # the typed columns themselves, in the order of one scan
        lance = [row for row in catalog_from_lance(paths, versions=getattr(scope.lance, "versions", None)) if row.episode_id in scope.ids]
    known = {finding.episode for finding in unreadable}
    compared = compare_catalogs([row for row in zarr if row.episode_id not in known], [row for row in lance if row.episode_id not in known])
    outcome = merged([compared, Outcome(findings=tuple(unreadable))])
    return _level("catalog", outcome, {row.episode_id: row.content for row in zarr})


def _content_level(scope: Scope, *, samples: int | None, config: ParityConfig, progress: Progress) -> LevelReport:
    outcomes, contents = [], {}
    frames = None if samples is None else max(1, samples // max(1, len(scope.ids)))
    for ordinal, episode_id in enumerate(tracked(scope.ids, label="parity content", progress=progress)):
        zarr, lance = (open_episode(store, episode_id, scope=scope) for store in (scope.zarr, scope.lance))
        if isinstance(zarr, Finding) or isinstance(lance, Finding):
            known = next((side.digests.content for side in (zarr, lance) if not isinstance(side, Finding)), "")
            lost = [side for side in (zarr, lance) if isinstance(side, Finding)]
            outcomes.append(Outcome(findings=tuple(replace(found, content=found.content or known) for found in lost)))
        else:
            contents[episode_id] = zarr.digests.content
            outcomes.append(compare_content(zarr, lance, frames=frames, seed=config.seed + ordinal, config=config))
        for reader in (zarr, lance):
            if not isinstance(reader, Finding):
                reader.close()
    return _level("content", merged(outcomes), contents)
