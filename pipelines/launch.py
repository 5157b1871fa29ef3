"""Runs of single assets in this process, on a persistent instance, with Dagster's log kept to warnings."""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from egodata.cli.console import ConsoleProgress
from egodata.errors import EgodataError
from pipelines.definitions import defs
from pipelines.partitions import contiguous_ranges
from pipelines.progress import shown_on

CLASS = re.compile(r"^(?:\w+\.)+\w+: ")
"""The class that Dagster puts before a message."""
QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""The console stays readable; every event is in the instance and in the UI."""


class RunFailedError(EgodataError, RuntimeError):
    """A run that later stages depend on failed."""


class Launcher:
    """Materialises assets one after the other.

    Attributes:
        instance: Where runs and events are kept.
    """

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self._job = defs.resolve_implicit_global_asset_job_def()

    def asset(self, key: dg.AssetKey, *, partition: str | None = None, config: Mapping[str, Any] | None = None) -> None:
        """Materialise one asset or one of its partitions.

        Raises:
            RunFailedError: The run failed; the message holds the reason that the asset gave.
        """
        ops = {} if config is None else {"ops": {key.to_python_identifier(): {"config": dict(config)}}}
        result = self._execute(key, partition_key=partition, run_config={**QUIET, **ops})
        if not result.success:
            raise RunFailedError(f"{key.to_user_string()}{'' if partition is None else f' {partition}'}: {_reason(result)}")

    def partitions(self, key: dg.AssetKey, definition: dg.DynamicPartitionsDefinition, *, keys: Iterable[str]) -> int:
        """Materialise partitions, a run per contiguous range; failed ones stay failed in the instance and later stages go on.

        Returns:
            How many runs failed.
        """
        failed = 0
        for first, last in contiguous_ranges(self.instance, definition, keys=keys):
            tags = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}
            result = self._execute(key, tags=tags, run_config=QUIET)
            failed += not result.success
        return failed

    def _execute(self, key: dg.AssetKey, **options: Any) -> dg.ExecuteInProcessResult:
        with warnings.catch_warnings(), ConsoleProgress() as console, shown_on(console):
            warnings.simplefilter("ignore", dg.PreviewWarning)  # of Dagster about its own insides
            return self._job.execute_in_process(instance=self.instance, asset_selection=[key], raise_on_error=False, **options)


def _reason(result: dg.ExecuteInProcessResult) -> str:
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            user = event.step_failure_data.user_failure_data
            if user is not None and user.description:
                return user.description
            if error is not None:
                cause = error.cause or error
                return CLASS.sub("", cause.message.strip().splitlines()[0])
    return "the run failed; see it in the UI"
