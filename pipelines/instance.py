"""A persistent Dagster instance inside a store, with settings for a two-core machine and telemetry off."""

import os
from typing import Any

import dagster as dg
import yaml

from egodata.schema.layout import StorePaths, write_atomic
from pipelines.resources import STORE_VARIABLE

SETTINGS: dict[str, Any] = {
    "telemetry": {"enabled": False},
    "nux": {"enabled": False},
    "run_coordinator": {
        "module": "dagster.core.run_coordinator",
        "class": "QueuedRunCoordinator",
        "config": {"dequeue_interval_seconds": 1},
    },
    "run_monitoring": {"enabled": True, "start_timeout_seconds": 120, "poll_interval_seconds": 10},
    # A run whose process died is started again; one whose assets failed is not, since the same bytes fail again.
    "run_retries": {"enabled": True, "max_retries": 5, "retry_on_asset_or_op_failure": False},
    "concurrency": {"runs": {"max_concurrent_runs": 2}, "pools": {"default_limit": 1, "granularity": "run"}},
    "freshness": {"enabled": True},
}


SENSOR_TIMEOUT_S = "600"
HEAD = "# Written by egopipe, and written again when its settings change. Remove this line to keep the file as it is.\n"
_FORMER = {"telemetry", "nux", "run_coordinator", "run_monitoring"}
"""What egopipe wrote before it signed its file."""


def prepare_home(paths: StorePaths) -> None:
    """Write `dagster.yaml` into the store's Dagster home unless someone put one of their own there."""
    settings = paths.dagster / "dagster.yaml"
    wanted = HEAD + yaml.safe_dump(SETTINGS, sort_keys=False)
    before = settings.read_text() if settings.exists() else None
    if before == wanted:
        return
    if before is None or before.startswith(HEAD) or set(yaml.safe_load(before) or ()) == _FORMER:
        write_atomic(settings, wanted.encode())


def environment(paths: StorePaths) -> dict[str, str]:
    """Return the environment in which Dagster finds this store, and waits for a look at many recordings on a slow disk."""
    return {
        "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS": SENSOR_TIMEOUT_S,
        **os.environ,
        "DAGSTER_HOME": str(paths.dagster),
        STORE_VARIABLE: str(paths.root),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }


def open_instance(paths: StorePaths) -> dg.DagsterInstance:
    """Open the instance of a store; the caller disposes of it."""
    prepare_home(paths)
    return dg.DagsterInstance.from_config(str(paths.dagster))
