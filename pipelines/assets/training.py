"""Training runs: launched as a subprocess, reported with what they were made from."""

import json
import sys
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from egodata.catalog import load_dataset
from egodata.schema.layout import StorePaths
from pipelines.assets.datasets import DATASET, LOADER_PARITY, NORM_STATS
from pipelines.gates import require_loader_parity
from pipelines.metadata import run_metadata
from pipelines.resources import StoreResource
from pipelines.server import environment

TRAINING_RUN = dg.AssetKey("training_run")


class TrainingConfig(dg.Config):
    """What `egotrain fit` is given.

    Attributes:
        run: Name of the run folder.
        experiment: Shipped experiment.
        dataset: ``name@version``.
        recipe: Recipe of the experiment, whose loader parity must have passed.
        format: ``zarr`` or ``lance``.
        overrides: Further ``key=value`` words.
    """

    run: str
    experiment: str
    dataset: str
    recipe: str
    format: str = "zarr"
    overrides: list[str] = Field(default_factory=list)

    def command(self, paths: StorePaths) -> list[str]:
        """Return the command line of the run."""
        given = {
            "experiment": self.experiment,
            "store": paths.root,
            "dataset": self.dataset,
            "recipe": self.recipe,
            "format": self.format,
            "run": self.run,
            "resume": "true",  # a run that was killed goes on; one that is finished or new is not touched by it
        }
        return [sys.executable, "-m", "egotrain", "fit", *(f"{key}={value}" for key, value in given.items()), *self.overrides]


def run_result(paths: StorePaths, run: str) -> dict[str, Any] | None:
    """Read the result of a finished run; None if there is none."""
    path: Path = paths.runs / run / "result.json"
    return json.loads(path.read_text()) if path.exists() else None


@dg.asset(
    key=TRAINING_RUN,
    deps=[DATASET, NORM_STATS, LOADER_PARITY],
    group_name="training",
    kinds={"pytorch"},
    code_version="1",
    description="A policy trained on a frozen dataset by `egotrain fit`, in its own process. Starts only if loader parity passed.",
)
def training_run(
    context: dg.AssetExecutionContext, config: TrainingConfig, store: StoreResource, pipes: dg.PipesSubprocessClient
) -> dg.MaterializeResult[None]:
    """Train, then report dataset, metrics and checkpoint."""
    paths = store.paths()
    manifest = load_dataset(paths, config.dataset)
    require_loader_parity(paths, manifest, recipe=config.recipe)
    extras = {"dataset_digest": manifest.digest}
    reported = pipes.run(context=context, command=config.command(paths), env=environment(paths), extras=extras).get_materialize_result()
    result = run_result(paths, config.run)
    if result is None:
        raise dg.Failure(f"run {config.run}: ended without a result. See {paths.runs / config.run}.")
    return dg.MaterializeResult(metadata={**(reported.metadata or {}), **run_metadata(paths.runs / config.run, result)})
