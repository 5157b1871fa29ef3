"""Run an iterator ahead of its consumer in one thread, with a bounded queue that can be left early."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")
_POLL_S = 0.05


class _Producer(Generic[T]):
    """The thread's side: puts items until they end, fail, or the consumer leaves."""

    def __init__(self, items: Generator[T, None, None], depth: int) -> None:
        self._items = items
        self.queue: Queue[T | None] = Queue(depth)
        self.stop = Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    break
        except BaseException as error:  # noqa: BLE001  handed to the consumer, which raises it
            self.failure = error
        finally:
            self._items.close()
            self._put(None)

    def _put(self, item: T | None) -> bool:
        while not self.stop.is_set():
            try:
                self.queue.put(item, timeout=_POLL_S)
            except Full:
                continue
            return True
        return False

    def consume(self) -> Iterator[T]:
        while (item := self.queue.get()) is not None:
            yield item
        if self.failure is not None:
            raise self.failure

    def leave(self) -> None:
        self.stop.set()
        try:
            while True:
                self.queue.get_nowait()
        except Empty:
            return


@contextmanager
def ahead(items: Generator[T, None, None], *, depth: int) -> Iterator[Iterator[T]]:
    """Give an iterator over the same items, made in a thread up to `depth` ahead.

    An exception of `items` is raised in the consumer after the items before it. Leaving the block early stops the thread.

    Args:
        items: Consumed in the thread only; its items are not None.
        depth: Items that may wait in the queue.
    """
    producer = _Producer(items, depth)
    thread = Thread(target=producer.run, name="video-ahead", daemon=True)
    thread.start()
    try:
        yield producer.consume()
    finally:
        producer.leave()
        thread.join()
