"""What command lines share: tables, progress bars on a terminal and plain lines elsewhere."""

import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bars, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

PLAIN_EVERY_S = 5.0
IDENTITIES = ("episode", "recording")
"""Columns that people copy from: not broken over lines where they are short enough."""
MAX_WHOLE = 40


class _Table(Console):
    """A console whose reader may go away: `... | head` has what it wanted, and the exit status stays that of the work."""

    def on_broken_pipe(self) -> None:
        """Go on without output, instead of ending with status 1, which means findings."""
        _drop_stdout()


def _drop_stdout() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def echo(text: str = "") -> None:
    """Print one line to stdout; where nobody reads it any more, go on without."""
    try:
        click.echo(text)
    except BrokenPipeError:
        _drop_stdout()


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table to stdout; numbers right, text left."""
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], (int, float)) for row in rows)
        whole = name in IDENTITIES and all(len(str(row[index])) <= MAX_WHOLE for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    if sys.stdout is not None:  # None: started with stdout closed
        _Table(width=None if sys.stdout.isatty() else 120).print(table)


def _cell(value: Any) -> Text:
    """Show a value as it is: brackets are no markup, and what would steer the terminal is escaped."""
    text = "" if value is None else str(value)
    return Text("".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text))


class PathWord(click.Path):
    """A path on the command line. The empty word, which an unset variable gives, is refused: it would mean the current folder."""

    def __call__(self, value: Any, param: click.Parameter | None = None, ctx: click.Context | None = None) -> Any:
        """Return the path, or say what is wrong with the word."""
        if value == "":
            self.fail("is empty; is a variable not set? Give a path, such as . for the current folder.", param, ctx)
        return super().__call__(value, param, ctx)


class FiniteRange(click.FloatRange):
    """A number on the command line that is not NaN, which no bound stops."""

    def __call__(self, value: Any, param: click.Parameter | None = None, ctx: click.Context | None = None) -> Any:
        """Return the number, or say what is wrong with the word."""
        found = super().__call__(value, param, ctx)
        if found is not None and not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


class ConsoleProgress:
    """Draws progress on stderr: bars on a terminal, elsewhere a line at the start, every 5 s and at the end."""

    def __init__(self) -> None:
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._last: dict[str, float] = {}

    def __enter__(self) -> "ConsoleProgress":
        if sys.stderr is not None and sys.stderr.isatty():
            self._bars = Bars(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)
            )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, label: str, done: int, total: int) -> None:
        """Report `done` of `total` items of the work called `label`."""
        if self._bars is not None:
            if label not in self._tasks:
                self._tasks[label] = self._bars.add_task(label, total=total)
            self._bars.update(self._tasks[label], completed=done, total=total)
            return
        now = time.monotonic()
        if done in (0, total) or now - self._last.get(label, 0.0) > PLAIN_EVERY_S:
            self._last[label] = now
            click.echo(f"{label}: {done}/{total}", err=True)
