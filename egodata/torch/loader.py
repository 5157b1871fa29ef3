"""A loader whose stream depends on seed and epoch only: not on the number of workers, not on the storage format."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Sampler

from egodata.errors import InputError
from egodata.sampling import HeadSource, epoch_order
from egodata.torch.collate import Batch, collate
from egodata.torch.dataset import HeadDataset, Key

WORKER_TIMEOUT_S = 180.0


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)


class _EpochBatches(Sampler[list[Key]]):
    """Batches of (sample index, epoch) keys; the place to set the epoch and where to start in it."""

    def __init__(self, count: int, fixed: NDArray[np.int64] | None, *, batch_size: int, seed: int, drop_last: bool) -> None:
        self.count, self.fixed, self.batch_size, self.seed, self.drop_last = count, fixed, batch_size, seed, drop_last
        self.epoch, self.start = 0, 0

    def _order(self) -> NDArray[np.int64]:
        return epoch_order(self.count, seed=self.seed, epoch=self.epoch) if self.fixed is None else self.fixed

    def batches_in_epoch(self) -> int:
        total = self.count if self.fixed is None else len(self.fixed)
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)

    def __len__(self) -> int:
        return max(0, self.batches_in_epoch() - self.start)

    def __iter__(self) -> Iterator[list[Key]]:
        order, epoch = self._order(), (self.epoch if self.fixed is None else None)
        for batch in range(self.start, self.batches_in_epoch()):
            yield [(int(i), epoch) for i in order[batch * self.batch_size : (batch + 1) * self.batch_size]]


class HeadLoader:
    """Iterates over batches of one epoch at a time; `set_epoch` says which, and from which batch on."""

    def __init__(self, batches: _EpochBatches, loader: "DataLoader[Batch]") -> None:
        """Join what orders and what loads; `make_loader` is the usual way in."""
        self._batches = batches
        self._loader = loader

    def set_epoch(self, epoch: int, *, start_batch: int = 0) -> None:
        """Choose the epoch of the next iteration.

        Args:
            epoch: Decides order and prompts of training.
            start_batch: Batches of that epoch already consumed, for resuming; the rest comes exactly as it would have.
        """
        if not 0 <= start_batch <= self._batches.batches_in_epoch():
            raise InputError(f"loader: start_batch {start_batch} is outside [0, {self._batches.batches_in_epoch()}]")
        self._batches.epoch, self._batches.start = epoch, start_batch

    @property
    def batches_in_epoch(self) -> int:
        """Batches of a whole epoch."""
        return self._batches.batches_in_epoch()

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._loader)


def make_loader(
    source: HeadSource,
    *,
    batch_size: int,
    num_workers: int = 0,
    indices: Sequence[int] | NDArray[np.int64] | None = None,
    drop_last: bool | None = None,
    with_images: bool = True,
    timeout_s: float = WORKER_TIMEOUT_S,
) -> HeadLoader:
    """Make a loader for training, or for evaluation of given samples.

    Args:
        source: The head; its seed decides order and prompts.
        batch_size: Samples per batch.
        num_workers: 0 reads in this process; more are spawned and live as long as the loader.
        indices: Samples to read in this order, every epoch, with the first active text as prompt (evaluation). None
            shuffles the whole head per epoch and draws prompts (training).
        drop_last: Whether an incomplete last batch is left out; None: in training only.
        with_images: Whether batches carry images.
        timeout_s: With workers, a batch that takes longer is an error, so a stuck worker is never a hang.

    Raises:
        InputError: There is nothing to read, or not one whole batch of it.
    """
    fixed = None if indices is None else np.asarray(indices, np.int64)
    leave = fixed is None if drop_last is None else drop_last
    batches = _EpochBatches(len(source), fixed, batch_size=batch_size, seed=source.seed, drop_last=leave)
    if batches.batches_in_epoch() == 0:
        total = len(source) if fixed is None else len(fixed)
        raise InputError(f"loader: {total} samples make no batch of {batch_size}. Lower the batch size, or add episodes.")
    loader: DataLoader[Batch] = DataLoader(
        HeadDataset(source, with_images=with_images),  # type: ignore[arg-type]
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=num_workers,
        multiprocessing_context="spawn" if num_workers else None,
        persistent_workers=num_workers > 0,
        worker_init_fn=_one_thread if num_workers else None,
        timeout=timeout_s if num_workers else 0,
        pin_memory=torch.cuda.is_available(),
        generator=torch.Generator().manual_seed(source.seed),  # a loader must not draw from the run's own generator
    )
    return HeadLoader(batches, loader)
