"""A batch in parts, whose gradients add up to that of the whole: the same step with less memory."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

from torch import Tensor

from egodata.errors import ConfigError
from egodata.torch import Batch


def micro_batches(batch: Batch, parts: int) -> Iterator[tuple[Batch, float]]:
    """Cut a batch along its samples, in order.

    Args:
        batch: B samples.
        parts: Sizes differ by at most one sample.

    Yields:
        A part, and its share of the recorded action cells, with which its mean loss counts.

    Raises:
        ConfigError: More parts than samples.
    """
    if parts > len(batch["frame"]):
        raise ConfigError(f"optim.accumulate {parts}: more parts than the {len(batch['frame'])} samples of a batch. Lower it.")
    count, cells = len(batch["frame"]), int(batch["action_mask"].sum())
    edges = [count * part // parts for part in range(parts + 1)]
    for first, end in pairwise(edges):
        part = cast(Batch, {name: _cut(value, first, end) for name, value in batch.items()})
        yield part, int(part["action_mask"].sum()) / max(1, cells)


def _cut(value: Any, first: int, end: int) -> Any:
    if isinstance(value, dict):
        return {name: _cut(item, first, end) for name, item in value.items()}
    if isinstance(value, (Tensor, list)):
        return value[first:end]
    raise TypeError(f"batch: cannot cut a {type(value).__name__} along its samples")
