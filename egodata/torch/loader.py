"""A loader whose stream depends on seed and epoch only: not on the number of workers, not on the storage format."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Sampler

from egodata.errors import InputError
from egodata.sampling import HeadSource
from egodata.sampling.mixture import Mixture
from egodata.sampling.plans import ALONE, BlockOrder, Blocks, EpochPlan, Fixed, Keys, Share, Uniform
from egodata.sampling.runs import DecodedRuns
from egodata.torch.collate import Batch, collate
from egodata.torch.dataset import SourceKey, SourcesDataset
from egodata.torch.guard import PREFETCHED, SHARED_MEMORY, batch_bytes, require_shared_memory, worker_failure

WORKER_TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True)
class Loading:
    """How batches are read; none of it changes what is in them, but `blocks`, which changes their order.

    Attributes:
        with_images: Whether batches carry images.
        timeout_s: With workers, a batch that takes longer is an error, so a stuck worker is never a hang.
        share: Which part of every global batch this process reads. Given samples (evaluation) are read whole by every rank.
        blocks: Shuffle runs of neighbouring frames and decode them together; None shuffles uniformly.
        shared_memory: Where it is mounted.
    """

    with_images: bool = True
    timeout_s: float = WORKER_TIMEOUT_S
    share: Share = ALONE
    blocks: BlockOrder | None = None
    shared_memory: Path = SHARED_MEMORY


USUAL = Loading()


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)


class _EpochBatches(Sampler[list[SourceKey]]):
    """Batches of keys; the place to set the epoch and where to start in it."""

    def __init__(self, plan: EpochPlan, *, batch_size: int, share: Share, drop_last: bool) -> None:
        self.plan, self.batch_size, self.drop_last = plan, batch_size, drop_last
        self.share = ALONE if isinstance(plan, Fixed) else share
        self.epoch, self.start = 0, 0
        self.keys = lru_cache(maxsize=2)(self._keys)  # the order of a large epoch takes a second to make

    def _keys(self, epoch: int) -> Keys:
        return self.plan.keys(epoch, batch_size=self.batch_size, ranks=self.share.ranks)

    @property
    def total(self) -> int:
        return self.plan.count(batch_size=self.batch_size, ranks=self.share.ranks)

    def batches_in_epoch(self) -> int:
        together = self.batch_size * self.share.ranks
        return self.total // together if self.drop_last else -(-self.total // together)

    def __len__(self) -> int:
        return max(0, self.batches_in_epoch() - self.start)

    def __iter__(self) -> Iterator[list[SourceKey]]:
        return (self.batch(self.epoch, number) for number in range(self.start, self.batches_in_epoch()))

    def first_of_each_source(self) -> list[SourceKey]:
        keys = self.keys(0)
        _, at = np.unique(keys[:, 0], return_index=True)
        return [(int(source), int(index), int(drawn)) for source, index, drawn in keys[at]]

    def sources_of(self, epoch: int, number: int) -> tuple[int, ...]:
        together = self.share.ranks * self.batch_size
        return tuple(dict.fromkeys(self.keys(epoch)[number * together : (number + 1) * together, 0].tolist()))

    def batch(self, epoch: int, number: int) -> list[SourceKey]:
        first = (number * self.share.ranks + self.share.rank) * self.batch_size
        return [(int(source), int(index), int(drawn)) for source, index, drawn in self.keys(epoch)[first : first + self.batch_size]]


class HeadLoader:
    """Iterates over batches of one epoch at a time; `set_epoch` says which, and from which batch on."""

    def __init__(self, batches: _EpochBatches, loader: "DataLoader[Batch]", *, sources: Sequence[HeadSource]) -> None:
        """Join what orders and what loads; `make_loader` is the usual way in."""
        self._batches, self._loader, self._sources = batches, loader, tuple(sources)
        self._given = 0

    def set_epoch(self, epoch: int, *, start_batch: int = 0) -> None:
        """Choose the epoch of the next iteration.

        Args:
            epoch: Decides order and prompts of training.
            start_batch: Batches of that epoch already consumed, for resuming; the rest comes exactly as it would have.
        """
        if not 0 <= start_batch <= self._batches.batches_in_epoch():
            raise InputError(f"loader: start_batch {start_batch} is outside [0, {self._batches.batches_in_epoch()}]")
        self._batches.epoch, self._batches.start, self._given = epoch, start_batch, start_batch

    @property
    def batches_in_epoch(self) -> int:
        """Batches of a whole epoch, the same on every rank."""
        return self._batches.batches_in_epoch()

    @property
    def left_out(self) -> int:
        """Samples of an epoch that no rank reads, because they fill no whole batch; other ones in every epoch."""
        batches = self._batches
        whole = sum(len(source) for source in self._sources) if isinstance(batches.plan, Blocks) else batches.total
        read = batches.batches_in_epoch() * batches.batch_size * batches.share.ranks
        return max(0, whole - read)

    def parts_of(self, number: int) -> tuple[int, ...]:
        """Return which sources a batch of all ranks in the present epoch reads from, by position."""
        return self._batches.sources_of(self._batches.epoch, number)

    def state_dict(self) -> dict[str, int]:
        """Return where iteration stands: epoch, and batches of it that were given."""
        return {"epoch": self._batches.epoch, "batch": self._given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where another loader of the same head, seed, batch size and ranks stood; the number of workers may differ."""
        self.set_epoch(state["epoch"], start_batch=state["batch"])

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        """Give the batches of the epoch.

        Raises:
            SampleError: Reading failed; the message names episode and frame.
            WorkerError: A worker died, or gave nothing within the time limit.
        """
        self._given = self._batches.start
        try:
            for batch in self._loader:
                self._given += 1
                yield batch
        except RuntimeError as error:
            failure = worker_failure(error, where=self._where(), timeout_s=self._loader.timeout)
            if failure is None:
                raise
            raise failure from error

    def _where(self) -> str:
        """Name the batch that is waited for by its first samples."""
        epoch, number = self._batches.epoch, self._given
        named = []
        for source, index, _ in self._batches.batch(epoch, number)[:3]:
            ordinal, frame = self._sources[source].index.locate(np.array([index]))
            named.append(f"{self._sources[source].episodes[int(ordinal[0])].episode_id} frame {int(frame[0])}")
        return f"loader: epoch {epoch} batch {number} (episodes {', '.join(named)}, ...)"


