"""How things stand: counts per asset, what failed and why, what is stale. Read from the instance and the store; starts nothing."""

from collections.abc import Collection
from dataclasses import dataclass, field

import dagster as dg

from egodata.schema.layout import StorePaths
from pipelines.assets.raw import RAW_EPISODE
from pipelines.due import stale_partitions, table_state
from pipelines.events import latest_observed
from pipelines.history import newest, read_history
from pipelines.partitions import DATASET_RECIPES, DATASETS, RECORDINGS


@dataclass(frozen=True, slots=True)
class AssetState:
    """One asset.

    Attributes:
        asset: Its name.
        partitions: How many it has; None for none at all.
        materialized: How many are there; of an asset without partitions 1 or 0.
        failed: Reason by partition.
        stale: Partitions made from something else than what is there now; of an asset without partitions its own name.
    """

    asset: str
    partitions: int | None
    materialized: int
    failed: dict[str, str] = field(default_factory=dict)
    stale: tuple[str, ...] = ()


def run_reason(instance: dg.DagsterInstance, run_id: str) -> str:
    """Return why a run failed, as its assets said it."""
    for record in instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
        event = record.dagster_event
        if event is not None:
            data = event.step_failure_data
            described = data.user_failure_data.description if data.user_failure_data else None
            cause = (data.error.cause or data.error) if data.error else None
            return str(described or (cause.message.strip() if cause else "") or event.message)
    return f"run {run_id} failed before its assets began; see it in the UI"


def failed_partitions(
    instance: dg.DagsterInstance,
    paths: StorePaths,
    *,
    key: dg.AssetKey,
    definition: dg.DynamicPartitionsDefinition,
    only: Collection[str] | None = None,
) -> dict[str, str]:
    """Return why each failed partition failed: what its batch said about it, else what its run did."""
    keys = [name for name in instance.get_dynamic_partitions(definition.name or "") if only is None or name in only]
    statuses = instance.get_status_by_partition(key, keys, definition) or {}
    failed = [name for name, status in statuses.items() if status is not None and status.value == "FAILED"]
    if not failed:
        return {}
    rows = newest(read_history(paths, asset=key.to_python_identifier(), check="built"))
    said = {row["partition"]: str(row["value"]) for row in rows if not row["passed"]}
    runs = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(key)
    unsaid = {runs[name][0] for name in failed if name in runs and not said.get(name)}
    why = {run_id: run_reason(instance, run_id) for run_id in unsaid}  # a run that died leaves thousands of partitions with one reason
    return {name: said.get(name) or why.get(runs.get(name, ("", 0))[0], "its run failed; see it in the UI") for name in failed}


def asset_states(instance: dg.DagsterInstance, paths: StorePaths) -> list[AssetState]:
    """Return the state of every asset, in the order in which they follow each other."""
    recordings = list(instance.get_dynamic_partitions(RECORDINGS.name or ""))
    observed = latest_observed(instance, RAW_EPISODE)
    states = [AssetState("raw_episode", len(recordings), len(observed))]
    for name in ("episode_zarr", "episode_annotations", "episode_calibration"):
        key = dg.AssetKey(name)
        made = instance.get_materialized_partitions(key)
        stale = tuple(part for part in stale_partitions(instance, key, observed=observed) if part in made)
        states.append(
            AssetState(name, len(recordings), len(made), failed_partitions(instance, paths, key=key, definition=RECORDINGS), stale)
        )
    tables = table_state(paths)
    for name, old in (("lance_v2", tables.behind), ("parity_report", tables.due)):
        there = instance.get_latest_materialization_event(dg.AssetKey(name)) is not None
        states.append(AssetState(name, None, int(there), stale=(name,) if there and old else ()))
    for name, definition in (("dataset", DATASETS), ("norm_stats", DATASET_RECIPES), ("loader_parity", DATASET_RECIPES)):
        key = dg.AssetKey(name)
        count = len(instance.get_dynamic_partitions(definition.name or ""))
        failed = failed_partitions(instance, paths, key=key, definition=definition)
        states.append(AssetState(name, count, len(instance.get_materialized_partitions(key)), failed))
    runs = instance.fetch_materializations(dg.AssetKey("training_run"), limit=1000).records
    states.append(AssetState("training_run", None, len(runs)))
    return states
