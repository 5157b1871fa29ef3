"""Worker processes that can be stopped: one that dies or hangs costs its own recording, never the batch."""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Generic, TypeVar

from egodata.errors import EgodataError
from egodata.findings import Finding, Severity
from egodata.ingest.digests import RawDigests
from egodata.vendors import PARTS, RecordingRef

Result = TypeVar("Result")
Pending = tuple[RecordingRef, RawDigests | None]
POLL_S = 1.0
BASE_LIMIT_S, LIMIT_S_PER_MIB = 3600.0, 20.0
_MIB = 1 << 20
_READY = "ready"


def run_guarded(
    waiting: Sequence[Pending],
    work: Callable[[Pending], Result],
    *,
    give_up: Callable[[Pending, Finding], Result],
    workers: int,
    stall_s: float,
) -> Generator[Result, None, None]:
    """Work on recordings in spawned processes and yield one result for each of them, in the order in which they end.

    A recording whose process died is tried once more, alone; a second death gives it up. One whose process neither reads nor writes a
    byte for `stall_s`, or is longer at work than its files can explain, is stopped and given up.

    Args:
        waiting: Recordings with their raw digests, where those are known.
        work: Runs in the worker process; it and its results are pickled.
        give_up: Makes the result of a recording that was given up, in this process.
        workers: Processes, at least 1.
        stall_s: Seconds.

    Raises:
        EgodataError: No worker starts.
    """
    died: list[Pending] = []
    crew = _Crew(work, give_up, stall_s)
    yield from crew.run(waiting, workers=min(workers, len(waiting)), died=died)
    for pending in list(died):
        again: list[Pending] = []
        yield from crew.run([pending], workers=1, died=again)
        for lost in again:
            message = "its worker process died twice, as when memory runs out. Try --workers 1 on a machine with more memory."
            yield give_up(lost, Finding("worker-died", Severity.ERROR, lost[0].id, message))


class _Crew(Generic[Result]):
    """What all rounds of one `run_guarded` share."""

    def __init__(self, work: Callable[[Pending], Result], give_up: Callable[[Pending, Finding], Result], stall_s: float) -> None:
        self.work, self.give_up, self.stall_s = work, give_up, stall_s

    def run(self, waiting: Sequence[Pending], *, workers: int, died: list[Pending]) -> Generator[Result, None, None]:
        """Work on recordings once; those whose process died are added to `died`."""
        queue = deque(waiting)
        team: list[_Worker] = []
        try:
            team += [_Worker(self.work, self.stall_s) for _ in range(workers)]
            for worker in team:
                worker.require_alive()
            while queue or any(worker.pending for worker in team):
                for at, worker in enumerate(team):
                    if worker.gone and queue:
                        team[at] = worker = _Worker(self.work, self.stall_s)
                        worker.require_alive()
                    if worker.pending is None and queue:
                        worker.give(queue.popleft())
                connection.wait([worker.pipe for worker in team if worker.pending], timeout=min(POLL_S, self.stall_s / 4))
                for worker in team:
                    yield from self._look_at(worker, died)
        finally:
            for worker in team:
                worker.end()

    def _look_at(self, worker: "_Worker", died: list[Pending]) -> Iterator[Result]:
        """Take what a worker has to say: a result, nothing yet, its death, or no sign of life for too long."""
        pending = worker.pending
        if pending is None:
            return
        try:
            if worker.pipe.poll():
                result: Result = worker.pipe.recv()
                worker.pending = None
                yield result
                return
        except (EOFError, OSError):
            worker.end()
            died.append(pending)
            return
        if (why := worker.stuck()) is not None:
            worker.end()
            message = f"{why}. It was stopped and nothing of it was published."
            yield self.give_up(pending, Finding("worker-stopped", Severity.ERROR, pending[0].id, message))


class _Worker:
    """One process at the other end of a pipe."""

    def __init__(self, work: Callable[[Pending], Any], stall_s: float) -> None:
        self.pending: Pending | None = None
        self.since = self.moved = 0.0
        self.gone = False
        self._stall_s, self._bytes, self._limit_s = stall_s, -1, 0.0
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with interrupts_left_to_parent():
            self.process.start()
        theirs.close()

    def require_alive(self) -> None:
        """Wait until the process is up.

        Raises:
            EgodataError: It ended instead.
        """
        try:
            self.pipe.recv()
        except (EOFError, OSError) as error:
            raise EgodataError(
                "ingest: worker processes do not start. In a script call ingest under `if __name__ == '__main__':`, or use workers=0."
            ) from error

    def give(self, pending: Pending) -> None:
        self.since = self.moved = time.monotonic()
        self._bytes, self._limit_s = -1, time_limit_s(pending[0])
        self.pending = pending
        self.pipe.send(pending)

    def stuck(self) -> str | None:
        """Say why the recording at hand will not end, or None while it may."""
        now, moved = time.monotonic(), _bytes_moved(self.process.pid)
        if moved is None or moved != self._bytes:
            self._bytes, self.moved = -1 if moved is None else moved, now
        if now - self.moved > self._stall_s:
            return f"its reader hangs: no byte was read or written for {self._stall_s:.0f} s (--stall changes that)"
        if now - self.since > self._limit_s:
            return (
                f"its reader does not come to an end: {self._limit_s:.0f} s are over, an hour and {LIMIT_S_PER_MIB:.0f} s per MiB of media"
            )
        return None

    def end(self) -> None:
        """End the process at once: publishing survives that, so nobody has to wait for an encoder."""
        self.gone, self.pending = True, None
        self.process.kill()
        self.process.join()
        self.pipe.close()


def time_limit_s(ref: RecordingRef) -> float:
    """Return how long a recording may take at most, by the size of its files."""
    paths = {path for part in PARTS for path in ref.files.get(part, ())}
    size_bytes = sum(path.stat().st_size for path in paths if path.is_file())
    return BASE_LIMIT_S + LIMIT_S_PER_MIB * size_bytes / _MIB


def _bytes_moved(pid: int | None) -> int | None:
    """Return the bytes that a process has read and written so far; None where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    return sum(int(line.partition(":")[2]) for line in lines if line.startswith(("rchar", "wchar")))


def _serve(pipe: connection.Connection, work: Callable[[Pending], Any]) -> None:
    """Work on what comes through the pipe until it closes; runs in the worker process."""
    try:
        pipe.send(_READY)
        while True:
            pipe.send(work(pipe.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the parent is gone or done; there is nobody to tell


@contextmanager
def interrupts_left_to_parent() -> Iterator[None]:
    """Make processes started inside ignore Ctrl-C from their first instruction on; this process ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
