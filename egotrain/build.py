"""A training run from its config to its result. `egotrain fit` and the pipelines call `fit`."""

import os
from collections.abc import Callable
from pathlib import Path

from egodata.errors import ConflictError
from egodata.progress import Progress, silent
from egodata.schema.layout import open_root, require_writable
from egotrain.conf import FitConfig
from egotrain.datasets import leases, load_datasets
from egotrain.runs import CONFIG, RESULT, RunResult, check_same, clear_attempt, finished, only_one, run_folder, was_begun

Say = Callable[[str], None]


def quiet(line: str) -> None:
    """Say nothing: the default of library calls."""


def fit(config: FitConfig, *, say: Say = quiet, progress: Progress = silent) -> RunResult:
    """Train a policy on one or several frozen datasets, or go on with an unfinished run, or report a finished one.

    Args:
        config: The whole run.
        say: Told in lines what is done.
        progress: Told how far statistics and evaluation have come.

    Returns:
        The finished run; `already_done` if it was finished before, with the same config and dataset.

    Raises:
        NotFoundError: No such store, dataset, head or recipe.
        GateError: A dataset was changed since it was frozen, or trains on what another one holds out.
        RecipeError: The recipe does not fit the dataset's episodes.
        ConfigError: The run exists with another config or dataset, or policy and data have other sizes.
        ConflictError: The run exists unfinished and `resume` is off, or another process trains it.
    """
    paths = open_root(Path(config.store).expanduser())
    datasets = load_datasets(paths, config)
    folder = run_folder(paths, config.run)
    if os.environ.get("RANK", "0") != "0":  # started by torchrun: rank 0 does what follows for all
        from egotrain.launch import follow

        return follow(config)
    begun = (folder / CONFIG).is_file() and was_begun(folder)
    if begun:
        check_same(folder, config, datasets=datasets)
        result = finished(folder)
        if result is not None:
            say(f"run {config.run}: already done, {result['steps']} steps on {config.dataset}; its result is in {folder / RESULT}")
            return RunResult(config.run, folder, already_done=True, result=result)
        if not config.resume:
            raise ConflictError(f"run {config.run}: exists and is not finished. Add resume=true to go on with it, or choose another name.")
    require_writable(paths)
    from egotrain.launch import lead  # torch and the trainer are loaded for runs that are not done yet

    with only_one(folder), leases(paths, datasets):
        if not begun and (folder / CONFIG).is_file():
            say(f"run {config.run}: an earlier attempt stopped before its first checkpoint; begun anew")
            clear_attempt(folder)
        return lead(paths, datasets, folder=folder, config=config, say=say, progress=progress)
