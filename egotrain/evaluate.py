"""Evaluation of a checkpoint, on either format, from the run folder alone."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from egodata.catalog import load_dataset
from egodata.progress import Progress, silent
from egodata.schema.layout import open_root
from egotrain.build import quiet
from egotrain.checkpoint import Carried, check_carried, find_checkpoint, load_checkpoint, load_weights
from egotrain.conf import EvaluateConfig, FitConfig
from egotrain.data import RunData, check_dims, open_sources, policy_dims
from egotrain.evaluation import HeadScores, evaluate_heads
from egotrain.module import TrainModule
from egotrain.numerics import fixed_numerics
from egotrain.policies.registry import build_policy
from egotrain.runs import open_run


def evaluate(
    run: Path, config: EvaluateConfig, *, say: Callable[[str], None] = quiet, progress: Progress = silent
) -> dict[str, HeadScores]:
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
    """
    folder = open_run(run)
    path = find_checkpoint(folder / "checkpoints", config.checkpoint)
    carried = load_checkpoint(path)
    fit_config = _merged(carried.config, config)
    paths = open_root(folder.absolute().parents[1])
    manifest = load_dataset(paths, carried.dataset["dataset"], format=fit_config.format)
    check_carried(carried, manifest)
    heads, stats = fit_config.evaluation.heads, carried.stats
    sources = open_sources(paths, manifest, recipe=carried.recipe, heads=heads, stats=stats, config=fit_config)
    data = RunData(manifest, carried.recipe, carried.stats, sources)
    say(f"run {folder.name}: step {carried.step} ({path.name}) on {manifest.ref}, {fit_config.format}, heads {', '.join(sources)}")
    try:
        with fixed_numerics(fit_config.trainer.threads):
            module = restore(carried, data, config=fit_config)
            return evaluate_heads(module, data, config=fit_config.evaluation, shuffle_images=config.shuffle_images, progress=progress)
    finally:
        data.close()


def restore(carried: Carried, data: RunData, *, config: FitConfig) -> TrainModule:
    """Build the policy of a checkpoint with its weights.

    Raises:
        ConfigError: The data has other sizes.
    """
    dims = policy_dims(next(iter(data.sources.values())), config.data)
    check_dims(carried.dims, dims, what=f"checkpoint of step {carried.step}")
    policy = build_policy(config.policy, dims)
    load_weights(policy, carried)
    return TrainModule(policy, dims, config=config, carried={})


def _merged(config: FitConfig, changes: EvaluateConfig) -> FitConfig:
    """Return a run's config with what an evaluation changes."""
    named = {name: value for name, value in asdict(changes).items() if value is not None}
    evaluation: dict[str, Any] = {name: named[name] for name in ("heads", "samples_per_head") if name in named}
    trainer = replace(config.trainer, threads=named.get("threads", config.trainer.threads))
    return replace(config, format=named.get("format", config.format), trainer=trainer, evaluation=replace(config.evaluation, **evaluation))
