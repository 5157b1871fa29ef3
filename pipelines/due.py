"""What is out of date, computed from few queries so that tens of thousands of partitions take a second."""

from dataclasses import dataclass

import dagster as dg

from egodata.catalog.rows import catalog_from_lance
from egodata.errors import NotFoundError
from egodata.formats import open_store
from egodata.parity import unproven
from egodata.schema.canonical import json_digest
from egodata.schema.ids import sorted_ids
from egodata.schema.layout import CONTENT_PREFIX, StorePaths
from pipelines.assets.ingest import EPISODE_ZARR
from pipelines.assets.raw import RAW_EPISODE
from pipelines.events import latest_inputs, latest_observed, latest_tried, latest_versions


def due_partitions(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[str]:
    """Return the partitions of a recording asset that were not made from what is there now, and were not tried on it either.

    Annotations and calibration are due only where the episode itself is up to date.
    """
    observed = latest_observed(instance, RAW_EPISODE)
    tried = latest_tried(instance, key, upstream=RAW_EPISODE)
    stale = stale_partitions(instance, key, observed=observed)
    waiting = set() if key == EPISODE_ZARR else set(stale_partitions(instance, EPISODE_ZARR, observed=observed))
    return [part for part in stale if tried.get(part) != observed[part] and part not in waiting]


def stale_partitions(instance: dg.DagsterInstance, key: dg.AssetKey, *, observed: dict[str, str] | None = None) -> list[str]:
    """Return the partitions that are missing, or were made from another version of their recording or episode, sorted."""
    now = latest_observed(instance, RAW_EPISODE) if observed is None else observed
    made = latest_inputs(instance, key, upstream=RAW_EPISODE)
    stale = {part for part, version in now.items() if made.get(part) != version}
    if key != EPISODE_ZARR:
        built, from_built = latest_versions(instance, EPISODE_ZARR), latest_inputs(instance, key, upstream=EPISODE_ZARR)
        stale |= {part for part in now if from_built.get(part) != built.get(part)}
    return sorted_ids(stale)


@dataclass(frozen=True, slots=True)
class TableState:
    """How the Lance copy and the parity table stand to the published episodes.

    Attributes:
        episodes: Published zarr episodes.
        digest: Over their ids and contents: one state, one refresh.
        behind: Whether the Lance copy holds something else.
        unproven: Episodes that did not pass content parity at their present content; only told where the copy is not behind.
    """

    episodes: int
    digest: str
    behind: bool
    unproven: tuple[str, ...]

    @property
    def due(self) -> bool:
        """Whether a refresh has something to do."""
        return self.behind or bool(self.unproven)


def table_state(paths: StorePaths) -> TableState:
    """Compare the links of the published episodes with the catalog; opens no episode."""
    published = {
        episode_id: paths.episode_link(episode_id).readlink().parts[-2][:CONTENT_PREFIX]
        for episode_id in open_store(paths, "zarr").episode_ids()
    }
    digest = json_digest(sorted(published.items()))
    try:
        rows = catalog_from_lance(paths)
    except NotFoundError:
        return TableState(len(published), digest, bool(published), ())
    copied = {row.episode_id: row.content[:CONTENT_PREFIX] for row in rows}
    if copied != published:
        return TableState(len(published), digest, True, ())
    return TableState(len(published), digest, False, tuple(unproven(paths, [(row.episode_id, row.content) for row in rows])))
