"""Progress reporting that libraries call and command lines draw."""

from collections.abc import Iterable, Iterator, Sized
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Told how far a long piece of work has come."""

    def __call__(self, label: str, done: int, total: int) -> None:
        """Report `done` of `total` items of the work called `label`; done == total ends it."""


def silent(label: str, done: int, total: int) -> None:
    """Report nothing: the default of every library function."""


def tracked(items: Iterable[T], *, label: str, progress: Progress, total: int | None = None) -> Iterator[T]:
    """Yield items and report each one as done once the consumer asks for the next.

    Args:
        items: What to walk over; sized, unless `total` is given.
        label: Name of the work.
        progress: Where to report.
        total: Number of items, if `items` has no length.
    """
    if total is None:
        total = len(items) if isinstance(items, Sized) else 0
    for done, item in enumerate(items):
        progress(label, done, total)
        yield item
    progress(label, total, total)
