"""Heads as a torch dataset. The epoch travels with each index, so workers need not be told when a new one starts."""

from collections.abc import Sequence

import numpy as np
from torch.utils.data import Dataset

from egodata.sampling import HeadSource, Sample
from egodata.sampling.plans import EVALUATION
from egodata.sampling.runs import DecodedRuns

SourceKey = tuple[int, int, int]


class SourcesDataset(Dataset[Sample]):
    """Map-style dataset over several sources; keys are rows of a plan: (source, sample index, epoch)."""

    def __init__(self, sources: Sequence[HeadSource], *, with_images: bool = True, runs: DecodedRuns | None = None) -> None:
        """Wrap sources; nothing is read.

        Args:
            sources: Picklable; each worker opens its own files.
            with_images: Whether samples carry images.
            runs: Keeps decoded runs, for block order over one source; every worker has its own.
        """
        self.sources = tuple(sources)
        self.with_images = with_images
        self.runs = runs

    def __len__(self) -> int:
        return sum(len(source) for source in self.sources)

    def __getitem__(self, key: SourceKey) -> Sample:
        """Read one sample."""
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[SourceKey]) -> list[Sample]:
        """Read the samples of a batch; each distinct frame of a source is decoded once per epoch that the batch touches."""
        rows = np.asarray(keys, np.int64)
        out: dict[int, Sample] = {}
        for source, epoch in dict.fromkeys(map(tuple, rows[:, [0, 2]].tolist())):
            at = np.flatnonzero((rows[:, 0] == source) & (rows[:, 2] == epoch))
            drawn = None if epoch == EVALUATION else int(epoch)
            made = self.sources[source].samples(rows[at, 1].tolist(), epoch=drawn, with_images=self.with_images, runs=self.runs)
            out.update(zip(at.tolist(), made, strict=True))
        return [out[position] for position in range(len(rows))]
