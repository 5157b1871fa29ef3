"""What a manifest says about the run that froze it."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import CODE_VERSION_TAG, DATA_VERSION_TAG

from egodata import __version__
from pipelines.events import event_tags, latest_event


def provenance_of(context: dg.AssetExecutionContext, upstream: Sequence[dg.AssetKey]) -> dict[str, Any]:
    """Return run id, code version, and the run, data version and code version of every upstream asset that was used.

    Args:
        context: Of the running asset.
        upstream: Assets without partitions that it reads.
    """
    made_from = {}
    for key in upstream:
        record = latest_event(context.instance, key, partition=None)
        tags = event_tags(record)
        if record is not None:
            versions = {"data_version": tags.get(DATA_VERSION_TAG), "code_version": tags.get(CODE_VERSION_TAG)}
            made_from[key.to_user_string()] = {"run_id": record.run_id, **versions}
    return {
        "run_id": context.run.run_id,
        "code_version": context.assets_def.code_versions_by_key.get(context.asset_key),
        "egodata": __version__,
        "made_from": made_from,
    }
