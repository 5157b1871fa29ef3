"""A batch on its device."""

from typing import Any, cast

import torch
from torch import Tensor

from egodata.torch.collate import Batch


def batch_to_device(batch: Batch, device: torch.device | str) -> Batch:
    """Move every tensor of a batch; texts and ids stay as they are.

    Images stay uint8, a quarter of what floats would be. Nothing is waited for where the loader put the batch into pinned memory,
    which it does on a machine with a GPU.
    """
    return cast(Batch, {name: _moved(value, device) for name, value in batch.items()})


def _moved(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {name: _moved(one, device) for name, one in value.items()}
    return value
