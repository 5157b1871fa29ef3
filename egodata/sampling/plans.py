"""What is read in an epoch and in which order: pure functions of seed, epoch, batch size and number of ranks.

A plan gives keys (source, sample index, epoch); rows follow each other batch by batch, and within a global batch rank by rank. So R ranks
with batches of B read together what one rank reads with batches of R x B, step for step, and every rank makes the same number of steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from egodata.errors import InputError
from egodata.sampling.order import epoch_order
from egodata.sampling.seeds import derive_seed

Keys = NDArray[np.int64]
"""(N, 3): source, sample index in it, epoch that prompts are drawn for, -1 in evaluation."""
EVALUATION = -1


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of every global batch this process reads.

    Attributes:
        rank: From 0.
        ranks: Processes that train together.
    """

    rank: int = 0
    ranks: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.ranks:
            raise InputError(f"rank {self.rank}: expected 0 to {self.ranks - 1}, of {self.ranks} ranks.")


ALONE = Share()


class EpochPlan(Protocol):
    """An order of keys per epoch."""

    def count(self, *, batch_size: int, ranks: int) -> int:
        """Return how many keys `keys` gives, whatever the epoch."""
        ...

    def keys(self, epoch: int, *, batch_size: int, ranks: int) -> Keys:
        """Return the keys of an epoch, batch by batch."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same samples in the same order every epoch, with evaluation prompts; every rank reads all of them."""

    indices: NDArray[np.int64]

    def count(self, *, batch_size: int, ranks: int) -> int:
        """Return the number of samples."""
        return len(self.indices)

    def keys(self, epoch: int, *, batch_size: int, ranks: int) -> Keys:
        """Return them."""
        return _keys(0, self.indices, EVALUATION)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every sample of a head once per epoch, uniformly shuffled.

    Attributes:
        samples: In the head.
        seed: Of the order.
    """

    samples: int
    seed: int

    def count(self, *, batch_size: int, ranks: int) -> int:
        """Return the number of samples."""
        return self.samples

    def keys(self, epoch: int, *, batch_size: int, ranks: int) -> Keys:
        """Return all samples in the epoch's order."""
        return _keys(0, epoch_order(self.samples, seed=self.seed, epoch=epoch), epoch)


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """How samples are shuffled where neighbours are read together: less random, and a frame is decoded with its neighbours.

    Attributes:
        run_frames: Frames of an episode that are decoded at once; the encoder's group of pictures fits best.
        open_runs: Runs that a lane draws from at any time: the more, the closer to uniform, and the more memory.
        lanes: Independent streams per rank; batch b belongs to lane b mod lanes, so a number of workers that divides it keeps each lane's
            frames in one worker. The stream does not depend on the number of workers.
    """

    run_frames: int = 30
    open_runs: int = 8
    lanes: int = 4

    def __post_init__(self) -> None:
        if min(self.run_frames, self.open_runs, self.lanes) < 1:
            raise InputError(f"block order {self}: expected run_frames, open_runs and lanes of at least 1.")


@dataclass(frozen=True, slots=True)
class Blocks:
    """Every sample of a head at most once per epoch, shuffled by runs of neighbouring frames.

    A run stays open for `open_runs` runs' worth of samples, and its samples fall uniformly into that time.

    Attributes:
        offsets: (E + 1,) of the head's index.
        frames: (N,) of the head's index.
        seed: Of the order.
        order: Sizes.
    """

    offsets: NDArray[np.int64]
    frames: NDArray[np.int32]
    seed: int
    order: BlockOrder

    def count(self, *, batch_size: int, ranks: int) -> int:
        """Return how many samples fill every lane with equally many whole batches."""
        together = self.order.lanes * ranks * batch_size
        return len(self.frames) // together * together

    def keys(self, epoch: int, *, batch_size: int, ranks: int) -> Keys:
        """Return the samples of an epoch; which ones are left out changes from epoch to epoch."""
        run = self._runs()
        place = np.empty(int(run[-1]) + 1 if len(run) else 0, np.int64)
        place[epoch_order(len(place), seed=derive_seed(self.seed, "runs"), epoch=epoch)] = np.arange(len(place))
        spread = np.empty(len(run), np.float64)
        spread[epoch_order(len(run), seed=self.seed, epoch=epoch)] = (np.arange(len(run)) + 0.5) / max(1, len(run))
        ordered = np.argsort(place[run] + self.order.open_runs * spread, kind="stable").astype(np.int64)
        lanes = self.order.lanes * ranks
        kept = ordered[: self.count(batch_size=batch_size, ranks=ranks)]
        return _keys(0, kept.reshape(lanes, -1, batch_size).transpose(1, 0, 2).ravel(), epoch)

    def _runs(self) -> NDArray[np.int64]:
        """Number each sample's run; runs follow each other in the index."""
        episode = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        number = self.frames // self.order.run_frames
        starts = np.ones(len(self.frames), bool)
        starts[1:] = (np.diff(episode) != 0) | (np.diff(number) != 0)
        return np.cumsum(starts) - 1


