"""Several processes that train one run: who they are, how they start, and that they agree.

A run of `trainer.devices` ranks is started by its first process, which starts the others; under `torchrun` every process is started
from outside and says so in its environment. Rank 0 alone writes.
"""

import json
import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from multiprocessing.process import BaseProcess
from typing import Any

import torch
import torch.distributed as dist

from egodata.errors import ConflictError

WAIT = timedelta(hours=2)
"""Ranks wait so long for each other: rank 0 writes videos and cards while the others wait."""
JOIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where this process stands among those of the run.

    Attributes:
        rank: Of this process, from 0.
        world: How many there are.
    """

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes."""
        return self.rank == 0


def outside_ranks() -> Ranks | None:
    """Return what a launcher such as torchrun has said; None if this process was started by hand."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return Ranks(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    return None


@contextmanager
def joined(ranks: Ranks, *, gpu: bool) -> Iterator[None]:
    """Be connected to the other ranks, at the address in the environment."""
    if ranks.world == 1:
        yield
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", rank=ranks.rank, world_size=ranks.world, timeout=WAIT)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def siblings(world: int, target: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Start ranks 1 .. world - 1 beside this process, which is rank 0, and wait for them at the end.

    Args:
        world: Ranks in all.
        target: Called in each of them with its rank and the arguments; importable.
        arguments: Picklable.

    Raises:
        ConflictError: One of them ended with an error.
    """
    address = _address(world)
    before = {name: os.environ.get(name) for name in (*address, "RANK", "LOCAL_RANK")}
    os.environ.update(address)
    context = multiprocessing.get_context("spawn")
    started: list[BaseProcess] = []
    try:
        for rank in range(1, world):
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            started.append(context.Process(target=target, args=(rank, *arguments), name=f"rank {rank}"))
            started[-1].start()
        os.environ.update(RANK="0", LOCAL_RANK="0")
        yield
        for process in started:
            process.join(JOIN_S)
        wrong = [f"{process.name} ended with {process.exitcode}" for process in started if process.exitcode != 0]
        if wrong:
            raise ConflictError(f"ranks: {', '.join(wrong)}. What they said is above; resume the run.")
    finally:
        for process in started:
            if process.is_alive():
                process.terminate()
                process.join(JOIN_S)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _address(world: int) -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world), "NODE_RANK": "0"}


def from_first(value: Any) -> Any:
    """Return what rank 0 passed, on every rank: plain types."""
    if not dist.is_initialized():
        return value
    held = [value]
    dist.broadcast_object_list(held, src=0, device=torch.device("cpu"))
    return held[0]


def any_rank(flag: bool) -> bool:
    """Say whether any rank passed True, the same on all."""
    if not dist.is_initialized():
        return flag
    value = torch.tensor(int(flag))
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return bool(value)


def mean_over_ranks(value: float) -> float:
    """Return the mean of a number over all ranks, the same on all."""
    if not dist.is_initialized():
        return value
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def require_agreement(value: Any, what: str) -> None:
    """Refuse results that differ between ranks.

    Args:
        value: Plain JSON types; floats are compared to the last bit.
        what: Named in the error.

    Raises:
        ConflictError: Naming the ranks that differ from rank 0.
    """
    if not dist.is_initialized():
        return
    own = sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, own)
    wrong = [str(rank) for rank, digest in enumerate(found) if digest != found[0]]
    if wrong:
        raise ConflictError(f"{what}: rank {', '.join(wrong)} came to other numbers than rank 0. Use equal machines and threads per rank.")
