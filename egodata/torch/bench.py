"""What a sample costs on this machine, by stage, and how many workers a step time needs."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from egodata.errors import InputError
from egodata.sampling import HeadSource, epoch_order
from egodata.sampling.assemble import episode_samples, read_images
from egodata.sampling.cache import EpisodeCache
from egodata.sampling.types import Sample
from egodata.torch.collate import Batch, collate
from egodata.torch.process import read_bytes

STAGES = ("numbers", "decode", "assemble", "collate")


@dataclass(frozen=True, slots=True)
class StageCosts:
    """What a sample costs in one process.

    Attributes:
        samples: How many of them were taken as training takes them; as many again were taken stage by stage.
        cpu_ms: CPU milliseconds per sample by stage: numbers (windows, coordinate frames), decode (images), assemble (normalisation,
            prompts), collate.
        total_cpu_ms: The same of the whole as training takes it, measured by itself.
        read_bytes: Asked of files per sample, by the whole; mapped numbers are not counted; None where it is not known.
    """

    samples: int
    cpu_ms: Mapping[str, float]
    total_cpu_ms: float
    read_bytes: float | None


@dataclass(frozen=True, slots=True)
class Need:
    """What a step time asks for.

    Attributes:
        samples_per_s: Rate that the step takes.
        workers: That give it, a core each.
        cores: Of this machine that this process may use.
        best_step_ms: The shortest step that this machine can feed with every core but one, which is left to the training process.
    """

    samples_per_s: float
    workers: int
    cores: int
    best_step_ms: float

    @property
    def fits(self) -> bool:
        """Whether workers and the training process have a core each."""
        return self.workers < self.cores


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_needed(cpu_ms: float, *, batch_size: int, step_ms: float, cores: int) -> Need:
    """Say how many workers keep a training step waiting for no batch.

    A worker gives one sample per `cpu_ms`, so a step of `batch_size` samples every `step_ms` takes batch_size x cpu_ms / step_ms of them.

    Args:
        cpu_ms: CPU milliseconds per sample in a worker.
        batch_size: Samples per step, of this process.
        step_ms: Milliseconds of a step whose data is there.
        cores: That this process may use.

    >>> workers_needed(2.5, batch_size=64, step_ms=100, cores=8).workers
    2
    """
    busy_ms = batch_size * cpu_ms
    return Need(batch_size / step_ms * 1e3, max(1, ceil(busy_ms / step_ms)), cores, busy_ms / max(1, cores - 1))


def measure_stages(source: HeadSource, readers: EpisodeCache, *, batch_size: int, samples: int) -> StageCosts:
    """Take uniform random batches in this process, in turn whole and stage by stage, so that a busy machine slows both.

    Both kinds warm up on a batch of their own. Every batch holds other samples, so that no one reads what another has left in a cache.

    Args:
        source: The head.
        readers: Open episodes for the turns stage by stage, of the same store.
        batch_size: Samples per batch.
        samples: At least so many of each kind.

    Raises:
        InputError: The head has no whole batch.
        SampleError: Reading failed; the message names episode and frame.
    """
    turns = max(1, ceil(samples / batch_size))
    clock = dict.fromkeys(STAGES, 0.0)
    whole_s, whole_bytes, known = 0.0, 0, True
    batches = random_batches(source, batch_size=batch_size)
    for turn in range(-1, turns):
        if turn == 0:
            clock, whole_s, whole_bytes = dict.fromkeys(STAGES, 0.0), 0.0, 0
        epoch, indices = next(batches)
        read, began = read_bytes(), time.process_time()
        collate(source.samples(indices.tolist(), epoch=epoch))
        whole_s += time.process_time() - began
        after = read_bytes()
        known = known and read is not None and after is not None
        whole_bytes += (after or 0) - (read or 0)
        epoch, indices = next(batches)
        staged_batch(source, readers, indices=indices, epoch=epoch, clock=clock)
    taken = turns * batch_size
    by_stage = {stage: spent / taken * 1e3 for stage, spent in clock.items()}
    return StageCosts(taken, by_stage, whole_s / taken * 1e3, whole_bytes / taken if known else None)


def random_batches(source: HeadSource, *, batch_size: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Give epochs and samples of uniform random batches without end, as training orders them.

    Raises:
        InputError: The head has no whole batch.
    """
    whole = len(source) // batch_size
    if whole == 0:
        raise InputError(f"bench: {len(source)} samples make no batch of {batch_size}. Lower the batch size, or add episodes.")
    epoch = 0
    while True:
        order = epoch_order(len(source), seed=source.seed, epoch=epoch)
        yield from ((epoch, order[at * batch_size : (at + 1) * batch_size]) for at in range(whole))
        epoch += 1


def staged_batch(source: HeadSource, readers: EpisodeCache, *, indices: NDArray[np.int64], epoch: int, clock: dict[str, float]) -> Batch:
    """Make the batch that `source.samples` and `collate` make, one stage after the other.

    Args:
        source: The head.
        readers: Open episodes of the same store.
        indices: (n,) samples.
        epoch: Of training.
        clock: CPU seconds by stage, to which this adds.
    """
    ordinals, frames = source.index.locate(indices)
    out: dict[int, Sample] = {}
    for ordinal in dict.fromkeys(ordinals.tolist()):
        at, episode = np.flatnonzero(ordinals == ordinal), source.episodes[ordinal]
        began = time.process_time()
        numbers, windows = source.numbers(ordinal), source.windows_of(ordinal, frames=frames[at])
        began = _lap(clock, "numbers", began)
        images = read_images(readers.reader(episode), numbers, recipe=source.recipe, starts=frames[at])
        began = _lap(clock, "decode", began)
        draws = [(source.seed, epoch, int(index)) for index in indices[at]]
        made = episode_samples(
            episode.episode_id,
            numbers,
            recipe=source.recipe,
            windows=windows,
            images=images,
            draws=draws,
            normalisers=source.normalisers,
        )
        out.update(zip(at.tolist(), made, strict=True))
        _lap(clock, "assemble", began)
    began = time.process_time()
    batch = collate([out[position] for position in range(len(indices))])
    _lap(clock, "collate", began)
    return batch


def _lap(clock: dict[str, float], stage: str, began: float) -> float:
    now = time.process_time()
    clock[stage] += now - began
    return now
