"""What worker processes give on this machine: samples per second, CPU time, memory."""

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from math import ceil

import numpy as np

from egodata.sampling import HeadSource
from egodata.torch.bench import random_batches
from egodata.torch.loader import make_loader
from egodata.torch.process import cpu_s, pss_bytes

MIN_BATCHES = 2


@dataclass(frozen=True, slots=True)
class WorkersRun:
    """What some worker processes gave.

    Attributes:
        workers: Their number; 0 is the training process itself.
        samples: Samples of the time that was measured.
        start_s: From asking for the first batch until it was there.
        samples_per_s: After that, by the clock: on a busy machine less than it could be.
        worker_cpu_ms: CPU milliseconds per sample of the workers; 0 without.
        own_cpu_ms: CPU milliseconds per sample of the process that takes the batches.
        worker_pss_bytes: Of each worker at the end; empty where it is not known, or without workers.
        own_pss_bytes: Of the process that takes the batches.
    """

    workers: int
    samples: int
    start_s: float
    samples_per_s: float
    worker_cpu_ms: float
    own_cpu_ms: float
    worker_pss_bytes: tuple[int, ...]
    own_pss_bytes: int | None


def measure_workers(
    source: HeadSource, *, batch_size: int, workers: int, samples: int, each: Callable[[int, list[int]], None] | None = None
) -> WorkersRun:
    """Take uniform random batches from a loader, epoch after epoch, and look at its processes.

    Measuring starts once the batches that workers had made ahead are taken, and ends while they still make others.

    Args:
        source: The head.
        batch_size: Samples per batch.
        workers: Number of worker processes.
        samples: At least so many are measured.
        each: Called after each measured batch with the samples so far and the workers' process ids.

    Raises:
        InputError: The head has no whole batch.
        SampleError: Reading failed; the message names episode and frame.
    """
    turns, ahead = max(MIN_BATCHES, ceil(samples / batch_size)), 2 * workers
    wanted = [indices for _, indices in islice(random_batches(source, batch_size=batch_size), 1 + ahead + turns + ahead)]
    before = {child.pid for child in multiprocessing.active_children()}
    batches = iter(make_loader(source, batch_size=batch_size, num_workers=workers, indices=np.concatenate(wanted)))
    began = time.perf_counter()
    next(batches)
    start_s = time.perf_counter() - began
    children = [child.pid for child in multiprocessing.active_children() if child.pid is not None and child.pid not in before]
    for _ in range(ahead):
        next(batches)
    own_s, worker_s, began = time.process_time(), _cpu_of(children), time.perf_counter()
    for turn in range(turns):
        next(batches)
        if each is not None:
            each((turn + 1) * batch_size, children)
    wall_s, own_s, worker_s = time.perf_counter() - began, time.process_time() - own_s, _cpu_of(children) - worker_s
    taken, memory = turns * batch_size, [pss_bytes(child) for child in children]
    own_pss_bytes = pss_bytes(os.getpid())
    for _ in batches:  # so that workers end by themselves
        pass
    return WorkersRun(
        workers=workers,
        samples=taken,
        start_s=start_s,
        samples_per_s=taken / wall_s,
        worker_cpu_ms=worker_s / taken * 1e3,
        own_cpu_ms=own_s / taken * 1e3,
        worker_pss_bytes=tuple(size for size in memory if size is not None),
        own_pss_bytes=own_pss_bytes,
    )


def _cpu_of(processes: list[int]) -> float:
    return sum(cpu_s(process) or 0.0 for process in processes)
