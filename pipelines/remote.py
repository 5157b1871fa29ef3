"""Asking a running `egopipe up` for work, through the webserver's GraphQL, and waiting on the shared instance until it is done."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus

from egodata.errors import ConflictError

LOCATION = "pipelines.definitions"
REPOSITORY = "__repository__"
ASSET_JOB = "__ASSET_JOB"
POLL_S = 0.5
TIMEOUT_S = 60
_BACKFILL = """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } ... on UnauthorizedError { message } } }"""
_RUN = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } ... on InvalidSubsetError { message } } }"""
_LOADED = """query { workspaceOrError { ... on Workspace { locationEntries { name loadStatus
  locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
_ENDED = {BulkActionStatus.COMPLETED_SUCCESS, BulkActionStatus.COMPLETED_FAILED, BulkActionStatus.COMPLETED, BulkActionStatus.FAILED}
_STOPPED = {BulkActionStatus.CANCELED}


def ask(address: str, query: str, *, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Send one GraphQL operation and return its data.

    Raises:
        ConflictError: The server does not answer, or refuses.
    """
    body = json.dumps({"query": query, "variables": dict(variables)}).encode()
    request = urllib.request.Request(f"{address}/graphql", data=body, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            found: dict[str, Any] = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace").strip()[:300]
        raise ConflictError(f"{address}: refused with status {error.code}: {said}. See dagster/up/webserver.log in the store.") from error
    except (OSError, ValueError) as error:
        raise ConflictError(f"{address}: does not answer ({error}). Is `egopipe up` still starting? Try again.") from error
    if found.get("errors"):
        raise ConflictError(f"{address}: refused: {found['errors'][0].get('message', '')[:300]}")
    return dict(found["data"])


def wait_until_loaded(address: str) -> None:
    """Wait until the code location is there: the webserver answers seconds earlier, and knows no asset until then.

    Raises:
        ConflictError: It does not load, or not in time.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        entries = ask(address, _LOADED, variables={})["workspaceOrError"].get("locationEntries", [])
        found = next((entry for entry in entries if entry["name"] == LOCATION), None)
        place = (found or {}).get("locationOrLoadError")
        if place is not None and place["__typename"] == "PythonError":
            raise ConflictError(f"{address}: the assets could not be loaded: {place['message'].strip()[:300]}")
        if place is not None:
            return
        if time.monotonic() > deadline:
            raise ConflictError(f"{address}: the assets are not loaded after {TIMEOUT_S} s. See dagster/up in the store, and try again.")
        time.sleep(POLL_S)


def _path(key: dg.AssetKey) -> dict[str, list[str]]:
    return {"path": list(key.path)}


def backfill(address: str, keys: Sequence[dg.AssetKey], *, partitions: Sequence[str], title: str) -> str:
    """Start a backfill of partitions and return its id.

    Raises:
        ConflictError: The server refused.
    """
    wait_until_loaded(address)
    params = {"assetSelection": [_path(key) for key in keys], "partitionNames": list(partitions), "title": title}
    found = ask(address, _BACKFILL, variables={"params": params})["launchPartitionBackfill"]
    if found["__typename"] != "LaunchBackfillSuccess":
        raise ConflictError(f"{address}: backfill refused: {found.get('message', found['__typename'])[:300]}")
    return str(found["backfillId"])


def launch(address: str, keys: Sequence[dg.AssetKey]) -> str:
    """Start one run of assets without partitions and return its id.

    Raises:
        ConflictError: The server refused.
    """
    wait_until_loaded(address)
    selector = {
        "repositoryLocationName": LOCATION,
        "repositoryName": REPOSITORY,
        "jobName": ASSET_JOB,
        "assetSelection": [_path(key) for key in keys],
        "assetCheckSelection": None,
    }
    found = ask(address, _RUN, variables={"params": {"selector": selector, "runConfigData": {}}})["launchRun"]
    if found["__typename"] != "LaunchRunSuccess":
        reason = found.get("message") or "; ".join(error["message"] for error in found.get("errors", [])) or found["__typename"]
        raise ConflictError(f"{address}: run refused: {reason[:300]}")
    return str(found["run"]["runId"])


def wait_for_backfill(instance: dg.DagsterInstance, backfill_id: str, *, alive: Callable[[], bool]) -> bool:
    """Wait until a backfill ended; say whether all of it succeeded.

    Raises:
        ConflictError: It was cancelled, or the server went away.
    """
    while True:
        found = instance.get_backfill(backfill_id)
        if found is not None and found.status in _ENDED:
            return found.status == BulkActionStatus.COMPLETED_SUCCESS
        if found is not None and found.status in _STOPPED:
            raise ConflictError(f"backfill {backfill_id}: was cancelled; what was finished stays")
        _pause(alive, f"backfill {backfill_id}")


def wait_for_run(instance: dg.DagsterInstance, run_id: str, *, alive: Callable[[], bool]) -> bool:
    """Wait until a run ended; say whether it succeeded.

    Raises:
        ConflictError: The server went away.
    """
    while True:
        run = instance.get_run_by_id(run_id)
        if run is not None and run.is_finished:
            return run.status == dg.DagsterRunStatus.SUCCESS
        _pause(alive, f"run {run_id}")


def _pause(alive: Callable[[], bool], what: str) -> None:
    if not alive():
        raise ConflictError(f"{what}: `egopipe up` ended meanwhile. Start it again: it goes on from what was finished.")
    time.sleep(POLL_S)
