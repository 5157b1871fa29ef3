"""Discovery: new and changed recordings of the registered deliveries."""

import dagster as dg

from pipelines.assets.raw import OBSERVE_LIMIT, RAW_EPISODE, raw_observations
from pipelines.events import latest_observed
from pipelines.partitions import ADD_CHUNK, RECORDINGS, new_keys
from pipelines.resources import StoreResource

INTERVAL_S = 30


@dg.sensor(
    name="discovery",
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks at registered deliveries by size and mtime, adds recordings as partitions and reports changed ones.",
)
def discovery(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Report what is new since the last look; what is known already stays silent."""
    known = latest_observed(context.instance, RAW_EPISODE)
    found, events = raw_observations(store.paths(), known, limit=OBSERVE_LIMIT)
    fresh = new_keys(context.instance, RECORDINGS, keys=found)[:ADD_CHUNK]
    if not events and not fresh:
        return dg.SkipReason(f"{len(found)} recordings in the registered deliveries, none new or changed")
    return dg.SensorResult(asset_events=events, dynamic_partitions_requests=[RECORDINGS.build_add_request(fresh)] if fresh else [])
