"""The work of one run: open the data, build the policy, take the steps, score, write the result."""

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lightning

from egodata.catalog import Manifest
from egodata.progress import Progress
from egodata.sampling import load_recipe
from egodata.schema.layout import StorePaths
from egodata.stats import norm_stats
from egodata.torch import make_loader
from egotrain.callbacks import Checkpoints, PeriodicEvaluation, StepReport, rows_of
from egotrain.checkpoint import Carried, carried_values, check_carried, find_checkpoint, load_checkpoint, load_weights, newest_checkpoint
from egotrain.conf import FitConfig
from egotrain.data import RunData, TrainStream, check_dims, open_sources, policy_dims
from egotrain.evaluation import HeadScores, evaluate_heads
from egotrain.gradients import GradientReport
from egotrain.module import TrainModule
from egotrain.numerics import environment, fixed_numerics, seeded_dropout
from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.architectures import embedded
from egotrain.policies.registry import build_policy, check_policy
from egotrain.runs import METRICS, RESULT, RESULT_SCHEMA, MetricsFile, RunResult, describe_run, write_json

CHECKPOINTS = "checkpoints"
SHOWN_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class Training:
    """One run in a folder that nobody else uses.

    Attributes:
        paths: The store.
        manifest: The frozen dataset.
        folder: Of the run.
        config: The whole run.
        say: Told in lines what is done.
    """

    paths: StorePaths
    manifest: Manifest
    folder: Path
    config: FitConfig
    say: Callable[[str], None]

    def run(self, progress: Progress) -> RunResult:
        """Do what `egotrain.build.fit` says."""
        with fixed_numerics(self.config.trainer.threads):
            carried = self._resumed()
            data = self._open(progress, carried)
            try:
                return self._train(data, carried, progress)
            finally:
                data.close()

    def _resumed(self) -> Carried | None:
        path = newest_checkpoint(self.folder / CHECKPOINTS, say=self.say)
        if path is None:
            return None
        carried = load_checkpoint(path)
        self.say(f"run {self.config.run}: going on from step {carried.step} of {self.config.trainer.max_steps} ({path.name})")
        return carried

    def _open(self, progress: Progress, carried: Carried | None) -> RunData:
        config, recipe = self.config, load_recipe(self.config.recipe)
        if carried is None:
            stats = norm_stats(self.paths, self.manifest, recipe=recipe, format=config.format, progress=progress)
        else:
            stats = carried.stats
        heads = tuple(dict.fromkeys(("train", *config.evaluation.heads)))
        sources = open_sources(self.paths, self.manifest, recipe=recipe, heads=heads, stats=stats, config=config)
        data = RunData(self.manifest, recipe, stats, sources)
        self._describe(data)
        return data

    def _describe(self, data: RunData) -> None:
        config, train = self.config, data.sources["train"]
        flat = data.stats.flat_channels(config.data.normalisation)
        cached = " (cached)" if data.stats.cached else ""
        dataset = f"{self.manifest.ref} ({self.manifest.digest[:16]})"
        self.say(f"run {config.run}: {dataset} on {config.format}, statistics {data.stats.key[:16]}{cached}")
        for head, source in data.sources.items():
            reasons = ", ".join(f"{count} {reason}" for reason, count in source.excluded.items())
            self.say(f"{head}: {len(source.episodes)} episodes, {len(source)} frames; excluded: {reasons or 'none'}")
        empty = train.empty_prompt_share()
        note = ". Every prompt is empty: the policy learns nothing from language" if empty == 1.0 else ""
        self.say(f"prompts: {empty:.1%} of the training frames have none{note}")
        if flat:
            more = f" and {len(flat) - SHOWN_CHANNELS} more" if len(flat) > SHOWN_CHANNELS else ""
            self.say(f"normalisation: without scale: {'; '.join(str(channel) for channel in flat[:SHOWN_CHANNELS])}{more}")
        absent = [head for head in config.evaluation.heads if head not in self.manifest.heads]
        if absent:
            self.say(f"evaluation: the dataset has no head {', '.join(absent)}; left out")

    def _train(self, data: RunData, carried: Carried | None, progress: Progress) -> RunResult:
        config = self.config
        dims = policy_dims(data.sources["train"], config.data)
        check_policy(config.policy, dims)
        if carried is not None:
            check_carried(carried, self.manifest)
            check_dims(carried.dims, dims, what=f"run {config.run}, checkpoint of step {carried.step}")
        loader = make_loader(data.sources["train"], batch_size=config.data.batch_size, num_workers=config.data.num_workers)
        stream = TrainStream(loader, start_step=0 if carried is None else carried.step, max_steps=config.trainer.max_steps)
        metrics = MetricsFile(self.folder / METRICS)
        if carried is None:
            (self.folder / METRICS).unlink(missing_ok=True)
            describe_run(self.folder, config, manifest=self.manifest, stats=data.stats, environment=environment())
        else:
            metrics.cut_after(carried.step)
        return self._run_steps(self._module(data, dims), data, stream, metrics=metrics, progress=progress)

    def _module(self, data: RunData, dims: PolicyDims) -> TrainModule:
        config = self.config
        with seeded_dropout(config.seed, "weights"):
            policy = build_policy(config.policy, dims, pretrained=True)
        count = sum(parameter.numel() for parameter in policy.parameters() if parameter.requires_grad)
        self.say(f"policy {config.policy.name}: {count:,} parameters, {config.trainer.threads} threads")
        dataset = {"dataset": self.manifest.ref, "digest": self.manifest.digest}
        values = carried_values(
            asdict(replace(config, policy=embedded(config.policy))), dims=dims, recipe=data.recipe, stats=data.stats, dataset=dataset
        )
        return TrainModule(policy, dims, config=config, carried=values)

    def _run_steps(self, module: TrainModule, data: RunData, stream: TrainStream, *, metrics: MetricsFile, progress: Progress) -> RunResult:
        config, trainer_config = self.config, self.config.trainer
        report = StepReport(metrics, stream, every_steps=trainer_config.log_every_steps, batch_size=config.data.batch_size, say=self.say)

        def evaluate() -> dict[str, HeadScores]:
            return evaluate_heads(module, data, config=config.evaluation, progress=progress)

        folder = self.folder / CHECKPOINTS
        folder.mkdir(exist_ok=True)
        callbacks = [
            report,
            GradientReport(module.watch, metrics, every_steps=trainer_config.log_every_steps, say=self.say),
            PeriodicEvaluation(metrics, evaluate, every_steps=trainer_config.evaluate_every_steps),
            Checkpoints(folder, every_steps=trainer_config.checkpoint_every_steps),
        ]
        if stream.start_step < trainer_config.max_steps:
            with _quiet_lightning():
                start = str(find_checkpoint(folder)) if stream.start_step else None
                _trainer(config, callbacks).fit(module, stream, ckpt_path=start, weights_only=True)
        else:
            load_weights(module.policy, load_checkpoint(find_checkpoint(folder)))
        scores = evaluate()
        metrics.add(trainer_config.max_steps, rows_of(scores))
        return self._finish(data, report, scores, loss=metrics.last("train", "loss"))

    def _finish(self, data: RunData, report: StepReport, scores: dict[str, HeadScores], *, loss: float) -> RunResult:
        result: dict[str, Any] = {
            "schema": RESULT_SCHEMA,
            "run": self.config.run,
            "dataset": self.manifest.ref,
            "dataset_digest": self.manifest.digest,
            "format": self.config.format,
            "recipe": data.recipe.name,
            "seed": self.config.seed,
            "steps": self.config.trainer.max_steps,
            "stats_key": data.stats.key,
            "train_loss": loss,
            "train_loss_hex": loss.hex(),
            "heads": {head: found.to_json() for head, found in scores.items()},
            "train_s": round(report.train_s, 3),
            "samples_per_s": round(report.steps * self.config.data.batch_size / max(report.train_s, 1e-9), 1),
            "data_wait_share": round(report.wait_s / max(report.train_s, 1e-9), 3),
            "checkpoint": find_checkpoint(self.folder / CHECKPOINTS).name,
        }
        write_json(self.folder / RESULT, result)
        return RunResult(self.config.run, self.folder, already_done=False, result=result)


def _trainer(config: FitConfig, callbacks: list[Any]) -> lightning.Trainer:
    return lightning.Trainer(
        max_steps=config.trainer.max_steps,
        max_epochs=1,
        accelerator=config.trainer.accelerator,
        devices=1,
        deterministic=True,
        precision="bf16-mixed" if config.trainer.precision == "bf16" else "32-true",
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=sys.stderr.isatty(),
        num_sanity_val_steps=0,
        callbacks=callbacks,
    )


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Keep the framework's advice that does not apply here out of the way, and let Ctrl-C be one.

    Our loader resumes by itself, and logs are our own. The trainer answers Ctrl-C with SystemExit and ignores the signal from then on.
    """
    logger = logging.getLogger("lightning.pytorch")
    level, handler = logger.level, signal.getsignal(signal.SIGINT)
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning.*")
            warnings.filterwarnings("ignore", message=".*dataloader is not resumable.*")
            yield
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from stop
        raise
    finally:
        logger.setLevel(level)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
