"""Evaluation of a checkpoint, on either format, from the run folder alone."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from egodata.catalog import Manifest, load_dataset
from egodata.errors import NotFoundError
from egodata.progress import Progress, silent
from egodata.schema.layout import StorePaths, open_root
from egotrain.build import quiet
from egotrain.checkpoint import Carried, check_carried, find_checkpoint, load_checkpoint, load_weights
from egotrain.conf import EvaluateConfig, FitConfig
from egotrain.data import check_dims, policy_dims
from egotrain.datasets import RunDataset
from egotrain.evaluation import HeadScores, evaluate_heads
from egotrain.module import TrainModule
from egotrain.numerics import device_for, fixed_numerics
from egotrain.opening import describe_heads
from egotrain.policies.registry import build_policy
from egotrain.run_data import RunData, open_data, pins_of
from egotrain.runs import VIDEOS, open_run
from egotrain.videos import head_videos

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Opened:
    """A checkpoint with the dataset it was trained on.

    Attributes:
        folder: Of the run.
        config: Of the run, with what the evaluation changes.
        carried: What the checkpoint carries.
        data: Open sources.
        module: The policy with its weights.
        pins: Episodes shown, by head.
    """

    folder: Path
    config: FitConfig
    carried: Carried
    data: RunData
    module: TrainModule
    pins: dict[str, tuple[str, ...]]


def evaluate(run: Path, config: EvaluateConfig, *, say: Say = quiet, progress: Progress = silent) -> dict[str, HeadScores]:
    """Score a checkpoint on heads of the dataset that it was trained on; two calls give the same numbers.

    Args:
        run: The run's folder, ``STORE/runs/NAME``.
        config: What differs from the run.
        say: Told in lines what is done.
        progress: Told how many frames are done.

    Raises:
        NotFoundError: No such run, checkpoint, dataset or head.
        InputError: The checkpoint cannot be read.
        ConfigError: Checkpoint and dataset do not belong together.
        GateError: A pin is not in its head.
    """
    with opened(run, config, say=say) as found:
        evaluation = found.config.evaluation
        scores = evaluate_heads(found.module, found.data, config=evaluation, shuffle_images=config.shuffle_images, progress=progress)
        out = found.folder / VIDEOS / f"eval-{found.carried.step:08d}-{found.config.format}"
        for head, pins in found.pins.items():
            if pins:
                written = head_videos(
                    found.module, found.data, head=head, pins=pins, out=out, batch_size=evaluation.batch_size, progress=progress
                )
                say("\n".join(f"video: {path}" for path in written))
        return scores


@contextmanager
def opened(run: Path, config: EvaluateConfig, *, say: Say = quiet) -> Iterator[Opened]:
    """Open a run's checkpoint and dataset; the numerics of the run hold as long as the context. See `evaluate` for what it raises."""
    folder = open_run(run)
    path = find_checkpoint(folder / "checkpoints", config.checkpoint)
    carried = load_checkpoint(path)
    fit_config = _merged(carried, config)
    paths = open_root(folder.absolute().parents[1])
    datasets = carried_datasets(paths, carried, format=fit_config.format)
    check_carried(carried, datasets)
    stats = [part.stats for part in carried.parts]
    data = open_data(paths, datasets, stats=stats, config=fit_config, with_train=fit_config.evaluation.baselines)
    try:
        if not data.scored:
            wanted = ", ".join(fit_config.evaluation.heads)
            known = "; ".join(f"{one.manifest.ref} has {', '.join(one.manifest.heads)}" for one in datasets)
            raise NotFoundError(f"run {folder.name}: none of the heads {wanted}; dataset {known}")
        pins = pins_of(paths, data, config=fit_config.evaluation)
        refs, heads = " and ".join(one.manifest.ref for one in datasets), ", ".join(data.scored)
        say(f"run {folder.name}: step {carried.step} ({path.name}) on {refs}, {fit_config.format}, heads {heads}")
        for line in describe_heads(data, fit_config):
            say(line)
        with fixed_numerics(fit_config.trainer.threads):
            yield Opened(folder, fit_config, carried, data, restore(carried, data, config=fit_config), pins)
    finally:
        data.close()


def carried_datasets(paths: StorePaths, carried: Carried, *, format: str) -> tuple[RunDataset, ...]:
    """Load the datasets of a checkpoint, to be read under the recipes that it carries, whatever became of their files."""
    weights = (1.0, *(one.weight for one in carried.config.co_train))
    named = (carried.config.dataset, *(one.dataset for one in carried.config.co_train))
    return tuple(
        RunDataset(_dataset(paths, part.dataset, named=name, format=format), part.recipe, weight)
        for part, name, weight in zip(carried.parts, named, weights, strict=True)
    )


def _dataset(paths: StorePaths, carried: Mapping[str, str], *, named: str, format: str) -> Manifest:
    """Load a dataset of a checkpoint from the store, else from the manifest whose path the run was given."""
    try:
        found = load_dataset(paths, carried["dataset"], format=format)
    except NotFoundError:
        if named == carried["dataset"]:
            raise
    else:
        if found.digest == carried["digest"] or named == carried["dataset"]:
            return found
    return load_dataset(paths, named, format=format)


def restore(carried: Carried, data: RunData, *, config: FitConfig) -> TrainModule:
    """Build the policy of a checkpoint with its weights.

    Raises:
        ConfigError: The data has other sizes.
    """
    dims = policy_dims([next(iter(part.sources.values())) for part in data.parts if part.sources], config.data)
    check_dims(carried.dims, dims, what=f"checkpoint of step {carried.step}")
    return restored(carried, config=config)


def restored(carried: Carried, *, config: FitConfig) -> TrainModule:
    """Build the policy of a checkpoint with its weights, for the sizes that it was built for."""
    policy = build_policy(config.policy, carried.dims)
    load_weights(policy, carried)
    return TrainModule(policy, carried.dims, config=config, carried={}).to(device_for(config.trainer.accelerator))


def _merged(carried: Carried, changes: EvaluateConfig) -> FitConfig:
    """Return a run's config with what an evaluation changes."""
    config, refs = carried.config, [part.dataset["dataset"] for part in carried.parts]
    named = {name: value for name, value in asdict(changes).items() if value is not None}
    evaluation: dict[str, Any] = {name: named[name] for name in ("heads", "samples_per_head", "videos") if name in named}
    if "heads" in evaluation:  # pins of heads that are not asked for; a bare name asks for that head of every dataset
        heads = evaluation["heads"]
        pinned = {*heads, *(f"{ref}:{head}" for ref in refs for head in heads)}
        evaluation["pins"] = tuple(pin for pin in config.evaluation.pins if pin.rpartition("/")[0] in pinned)
    trainer = replace(config.trainer, threads=named.get("threads", config.trainer.threads))
    return replace(config, format=named.get("format", config.format), trainer=trainer, evaluation=replace(config.evaluation, **evaluation))
