"""Reports a run to Dagster when Dagster started it; silent otherwise."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dagster_pipes import DAGSTER_PIPES_CONTEXT_ENV_VAR, open_dagster_pipes

Report = Callable[[Mapping[str, Any]], None]


@contextmanager
def reporting() -> Iterator[Report]:
    """Open the channel to Dagster, if this process was launched through Dagster Pipes.

    Yields:
        A function that reports what the run came to: plain values by name.
    """
    if DAGSTER_PIPES_CONTEXT_ENV_VAR not in os.environ:
        yield _nowhere
        return
    with open_dagster_pipes() as pipes:

        def report(metadata: Mapping[str, Any]) -> None:
            pipes.report_asset_materialization(metadata=dict(metadata))

        yield report


def _nowhere(metadata: Mapping[str, Any]) -> None:
    """Report to nobody."""
