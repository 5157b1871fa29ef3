"""Events of single partitions out of a batch, with the tags that per-partition staleness needs."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

QUERY_CHUNK = 500


def latest_event(instance: dg.DagsterInstance, key: dg.AssetKey, *, partition: str | None) -> dg.EventLogRecord | None:
    """Return the newest materialisation or observation of an asset's partition, or None."""
    scope = dg.AssetRecordsFilter(asset_key=key, asset_partitions=None if partition is None else [partition])
    records = [
        *instance.fetch_materializations(scope, limit=1).records,
        *instance.fetch_observations(scope, limit=1).records,
    ]
    return max(records, key=lambda record: record.storage_id, default=None)


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
    upstream: Sequence[dg.AssetKey],
    metadata: Mapping[str, Any],
) -> dg.AssetMaterialization:
    """Make the event that says one partition of a batch is done.

    Args:
        context: Of the running asset; its key and code version are used.
        partition: Which one.
        version: Its data version.
        upstream: Assets with the same partition that it was made from.
        metadata: What a person wants to see.
    """
    tags = {DATA_VERSION_TAG: version, DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
    code_version = context.assets_def.code_versions_by_key.get(context.asset_key)
    if code_version is not None:
        tags[CODE_VERSION_TAG] = code_version
    for key in upstream:
        record = latest_event(context.instance, key, partition=partition)
        found = event_tags(record).get(DATA_VERSION_TAG)
        if record is not None and found is not None:
            tags[get_input_data_version_tag(key)] = found
            tags[get_input_event_pointer_tag(key)] = str(record.storage_id)
    return dg.AssetMaterialization(asset_key=context.asset_key, partition=partition, metadata=dict(metadata), tags=tags)


def latest_observed(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """Return the newest observed data version of every partition of an asset."""
    return _newest_tags(instance, key, tag=DATA_VERSION_TAG, kind=dg.DagsterEventType.ASSET_OBSERVATION)


def latest_inputs(instance: dg.DagsterInstance, key: dg.AssetKey, *, upstream: dg.AssetKey) -> dict[str, str]:
    """Return the upstream data version that every materialised partition of an asset was last made from."""
    return _newest_tags(instance, key, tag=get_input_data_version_tag(upstream), kind=dg.DagsterEventType.ASSET_MATERIALIZATION)


def _newest_tags(instance: dg.DagsterInstance, key: dg.AssetKey, *, tag: str, kind: dg.DagsterEventType) -> dict[str, str]:
    """Return one tag of the newest event of every partition, in few queries."""
    observed = kind == dg.DagsterEventType.ASSET_OBSERVATION
    fetch = instance.fetch_observations if observed else instance.fetch_materializations
    storage_ids = list(instance.get_latest_storage_id_by_partition(key, kind).values())
    found: dict[str, str] = {}
    for start in range(0, len(storage_ids), QUERY_CHUNK):
        chunk = storage_ids[start : start + QUERY_CHUNK]
        for record in fetch(dg.AssetRecordsFilter(asset_key=key, storage_ids=chunk), limit=len(chunk)).records:
            value = event_tags(record).get(tag)
            if record.partition_key is not None and value is not None:
                found[record.partition_key] = value
    return found
