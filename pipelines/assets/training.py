"""Training runs: launched as a subprocess, reported with what they were made from."""

import hashlib
import json
import logging
import sys
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from egodata.catalog import load_dataset
from egodata.schema.layout import StorePaths, write_atomic
from pipelines.assets.datasets import DATASET, LOADER_PARITY, NORM_STATS
from pipelines.events import event_tags
from pipelines.gates import require_loader_parity
from pipelines.instance import environment
from pipelines.metadata import run_metadata
from pipelines.provenance import provenance_of
from pipelines.resources import OWNER, StoreResource

log = logging.getLogger(__name__)

RESULT_TAG = "egodata/result"
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
    owners=[OWNER],
    code_version="1",
    description="A policy trained on a frozen dataset by `egotrain fit`, in its own process. Starts only if loader parity passed.",
)
def training_run(
    context: dg.AssetExecutionContext, config: TrainingConfig, store: StoreResource, pipes: dg.PipesSubprocessClient
) -> dg.MaterializeResult[None]:
    """Train, then report dataset, metrics and checkpoint."""
    paths = store.paths()
    manifest = load_dataset(paths, config.dataset)
    answered = require_loader_parity(paths, manifest, recipe=config.recipe)
    extras = {"dataset_digest": manifest.digest, **answered}
    reported = pipes.run(context=context, command=config.command(paths), env=environment(paths), extras=extras).get_materialize_result()
    result = run_result(paths, config.run)
    if result is None:
        raise dg.Failure(f"run {config.run}: ended without a result. See {paths.runs / config.run}.")
    keep_note(paths, config.run, note={"run_id": context.run.run_id, **provenance_of(context, []), **answered})
    metadata = {**(reported.metadata or {}), **run_metadata(paths.runs / config.run, result)}
    return dg.MaterializeResult(metadata=metadata, tags={RESULT_TAG: result_tag(paths, config.run)})


def keep_note(paths: StorePaths, run: str, *, note: Mapping[str, Any]) -> None:
    """Leave in the run's folder which Dagster run made it, and what was waived for it."""
    write_atomic(paths.runs / run / "dagster.json", json.dumps(dict(note), indent=1, sort_keys=True).encode() + b"\n")


def result_tag(paths: StorePaths, run: str) -> str:
    """Return what tells one result of a run from another: the digest of its file."""
    return hashlib.sha256((paths.runs / run / "result.json").read_bytes()).hexdigest()[:32]


def reported_runs(instance: dg.DagsterInstance) -> set[str]:
    """Return the tags of all results that Dagster knows."""
    known, cursor = set(), None
    while True:
        page = instance.fetch_materializations(TRAINING_RUN, limit=500, cursor=cursor)
        known |= {tag for record in page.records if (tag := event_tags(record).get(RESULT_TAG))}
        if not page.has_more:
            return known
        cursor = page.cursor


def unreported_runs(paths: StorePaths, known: Container[str]) -> list[dg.AssetMaterialization]:
    """Return an event for every finished run of the store that Dagster does not know, as if it had started it.

    A folder whose result cannot be read is logged and left for the next look.
    """
    events = []
    for path in sorted(paths.runs.glob("*/result.json")):
        run = path.parent.name
        try:
            tag, result = result_tag(paths, run), json.loads(path.read_text())
            if tag not in known:
                metadata = {**run_metadata(path.parent, result), "started": "outside Dagster"}
                events.append(dg.AssetMaterialization(TRAINING_RUN, metadata=metadata, tags={RESULT_TAG: tag}))
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("run %s: not reported: %r", run, error)
    return events
