"""Training runs: launched as a subprocess, reported with what they were made from."""

import hashlib
import json
import logging
import sys
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from pydantic import Field

from egodata.catalog import load_dataset
from egodata.config import config_root
from egodata.schema.layout import StorePaths, write_atomic
from pipelines.assets.datasets import DATASET, LOADER_PARITY, NORM_STATS
from pipelines.events import event_tags
from pipelines.gates import require_loader_parity
from pipelines.instance import environment
from pipelines.metadata import run_metadata
from pipelines.provenance import provenance_of
from pipelines.resources import OWNER, StoreResource

log = logging.getLogger(__name__)

GATED = ("dataset", "recipe", "co_train", "store", "run")
RESULT_TAG = "egodata/result"
TRAINING_RUN = dg.AssetKey("training_run")


class CoTraining(dg.Config):
    """One more dataset of a run.

    Attributes:
        dataset: ``name@version``.
        recipe: Whose loader parity must have passed for it.
        weight: How often it is read, relative to the first dataset.
    """

    dataset: str
    recipe: str
    weight: float = 1.0

    def word(self) -> str:
        """Return it as the command line takes it, with names in quotes."""
        dataset, recipe = (name.replace("\\", "\\\\").replace("'", "\\'") for name in (self.dataset, self.recipe))
        return f"{{dataset: '{dataset}', recipe: '{recipe}', weight: {self.weight!r}}}"


class TrainingConfig(dg.Config):
    """What `egotrain fit` is given.

    Attributes:
        run: Name of the run folder.
        experiment: Shipped experiment.
        dataset: ``name@version``.
        recipe: Recipe of the experiment, whose loader parity must have passed.
        format: ``zarr`` or ``lance``.
        co_train: Further datasets that are trained on in the same run.
        overrides: Further ``key=value`` words, but not of datasets: those pass the gates only under the names above.
    """

    run: str
    experiment: str
    dataset: str
    recipe: str
    format: str = "zarr"
    co_train: list[CoTraining] = Field(default_factory=list)
    overrides: list[str] = Field(default_factory=list)

    def trained_on(self) -> list[tuple[str, str]]:
        """Return every dataset with its recipe."""
        return [(self.dataset, self.recipe), *((one.dataset, one.recipe) for one in self.co_train)]

    def command(self, paths: StorePaths) -> list[str]:
        """Return the command line of the run.

        Raises:
            Failure: An override names a dataset or recipe, which would pass no gate; the experiment has further datasets and none is
                named here.
        """
        further = _experiment_datasets(self.experiment)
        if further and not self.co_train:
            raise dg.Failure(
                f"experiment {self.experiment} also trains on {', '.join(further)}. Name what is meant in the config's own co_train, "
                "so that it is gated, or choose another experiment."
            )
        hidden = [word for word in self.overrides if word.partition("=")[0] in GATED]
        if hidden:
            raise dg.Failure(f"overrides: {hidden[0]} belongs into the config's own {hidden[0].partition('=')[0]}, so that it is gated")
        given = {
            "experiment": self.experiment,
            "store": paths.root,
            "dataset": self.dataset,
            "recipe": self.recipe,
            "format": self.format,
            "run": self.run,
            "co_train": f"[{', '.join(one.word() for one in self.co_train)}]",
            "resume": "true",  # a run that was killed goes on; one that is finished or new is not touched by it
        }
        return [sys.executable, "-m", "egotrain", "fit", *(f"{key}={value}" for key, value in given.items()), *self.overrides]


def _experiment_datasets(experiment: str) -> list[str]:
    """Return the further datasets that a shipped experiment trains on; none where there is no such experiment, which `egotrain` says."""
    path = config_root() / "experiment" / f"{experiment}.yaml"
    values = yaml.safe_load(path.read_text()) if path.is_file() else None
    return [str(one["dataset"]) for one in (values or {}).get("co_train", ())]


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
    answered, digests = require_all(paths, config.trained_on())
    extras = {"dataset_digest": digests[0], **answered}
    reported = pipes.run(context=context, command=config.command(paths), env=environment(paths), extras=extras).get_materialize_result()
    result = run_result(paths, config.run)
    if result is None:
        raise dg.Failure(f"run {config.run}: ended without a result. See {paths.runs / config.run}.")
    keep_note(paths, config.run, note={"run_id": context.run.run_id, **provenance_of(context, []), **answered})
    metadata = {**(reported.metadata or {}), **run_metadata(paths.runs / config.run, result)}
    return dg.MaterializeResult(metadata=metadata, tags={RESULT_TAG: result_tag(paths, config.run)})


def require_all(paths: StorePaths, datasets: Sequence[tuple[str, str]]) -> tuple[dict[str, Any], list[str]]:
    """Ask for loader parity of every dataset under its recipe; return the waivers that were used, and the digests.

    Raises:
        Failure: One of them failed or was never checked, and is not waived.
    """
    manifests = [load_dataset(paths, dataset) for dataset, _ in datasets]
    answers = [require_loader_parity(paths, manifest, recipe=recipe) for manifest, (_, recipe) in zip(manifests, datasets, strict=True)]
    waivers = [waiver for answer in answers for waiver in answer.get("waivers", [])]
    return ({"waivers": waivers} if waivers else {}), [manifest.digest for manifest in manifests]


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
