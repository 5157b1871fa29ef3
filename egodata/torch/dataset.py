"""A head as a torch dataset. The epoch travels with each index, so workers need not be told when a new one starts."""

from collections.abc import Sequence

from torch.utils.data import Dataset

from egodata.sampling import HeadSource, Sample

Key = tuple[int, int | None]


class HeadDataset(Dataset[Sample]):
    """Map-style dataset over a source; keys are (sample index, epoch), with epoch None for evaluation, or plain indices."""

    def __init__(self, source: HeadSource, *, with_images: bool = True) -> None:
        """Wrap a source; nothing is read.

        Args:
            source: Picklable; each worker opens its own files.
            with_images: Whether samples carry images.
        """
        self.source = source
        self.with_images = with_images

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, key: Key | int) -> Sample:
        """Read one sample."""
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[Key | int]) -> list[Sample]:
        """Read the samples of a batch, all of one epoch; each distinct frame is decoded once."""
        pairs = [(key, None) if isinstance(key, int) else key for key in keys]
        epochs = {epoch for _, epoch in pairs}
        if len(epochs) != 1:
            raise ValueError(f"batch of samples: expected one epoch, got {sorted(str(epoch) for epoch in epochs)}")
        return self.source.samples([index for index, _ in pairs], epoch=epochs.pop(), with_images=self.with_images)
