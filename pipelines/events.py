"""Events of single partitions out of a batch, with the tags that per-partition staleness needs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

QUERY_CHUNK = 500
T = TypeVar("T")


def latest_event(instance: dg.DagsterInstance, key: dg.AssetKey, *, partition: str | None) -> dg.EventLogRecord | None:
    """Return the newest materialisation of an asset's partition, or its newest observation where it is never materialised, or None."""
    scope = dg.AssetRecordsFilter(asset_key=key, asset_partitions=None if partition is None else [partition])
    records = instance.fetch_materializations(scope, limit=1).records or instance.fetch_observations(scope, limit=1).records
    return records[0] if records else None


def event_tags(record: dg.EventLogRecord | None) -> Mapping[str, str]:
    """Return the tags of an event; none for None."""
    if record is None:
        return {}
    event = record.asset_materialization or record.asset_observation
    return dict(event.tags or {}) if event else {}


def partition_materialization(
    context: dg.AssetExecutionContext,
    partition: str,
    *,
    version: str,
    inputs: Mapping[str, str],
    metadata: Mapping[str, Any],
) -> dg.AssetMaterialization:
    """Make the event that says one partition of a batch is done.

    Args:
        context: Of the running asset; its key and code version are used.
        partition: Which one.
        version: Its data version.
        inputs: What `input_tags` gave for it before the work began.
        metadata: What a person wants to see.
    """
    tags = {DATA_VERSION_TAG: version, DATA_VERSION_IS_USER_PROVIDED_TAG: "true", **inputs}
    code_version = context.assets_def.code_versions_by_key.get(context.asset_key)
    if code_version is not None:
        tags[CODE_VERSION_TAG] = code_version
    return dg.AssetMaterialization(asset_key=context.asset_key, partition=partition, metadata=dict(metadata), tags=tags)


def input_tags(instance: dg.DagsterInstance, partitions: Sequence[str], *, upstream: Sequence[dg.AssetKey]) -> dict[str, dict[str, str]]:
    """Return by partition the tags that say from which versions of its upstream assets it is made, or tried."""
    tags: dict[str, dict[str, str]] = {partition: {} for partition in partitions}
    for key in upstream:
        for partition, record in _newest_records(instance, key, partitions).items():
            version = event_tags(record).get(DATA_VERSION_TAG)
            if version is not None:
                tags[partition][get_input_data_version_tag(key)] = version
                tags[partition][get_input_event_pointer_tag(key)] = str(record.storage_id)
    return tags


def _newest_records(instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Sequence[str]) -> dict[str, dg.EventLogRecord]:
    """Return the newest materialisation of each partition, or its newest observation where it was never materialised."""
    found: dict[str, dg.EventLogRecord] = {}
    for kind in (dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION):
        wanted = set(partitions) - set(found)
        for record in _records(instance, key, kind=kind, partitions=wanted) if wanted else ():
            if record.partition_key is not None:
                found[record.partition_key] = record
    return found


def _records(
    instance: dg.DagsterInstance, key: dg.AssetKey, *, kind: dg.DagsterEventType, partitions: set[str] | None = None
) -> Iterator[dg.EventLogRecord]:
    """Give the newest event of every partition, in few queries."""
    fetch = instance.fetch_observations if kind == dg.DagsterEventType.ASSET_OBSERVATION else instance.fetch_materializations
    chunks = [None] if partitions is None else [set(chunk) for chunk in _chunks(sorted(partitions))]
    storage_ids = [found for chunk in chunks for found in instance.get_latest_storage_id_by_partition(key, kind, chunk).values()]
    for part in _chunks(storage_ids):
        yield from fetch(dg.AssetRecordsFilter(asset_key=key, storage_ids=part), limit=len(part)).records


def _chunks(items: Sequence[T]) -> list[list[T]]:
    return [list(items[start : start + QUERY_CHUNK]) for start in range(0, len(items), QUERY_CHUNK)]


def latest_observed(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """Return the newest observed data version of every partition of an asset."""
    return _newest_versions(instance, key, kind=dg.DagsterEventType.ASSET_OBSERVATION)


def latest_inputs(instance: dg.DagsterInstance, key: dg.AssetKey, *, upstream: dg.AssetKey) -> dict[str, str]:
    """Return the upstream data version that every materialised partition of an asset was last made from."""
    return _newest_tags(instance, key, tag=get_input_data_version_tag(upstream), kind=dg.DagsterEventType.ASSET_MATERIALIZATION)


def latest_versions(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """Return the data version of every materialised partition of an asset."""
    return _newest_versions(instance, key, kind=dg.DagsterEventType.ASSET_MATERIALIZATION)


def latest_tried(instance: dg.DagsterInstance, key: dg.AssetKey, *, upstream: dg.AssetKey) -> dict[str, str]:
    """Return the upstream data version on which every partition of an asset last failed."""
    return _newest_tags(instance, key, tag=get_input_data_version_tag(upstream), kind=dg.DagsterEventType.ASSET_OBSERVATION)


def _newest_versions(instance: dg.DagsterInstance, key: dg.AssetKey, *, kind: dg.DagsterEventType) -> dict[str, str]:
    """Return the data version of the newest event of every partition: a tag that Dagster keeps a table of, so no event is read."""
    found = instance.event_log_storage.get_latest_tags_by_partition(key, kind, [DATA_VERSION_TAG])
    return {partition: tags[DATA_VERSION_TAG] for partition, tags in found.items()}


def _newest_tags(instance: dg.DagsterInstance, key: dg.AssetKey, *, tag: str, kind: dg.DagsterEventType) -> dict[str, str]:
    """Return one tag of the newest event of every partition."""
    found: dict[str, str] = {}
    for record in _records(instance, key, kind=kind):
        value = event_tags(record).get(tag)
        if record.partition_key is not None and value is not None:
            found[record.partition_key] = value
    return found
