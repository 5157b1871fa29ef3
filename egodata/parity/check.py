"""The parity check: which episodes, at which contents, level by level, and what is kept of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from egodata.catalog.manifest import Manifest
from egodata.catalog.rows import CatalogRow, catalog_from_lance, catalog_row
from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError, NotFoundError
from egodata.findings import Finding, Severity
from egodata.formats import open_store
from egodata.names import nearest
from egodata.parity.catalog import compare_catalogs
from egodata.parity.content import compare_content
from egodata.parity.loader import compare_head
from egodata.parity.report import EXACT, LevelReport, Outcome, ParityConfig, ParityReport, merged
from egodata.parity.table import append_report
from egodata.progress import Progress, silent, tracked
from egodata.sampling import Recipe
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import StorePaths, write_atomic


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is checked: both stores, ids in order, and the content of each where a dataset recorded it."""

    zarr: EpisodeStore
    lance: EpisodeStore
    ids: tuple[str, ...]
    contents: Mapping[str, str]


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
    scope = _scope(paths, episode_ids, dataset)
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


def _scope(paths: StorePaths, episode_ids: Sequence[str] | None, dataset: Manifest | None) -> _Scope:
    zarr = open_store(paths, "zarr")
    lance = open_store(paths, "lance", versions=None if dataset is None else dataset.lance_versions)
    contents: dict[str, str] = {}
    if dataset is not None:
        contents = {episode.episode_id: episode.content for episodes in dataset.heads.values() for episode in episodes}
        known = set(contents)
    else:
        known = {*zarr.episode_ids(), *lance.episode_ids()}
    wanted = known if episode_ids is None else set(episode_ids)
    unknown = sorted_ids(wanted - known)
    if unknown:
        where = f"store {paths.root}" if dataset is None else f"dataset {dataset.ref}"
        raise NotFoundError(f"{where}: no episode {unknown[0]} in either format; {nearest(unknown[0], known)}")
    return _Scope(zarr, lance, tuple(sorted_ids(wanted)), contents)


def _level(level: str, outcome: Outcome, contents: Mapping[str, str]) -> LevelReport:
    failed = {finding.episode for finding in outcome.findings}
    passed = tuple((name, contents[name]) for name in sorted_ids(contents) if name not in failed)
    return LevelReport(level, outcome, tuple(sorted_ids(failed)), passed)


def _catalog_level(paths: StorePaths, scope: _Scope) -> LevelReport:
    zarr = _rows(scope.zarr, scope)
    if scope.contents:
        lance = _rows(scope.lance, scope)
    else:  # the typed columns themselves, in the order of one scan
        lance = [row for row in catalog_from_lance(paths, versions=getattr(scope.lance, "versions", None)) if row.episode_id in scope.ids]
    return _level("catalog", compare_catalogs(zarr, lance), {row.episode_id: row.content for row in zarr})


def _rows(store: EpisodeStore, scope: _Scope) -> list[CatalogRow]:
    found = []
    for episode_id in scope.ids:
        reader = _open(store, episode_id, scope)
        if reader is not None:
            found.append(catalog_row(reader))
            reader.close()
    return found


def _open(store: EpisodeStore, episode_id: str, scope: _Scope) -> EpisodeReader | None:
    try:
        return store.open(episode_id, content=scope.contents.get(episode_id))
    except EpisodeNotFoundError:
        return None  # the catalog level says so


def _content_level(scope: _Scope, *, samples: int | None, config: ParityConfig, progress: Progress) -> LevelReport:
    outcomes, contents = [], {}
    frames = None if samples is None else max(1, samples // max(1, len(scope.ids)))
    for ordinal, episode_id in enumerate(tracked(scope.ids, label="parity content", progress=progress)):
        zarr, lance = _open(scope.zarr, episode_id, scope), _open(scope.lance, episode_id, scope)
        if zarr is None or lance is None:
            missing = "zarr" if zarr is None else "lance"
            message = f"episode {episode_id}: nothing to compare with, {missing} does not have it. Run `egodata lance build`."
            outcomes.append(Outcome(findings=(Finding("parity-missing", Severity.ERROR, episode_id, message),)))
        else:
            contents[episode_id] = zarr.digests.content
            outcomes.append(_compare(zarr, lance, frames=frames, seed=config.seed + ordinal, config=config))
        for reader in (zarr, lance):
            if reader is not None:
                reader.close()
    return _level("content", merged(outcomes), contents)


def _compare(zarr: EpisodeReader, lance: EpisodeReader, *, frames: int | None, seed: int, config: ParityConfig) -> Outcome:
    try:
        return compare_content(zarr, lance, frames=frames, seed=seed, config=config)
    except CorruptEpisodeError as error:
        return Outcome(findings=(Finding("parity-unreadable", Severity.ERROR, zarr.meta.episode_id, str(error)),))
