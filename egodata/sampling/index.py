"""The global index of a head: which frame of which episode sample i is. Arrays only, so workers share its shape, not its size."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.errors import WindowError
from egodata.sampling.selection import UsableFrames


@dataclass(frozen=True, slots=True)
class HeadIndex:
    """Usable frames of a head's episodes, in head order, then by frame.

    Attributes:
        offsets: (E + 1,) int64; samples offsets[e] .. offsets[e + 1] - 1 belong to episode e.
        frames: (N,) int32 frame of each sample.
        excluded: Frames left out, by reason.
    """

    offsets: NDArray[np.int64]
    frames: NDArray[np.int32]
    excluded: Mapping[str, int]

    def __len__(self) -> int:
        return int(self.frames.shape[0])

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle a mapped index as its file's path, so that worker processes share the pages instead of each holding a copy."""
        mapped = getattr(self.frames, "filename", None)
        if isinstance(self.frames, np.memmap) and mapped is not None:
            return _mapped_again, (self.offsets, str(mapped), dict(self.excluded))
        return HeadIndex, (self.offsets, self.frames, dict(self.excluded))

    @property
    def episodes(self) -> NDArray[np.int32]:
        """(N,) int32 episode ordinal of each sample; made on demand."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))

    def locate(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return episode ordinals and frames of samples (n,).

        Raises:
            WindowError: A sample outside [0, N).
        """
        samples = np.asarray(samples, np.int64)
        if np.any((samples < 0) | (samples >= len(self))):
            raise WindowError(f"sample {samples[(samples < 0) | (samples >= len(self))][0]}: expected 0 to {len(self) - 1}")
        return np.searchsorted(self.offsets, samples, side="right") - 1, self.frames[samples].astype(np.int64)


def _mapped_again(offsets: NDArray[np.int64], path: str, excluded: Mapping[str, int]) -> HeadIndex:
    return HeadIndex(offsets, np.load(path, mmap_mode="r"), excluded)


def build_index(usable: Iterable[UsableFrames]) -> HeadIndex:
    """Make the index from each episode's usable frames, in head order."""
    frames: list[NDArray[np.int32]] = []
    excluded: Counter[str] = Counter()
    for found in usable:
        frames.append(np.flatnonzero(found.mask).astype(np.int32))
        excluded.update(found.excluded)
    offsets = np.cumsum([0, *(part.size for part in frames)], dtype=np.int64)
    return HeadIndex(offsets, np.concatenate(frames) if frames else np.zeros(0, np.int32), dict(sorted(excluded.items())))
