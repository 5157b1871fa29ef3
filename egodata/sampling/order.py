"""In which order samples are read. Every order is a pure function of its arguments, on any machine and any numpy."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from egodata.sampling.seeds import derive_seed
from egodata.sampling.types import Sample

AUTO_BUDGET = 80 * 64
_GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def epoch_order(count: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Shuffle 0 .. count - 1 for one epoch.

    Each index gets a 64-bit key by SplitMix64 (Steele et al. 2014) from the epoch's seed, and the keys are sorted.
    numpy's own shuffles are not promised to stay the same between its versions.
    """
    state = np.uint64(derive_seed(seed, epoch, "order")) + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    state = (state ^ (state >> np.uint64(30))) * _MIX1
    state = (state ^ (state >> np.uint64(27))) * _MIX2
    return np.argsort(state ^ (state >> np.uint64(31)), kind="stable").astype(np.int64)


def even_stride(count: int, k: int) -> list[int]:
    """Pick k evenly spaced positions of `count`: all if count <= k, the middle if k = 1, else round(i (count-1) / (k-1)).

    Rounding is half to even.

    >>> even_stride(10, 4), even_stride(498, 3), even_stride(10, 1)
    ([0, 3, 6, 9], [0, 248, 497], [5])
    """
    if count <= k:
        return list(range(count))
    if k == 1:
        return [count // 2]
    return [round(i * (count - 1) / (k - 1)) for i in range(k)]


def auto_per_episode(episodes: int, budget: int = AUTO_BUDGET) -> int:
    """Frames per episode that spend a budget of samples evenly; at least 1."""
    return max(1, budget // max(1, episodes))


def stride_indices(offsets: NDArray[np.int64], per_episode: int) -> NDArray[np.int64]:
    """Pick evenly spaced samples of every episode of a head.

    Args:
        offsets: (E + 1,) where each episode's samples start in the global index.
        per_episode: Samples per episode; positions count usable frames.
    """
    picked = [start + np.array(even_stride(int(end - start), per_episode), np.int64) for start, end in pairwise(offsets)]
    return np.concatenate(picked) if picked else np.zeros(0, np.int64)


def sample_digest(sample: Sample) -> str:
    """SHA-256 over everything in a sample: (episode, frame, prompt) and the bytes of its arrays."""
    digest = hashlib.sha256(f"{sample.episode_id}\0{sample.frame}\0{sample.prompt}\0{sample.fps!r}\0{sample.embodiment}\0".encode())
    arrays = [sample.proprio, sample.proprio_mask, sample.arm_valid, sample.action, sample.action_mask, sample.reference]
    for camera in sorted(sample.images):
        arrays += [sample.images[camera], sample.image_mask[camera]]
    for array in arrays:
        digest.update(f"{array.dtype.name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def stream_digests(samples: Iterable[Sample]) -> Iterator[str]:
    """Yield, after each sample, the digest of the stream so far: equal digests mean equal streams up to there."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(sample_digest(sample).encode())
        yield digest.hexdigest()