def make_loader(
    source: HeadSource | Mixture,
    *,
    batch_size: int,
    num_workers: int = 0,
    indices: Sequence[int] | NDArray[np.int64] | None = None,
    drop_last: bool | None = None,
    loading: Loading = USUAL,
) -> HeadLoader:
    """Make a loader for training, or for evaluation of given samples.

    Args:
        source: The head, whose seed decides order and prompts; or a mixture of heads, for training.
        batch_size: Samples per batch and rank.
        num_workers: 0 reads in this process; more are spawned and live as long as the loader.
        indices: Samples to read in this order, every epoch, with the first active text as prompt (evaluation). None
            shuffles the whole head per epoch and draws prompts (training).
        drop_last: Whether an incomplete last batch is left out; None: in training only.
        loading: How.

    Raises:
        InputError: There is nothing to read, or not one whole batch of it; options do not go together; shared memory is too small.
        SampleError: The first sample, whose size says how much shared memory workers need, cannot be read.
    """
    sources = source.sources if isinstance(source, Mixture) else (source,)
    plan = _plan(source, indices, loading, batch_size=batch_size)
    leave = indices is None if drop_last is None else drop_last
    if not leave and loading.share.ranks > 1 and indices is None:
        raise InputError(f"loader: {loading.share.ranks} ranks make equally many steps only if the incomplete last batch is left out.")
    batches = _EpochBatches(plan, batch_size=batch_size, share=loading.share, drop_last=leave)
    if batches.batches_in_epoch() == 0:
        total = len(source) if indices is None else len(indices)
        of = f"{batch_size}" if loading.share.ranks == 1 or indices is not None else f"{loading.share.ranks} x {batch_size}"
        raise InputError(f"loader: {total} samples make no batch of {of}. Lower the batch size, or add episodes.")
    dataset = SourcesDataset(sources, with_images=loading.with_images, runs=_runs(loading, num_workers))
    if num_workers:
        largest = max(batch_bytes(collate(dataset.__getitems__([key])), samples=batch_size) for key in batches.first_of_each_source())
        require_shared_memory(largest, workers=num_workers, folder=loading.shared_memory)
    loader: DataLoader[Batch] = DataLoader(
        dataset,  # type: ignore[arg-type]
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=num_workers,
        multiprocessing_context="spawn" if num_workers else None,
        persistent_workers=num_workers > 0,
        prefetch_factor=PREFETCHED if num_workers else None,
        worker_init_fn=_one_thread if num_workers else None,
        timeout=loading.timeout_s if num_workers else 0,
        pin_memory=torch.cuda.is_available(),
        generator=torch.Generator().manual_seed(sources[0].seed),  # a loader must not draw from the run's own generator
    )
    return HeadLoader(batches, loader, sources=sources)


def _plan(
    source: HeadSource | Mixture, indices: Sequence[int] | NDArray[np.int64] | None, loading: Loading, *, batch_size: int
) -> EpochPlan:
    if isinstance(source, Mixture):
        if indices is not None or loading.blocks is not None:
            raise InputError(
                "loader: a mixture is for training in uniform order. Evaluate its heads, or use block order, one head at a time."
            )
        source.require_all(batch_size=batch_size, ranks=loading.share.ranks)
        return source.plan()
    if indices is not None:
        return Fixed(np.asarray(indices, np.int64))
    if loading.blocks is not None:
        return Blocks(source.index.offsets, source.index.frames, source.seed, loading.blocks)
    return Uniform(len(source), source.seed)


def _runs(loading: Loading, num_workers: int) -> DecodedRuns | None:
    if loading.blocks is None or not loading.with_images:
        return None
    lanes, workers = loading.blocks.lanes, max(1, num_workers)
    if lanes % workers:
        fitting = [n for n in range(1, lanes + 1) if lanes % n == 0]
        raise InputError(
            f"loader: {lanes} lanes of block order do not divide among {workers} workers, so runs would be decoded several times. "
            f"Use {', '.join(map(str, fitting))} workers or other lanes."
        )
    return DecodedRuns(loading.blocks.run_frames, kept=2 * loading.blocks.open_runs * (lanes // workers))
