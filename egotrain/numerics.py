"""What a run's numbers depend on besides its config: threads, instruction set, versions, source code."""

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from egodata.sampling.seeds import derive_seed

PACKAGES = ("egodata", "torch", "lightning", "numpy", "zarr", "pylance", "av", "hydra-core")
GIT_TIMEOUT_S = 20


@contextmanager
def fixed_numerics(threads: int) -> Iterator[None]:
    """Fix the number of CPU threads and ask for deterministic algorithms, as long as the context lasts."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs to be deterministic, read when a GPU is first used
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


def generator(base: int, *parts: int | str) -> torch.Generator:
    """Return a CPU generator that follows from a base seed and what it is for, such as ``(step, rank, "noise")``."""
    return torch.Generator().manual_seed(derive_seed(base, *parts))


@contextmanager
def seeded_dropout(base: int, *parts: int | str) -> Iterator[None]:
    """Seed torch's own generators for dropout, which takes no other, and put them back afterwards."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(derive_seed(base, *parts, "dropout"))
        yield


def uses_gpu(accelerator: str) -> bool:
    """Say whether a run with this setting computes on a GPU."""
    return accelerator == "gpu" or (accelerator == "auto" and torch.cuda.is_available())


def device_for(accelerator: str, *, rank: int = 0) -> torch.device:
    """Return the device that a run with this setting computes on."""
    return torch.device("cuda", rank % max(1, torch.cuda.device_count())) if uses_gpu(accelerator) else torch.device("cpu")


def environment() -> dict[str, Any]:
    """Return versions, machine and threads as plain types."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "packages": {name: _version(name) for name in PACKAGES},
        "git": git_revision(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def git_revision() -> dict[str, Any] | None:
    """Return revision and whether tracked files differ from it; None where this package is not in a git checkout."""
    revision = _git("rev-parse", "HEAD")
    return None if revision is None else {"revision": revision, "changed": bool(_git("status", "--porcelain", "--untracked-files=no"))}


def code_changes() -> str:
    """Return how tracked files differ from the revision, as a patch; empty where they do not or where there is no git checkout."""
    return _git("diff", "HEAD") or ""


def _git(*words: str) -> str | None:
    """Ask git about the checkout that this file is in; None where it is in none."""
    command = ["git", "-C", str(Path(__file__).parent)]

    def run(*more: str) -> str:
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=True, timeout=GIT_TIMEOUT_S, errors="replace")
        return done.stdout.rstrip("\n")

    try:
        run("ls-files", "--error-unmatch", Path(__file__).name)
        return run(*words)
    except (OSError, subprocess.SubprocessError):
        return None
