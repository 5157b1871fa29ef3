"""A run on one or several ranks, started from here or by a launcher."""

import os
from collections.abc import Callable
from pathlib import Path

from egodata.errors import ConfigError
from egodata.progress import Progress, silent
from egodata.schema.layout import StorePaths, open_root
from egotrain.conf import FitConfig
from egotrain.datasets import RunDataset, load_datasets
from egotrain.numerics import uses_gpu
from egotrain.ranks import Ranks, joined, outside_ranks, siblings
from egotrain.runs import RunResult, finished, run_folder
from egotrain.training import Training

Say = Callable[[str], None]


def lead(
    paths: StorePaths, datasets: tuple[RunDataset, ...], *, folder: Path, config: FitConfig, say: Say, progress: Progress
) -> RunResult:
    """Train as rank 0: with ranks that a launcher started, with ranks started here, or alone.

    Raises:
        ConfigError: A launcher started another number of ranks on this machine than `trainer.devices`.
    """
    ranks, devices = outside_ranks(), config.trainer.devices
    if ranks is not None and ranks.world > 1:
        here = int(os.environ.get("LOCAL_WORLD_SIZE", devices))
        if here != devices:
            raise ConfigError(f"trainer.devices {devices}: the launcher started {here} ranks on this machine. Set trainer.devices={here}.")
        return _train(paths, datasets, folder, config, ranks=ranks, say=say, progress=progress)
    if devices == 1:
        return Training(paths, datasets, folder, config, say).run(progress)
    with siblings(devices, follow_as, config):
        return _train(paths, datasets, folder, config, ranks=Ranks(0, devices), say=say, progress=progress)


def follow(config: FitConfig) -> RunResult:
    """Train as the rank that a launcher said; the first rank has the folder, checks what can be checked and writes."""
    ranks = outside_ranks() or Ranks()
    paths = open_root(Path(config.store).expanduser())
    datasets = load_datasets(paths, config)
    folder = run_folder(paths, config.run)
    result = finished(folder)
    if result is not None:
        return RunResult(config.run, folder, already_done=True, result=result)
    return _train(paths, datasets, folder, config, ranks=ranks, say=_quiet, progress=silent)


def follow_as(rank: int, config: FitConfig) -> None:
    """Train as one of the ranks that rank 0 started; the process ends with what stopped it."""
    follow(config)


def _train(
    paths: StorePaths, datasets: tuple[RunDataset, ...], folder: Path, config: FitConfig, *, ranks: Ranks, say: Say, progress: Progress
) -> RunResult:
    with joined(ranks, gpu=uses_gpu(config.trainer.accelerator)):
        return Training(paths, datasets, folder, config, say, ranks).run(progress)


def _quiet(line: str) -> None:
    """Say nothing: rank 0 says it."""
