"""Run an iterator ahead of its consumer in one thread, with a bounded queue that can be left early."""

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")
_END = object()
_POLL_S = 0.05


@contextmanager
def ahead(items: Iterator[T], *, depth: int) -> Iterator[Iterator[T]]:
    """Give an iterator over the same items, made in a thread up to `depth` ahead.

    An exception of `items` is raised in the consumer after the items before it. Leaving the block early stops the thread.

    Args:
        items: Consumed in the thread only.
        depth: Items that may wait in the queue.
    """
    queue: Queue[object] = Queue(depth)
    stop = Event()
    failure: list[BaseException] = []

    def put(item: object) -> None:
        while not stop.is_set():
            try:
                queue.put(item, timeout=_POLL_S)
                return
            except Full:
                continue

    def produce() -> None:
        try:
            for item in items:
                put(item)
                if stop.is_set():
                    return
        except BaseException as error:  # noqa: BLE001  handed to the consumer, which raises it
            failure.append(error)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            put(_END)

    def consume() -> Iterator[T]:
        while (item := queue.get()) is not _END:
            yield item  # type: ignore[misc]
        if failure:
            raise failure[0]

    thread = Thread(target=produce, name="video-ahead", daemon=True)
    thread.start()
    try:
        yield consume()
    finally:
        stop.set()
        try:
            while True:
                queue.get_nowait()
        except Empty:
            pass
        thread.join()
