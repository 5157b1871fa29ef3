"""What keeps a loader from hanging or dying without a word: a look at shared memory before workers start, and errors that say where."""

import re
import shutil
from pathlib import Path

from torch import Tensor

from egodata.errors import InputError, WorkerError
from egodata.torch.collate import Batch

SHARED_MEMORY = Path("/dev/shm")
PREFETCHED = 2
"""Batches that torch asks of each worker ahead of time."""
_SPARE = 1.25


def batch_bytes(batch: Batch, *, samples: int) -> int:
    """Return the bytes of the tensors of a batch of `samples`, from one of any size."""
    here = len(batch["episode_id"])
    tensors = [value for value in batch.values() if isinstance(value, Tensor)]
    tensors += [*batch["images"].values(), *batch["image_mask"].values()]
    return sum(int(tensor.nbytes) for tensor in tensors) * samples // here


def require_shared_memory(needed_bytes: int, *, workers: int, folder: Path = SHARED_MEMORY) -> None:
    """Refuse to start workers whose batches would not fit in shared memory: they would be killed by a bus error at some later batch.

    Args:
        needed_bytes: Of one batch.
        workers: Each keeps two batches waiting, and one is being used.
        folder: Where shared memory is mounted; a machine without it uses none.

    Raises:
        InputError: It does not fit; the message states the need.
    """
    if not folder.is_dir():
        return
    need, free = int(needed_bytes * (workers * PREFETCHED + 1) * _SPARE), shutil.disk_usage(folder).free
    if need > free:
        raise InputError(
            f"loader: {workers} workers need {_mb(need)} of shared memory (batches of {_mb(needed_bytes)}), {folder} has {_mb(free)} free. "
            "Give the container more (docker: --shm-size), or use fewer workers or a smaller batch."
        )


def worker_failure(error: RuntimeError, *, where: str, timeout_s: float) -> WorkerError | None:
    """Turn what torch says about a dead or silent worker into one error; None if it is about something else.

    Args:
        error: As torch raises it.
        where: Epoch, batch and first samples that were waited for.
        timeout_s: How long was waited.
    """
    text = f"{error} {error.__cause__ or ''}"
    if "timed out" in text:
        return WorkerError(
            f"{where}: no worker answered within {timeout_s:g} s: stuck on a file, or too slow. Look at those with `egodata verify`."
        )
    killed = re.search(r"is killed by signal: ([\w ]+)", text)
    if killed is None and "exited unexpectedly" not in text:
        return None
    how = "ended without a word" if killed is None else f"was killed ({killed.group(1).strip()})"
    hint = "shared memory is full" if "Bus error" in text else "the machine may be out of memory"
    return WorkerError(
        f"{where}: a loader worker {how}; {hint}. Use fewer workers or a smaller batch, then resume from the last checkpoint."
    )


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