@dataclass(frozen=True, slots=True)
class Mixed:
    """Several heads by weight. A small head is gone through more often than a large one, but no sample of it repeats before all were read.

    Attributes:
        samples: Per head.
        weights: Share of an epoch's samples per head; they need not sum to 1.
        seeds: Of each head's own order.
        seed: Of the order among heads.
        total: Samples per epoch.
        per_batch: Whether a global batch comes from one head (heads of different bodies), or samples of all heads mix in it.
    """

    samples: tuple[int, ...]
    weights: tuple[float, ...]
    seeds: tuple[int, ...]
    seed: int
    total: int
    per_batch: bool

    def counts(self, *, batch_size: int, ranks: int) -> list[int]:
        """Return how many samples of each head an epoch has: the largest-remainder shares of `total`, in whole batches if `per_batch`."""
        unit = batch_size * ranks if self.per_batch else 1
        return [share * unit for share in largest_remainder(self.total // unit, self.weights)]

    def count(self, *, batch_size: int, ranks: int) -> int:
        """Return the number of samples of an epoch."""
        return sum(self.counts(batch_size=batch_size, ranks=ranks))

    def keys(self, epoch: int, *, batch_size: int, ranks: int) -> Keys:
        """Return the keys of an epoch; a key's epoch is the head's own, so that a repeated sample draws its prompt anew."""
        unit = batch_size * ranks if self.per_batch else 1
        counts = self.counts(batch_size=batch_size, ranks=ranks)
        parts = [self._part(source, epoch * count, count) for source, count in enumerate(counts)]
        pieces = np.concatenate(parts).reshape(-1, unit, 3)
        return pieces[epoch_order(len(pieces), seed=derive_seed(self.seed, "mixture"), epoch=epoch)].reshape(-1, 3)

    def _part(self, source: int, first: int, count: int) -> Keys:
        """Return `count` keys of one head from position `first` of all its epochs in a row."""
        size, out = self.samples[source], []
        while count > 0:
            own, start = divmod(first, size)
            order = epoch_order(size, seed=self.seeds[source], epoch=own)[start : start + count]
            out.append(_keys(source, order, own))
            first, count = first + len(order), count - len(order)
        return np.concatenate(out) if out else np.zeros((0, 3), np.int64)


def _keys(source: int, indices: NDArray[np.int64], epoch: int) -> Keys:
    return np.stack([np.full(len(indices), source), indices, np.full(len(indices), epoch)], axis=1).astype(np.int64)


def largest_remainder(total: int, weights: Sequence[float]) -> list[int]:
    """Share out whole numbers by weight: exact shares rounded down, and the rest to the largest remainders, earlier ones first.

    >>> largest_remainder(10, [1, 1, 1])
    [4, 3, 3]
    """
    exact = [total * weight / sum(weights) for weight in weights]
    shares = [int(value) for value in exact]
    by_rest = sorted(range(len(weights)), key=lambda at: (shares[at] - exact[at], at))
    for at in by_rest[: total - sum(shares)]:
        shares[at] += 1
    return shares
