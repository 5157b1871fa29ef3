"""What a killed `egopipe up` leaves: processes that nobody watches, and runs that nobody works on.

Processes carry the Dagster home that they serve in their environment, so that only those of one store are found (Linux: /proc).
"""

import os
import signal
import time
from pathlib import Path

import dagster as dg

MARK_VARIABLE = "EGO_SERVED_HOME"
GRACE_S = 5.0
_LAUNCHED_TAG = ".dagster/grpc_info"
"""Dagster gives it to runs that a code server works on; runs of `egopipe quickstart` and the like have none."""
_UNFINISHED = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


def leftovers(home: str) -> list[int]:
    """Return the ids of this user's processes that serve a Dagster home, this one's own not among them."""
    mark, found = f"{MARK_VARIABLE}={home}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile, or another user's
    return found


def end_leftovers(home: str) -> int:
    """End the processes that serve a home, the stubborn ones by force; the caller holds the home's lock.

    Returns:
        How many there were.
    """
    found = leftovers(home)
    _signal(found, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while (left := leftovers(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    _signal(left, signal.SIGKILL)
    return len(found)


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue


def fail_orphans(instance: dg.DagsterInstance) -> int:
    """Report runs as failed whose process is gone with its code server, so that Dagster starts them again.

    Returns:
        How many.
    """
    records = instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED))
    orphans = [record.dagster_run for record in records if _LAUNCHED_TAG in record.dagster_run.tags]
    for run in orphans:
        instance.report_run_failed(run, "its process ended with `egopipe up`; what it finished stays, the rest is started again")
    return len(orphans)
