"""Progress of asset bodies: into Dagster's log, and onto a console where one watches."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from egodata.progress import Progress, silent

LOG_EVERY_S = 10.0
_console: ContextVar[Progress] = ContextVar("console", default=silent)


class _Reporter:
    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._last: dict[str, float] = {}

    def __call__(self, label: str, done: int, total: int) -> None:
        _console.get()(label, done, total)
        now = time.monotonic()
        if done in (0, total) or now - self._last.get(label, 0.0) >= LOG_EVERY_S:
            self._last[label] = now
            self._log(f"{label}: {done}/{total}")


def log_progress(log: Callable[[str], None]) -> Progress:
    """Return a reporter that logs the start, the end, and a line every ten seconds between."""
    return _Reporter(log)


@contextmanager
def shown_on(console: Progress) -> Iterator[None]:
    """Show the progress of assets that run in this process on a console, too."""
    token = _console.set(console)
    try:
        yield
    finally:
        _console.reset(token)
