"""What happens by itself: discovery, building what is new, refreshing the tables, reporting runs trained elsewhere, noticing failures.

Discovery and notices are on. Whatever starts work is off until somebody switches it on in the UI or starts `egopipe up --automate`.
"""

import os
import time

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from pipelines.assets.ingest import EPISODE_ANNOTATIONS, EPISODE_CALIBRATION, EPISODE_ZARR
from pipelines.assets.raw import OBSERVE_LIMIT, RAW_EPISODE, raw_events, raw_news
from pipelines.assets.training import TRAINING_RUN, reported_runs, unreported_runs
from pipelines.due import due_partitions, table_state
from pipelines.events import latest_observed
from pipelines.jobs import JOBS, attach_annotations, attach_calibration, build_episodes, parity_sample, refresh_tables
from pipelines.notices import keep_notice
from pipelines.partitions import ADD_CHUNK, RECORDINGS, contiguous_ranges, new_keys
from pipelines.resources import StoreResource
from pipelines.state import run_reason
from pipelines.uploads import rest_left_s, rested, settle_s, settled

INTERVAL_S = 30
AUTOMATE_VARIABLE = "EGO_AUTOMATE"
NIGHTLY = "0 3 * * *"


def automation() -> tuple[dg.DefaultSensorStatus, dg.DefaultScheduleStatus]:
    """Return whether what starts work is on by default: what ``EGO_AUTOMATE`` says."""
    if os.environ.get(AUTOMATE_VARIABLE) == "1":
        return dg.DefaultSensorStatus.RUNNING, dg.DefaultScheduleStatus.RUNNING
    return dg.DefaultSensorStatus.STOPPED, dg.DefaultScheduleStatus.STOPPED


SENSOR_STATUS, SCHEDULE_STATUS = automation()


@dg.sensor(
    name="discovery",
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks at registered deliveries by size and mtime, adds recordings as partitions and reports changed ones. "
    "A delivery that is still being copied waits until two looks see the same; after a look that took long it rests for ten times that.",
)
def discovery(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Report what is new since the last look and complete; what is known already stays silent."""
    begun_s = time.time()
    if (left_s := rest_left_s(context.cursor, now_s=begun_s)) > 0:
        return dg.SkipReason(f"a look at these deliveries takes long; the next one is in {left_s:.0f} s")
    found, news = raw_news(store.paths(), latest_observed(context.instance, RAW_EPISODE))
    look = settled(context.cursor, news, now_s=time.time(), wait_s=settle_s(), limit=OBSERVE_LIMIT)
    cursor = rested(look.cursor, begun_s=begun_s, ended_s=time.time())
    context.update_cursor(cursor)
    if not look.ready:
        waiting = ", ".join(delivery.raw for delivery in look.waiting)
        return dg.SkipReason(f"still arriving: {waiting}" if waiting else f"{len(found)} partitions of deliveries, none new or changed")
    fresh = new_keys(context.instance, RECORDINGS, keys=[unit.key for unit in look.ready])[:ADD_CHUNK]
    requests = [RECORDINGS.build_add_request(fresh)] if fresh else []
    return dg.SensorResult(asset_events=raw_events(look.ready), dynamic_partitions_requests=requests, cursor=cursor)


@dg.sensor(
    name="build_new",
    jobs=[build_episodes, attach_annotations, attach_calibration],
    minimum_interval_seconds=INTERVAL_S,
    default_status=SENSOR_STATUS,
    description="Builds recordings whose last build is not of what is delivered now, each version once: failed ones wait for other bytes.",
)
def build_new(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Ask for runs over the partitions that are due, of the first asset that has any."""
    if _busy(context.instance):
        return dg.SkipReason("earlier runs are not finished")
    for key, job in ((EPISODE_ZARR, build_episodes), (EPISODE_ANNOTATIONS, attach_annotations), (EPISODE_CALIBRATION, attach_calibration)):
        due = due_partitions(context.instance, key)
        ranges = contiguous_ranges(context.instance, RECORDINGS, keys=due)
        if ranges:
            requests = [
                dg.RunRequest(job_name=job.name, tags={ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last})
                for first, last in ranges
            ]
            return dg.SensorResult(run_requests=requests)
    return dg.SkipReason("every recording is built from what is delivered now, or was set aside")


@dg.sensor(
    name="refresh",
    job=refresh_tables,
    minimum_interval_seconds=INTERVAL_S,
    default_status=SENSOR_STATUS,
    description="Brings the Lance copy up to date and checks parity of what is new, once for every state of the episodes.",
)
def refresh(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
    """Ask for one run per state of the published episodes that the tables do not show, or that is not proven."""
    if _busy(context.instance):
        return dg.SkipReason("earlier runs are not finished")
    state = table_state(store.paths())
    if not state.due:
        return dg.SkipReason(f"{state.episodes} episodes, all in the tables and proven")
    config = {"ops": {"parity_report": {"config": {"which": "new"}}}}
    return dg.RunRequest(run_key=state.digest, run_config=config)


def _busy(instance: dg.DagsterInstance) -> bool:
    unfinished = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.NOT_STARTED]
    return any(instance.get_runs_count(dg.RunsFilter(job_name=job.name, statuses=unfinished)) for job in JOBS)


@dg.sensor(
    name="runs_from_elsewhere",
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports finished runs in the store's runs folder that Dagster did not start, with the metadata that its own have.",
)
def runs_from_elsewhere(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Report every finished run once."""
    events = unreported_runs(store.paths(), reported_runs(context.instance))
    return dg.SensorResult(asset_events=events) if events else dg.SkipReason(f"no new result for {TRAINING_RUN.to_user_string()}")


@dg.run_failure_sensor(
    name="failed_run_notice",
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=INTERVAL_S,
    description="Keeps a line per failed run in reports/failed_runs.jsonl and hands it to the program that EGO_NOTICE_COMMAND names.",
)
def failed_run_notice(context: dg.RunFailureSensorContext, store: StoreResource) -> None:
    """Say that a run failed, and why."""
    run = context.dagster_run
    keep_notice(store.paths(), run, reasons=[run_reason(context.instance, run.run_id)])


nightly_parity = dg.ScheduleDefinition(
    name="nightly_parity",
    job=parity_sample,
    cron_schedule=NIGHTLY,
    default_status=SCHEDULE_STATUS,
    run_config={"ops": {"parity_report": {"config": {"which": "sample"}}}},
    description="Parity of another sample of episodes every night, spread over vendors and operators.",
)

SENSORS = [discovery, build_new, refresh, runs_from_elsewhere, failed_run_notice]
SCHEDULES = [nightly_parity]
