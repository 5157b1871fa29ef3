"""The work of one run: open the data, build the policy, take the steps, score, write the result."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from egodata.progress import Progress
from egodata.schema.layout import StorePaths
from egotrain.callbacks import Checkpoints, PeriodicEvaluation, StepReport, Stopped, rows_of
from egotrain.card import write_card
from egotrain.checkpoint import (
    Carried,
    CarriedPart,
    carried_values,
    check_carried,
    find_checkpoint,
    load_checkpoint,
    load_weights,
    newest_checkpoint,
)
from egotrain.conf import FitConfig
from egotrain.data import TrainStream, check_dims, policy_dims, rank_loader, training_source
from egotrain.datasets import RunDataset
from egotrain.evaluation import HeadScores, evaluate_heads
from egotrain.gradients import GradientReport
from egotrain.loggers import MetricsLog
from egotrain.module import TrainModule
from egotrain.numerics import code_changes, device_for, environment, fixed_numerics, seeded_dropout
from egotrain.opening import describe
from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.architectures import embedded
from egotrain.policies.registry import build_policy, check_policy
from egotrain.ranks import Ranks, from_first, require_agreement
from egotrain.run_data import RunData, open_data, pins_of, run_stats
from egotrain.runs import EVALUATIONS, RESULT, RESULT_SCHEMA, VIDEOS, RunResult, describe_run, write_json
from egotrain.steps import make_trainer, quiet_lightning
from egotrain.videos import head_videos

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Training:
    """One run in a folder that no other run uses; the same on every rank, but only rank 0 writes.

    Attributes:
        paths: The store.
        datasets: What it is trained on; the first names the run.
        folder: Of the run.
        config: The whole run.
        say: Told in lines what is done.
        ranks: Where this process stands.
    """

    paths: StorePaths
    datasets: tuple[RunDataset, ...]
    folder: Path
    config: FitConfig
    say: Callable[[str], None]
    ranks: Ranks = field(default_factory=Ranks)

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
        found = newest_checkpoint(self.folder / CHECKPOINTS, say=self.say) if self.ranks.first else None
        path = from_first(None if found is None else str(found))
        if path is None:
            return None
        carried = load_checkpoint(Path(path))
        self.say(f"run {self.config.run}: going on from step {carried.step} of {self.config.trainer.max_steps} ({Path(path).name})")
        return carried

    def _open(self, progress: Progress, carried: Carried | None) -> RunData:
        config = self.config
        if carried is None:
            stats = run_stats(self.paths, self.datasets, format=config.format, progress=progress)
        else:
            check_carried(carried, self.datasets)
            stats = tuple(part.stats for part in carried.parts)
        data = open_data(self.paths, self.datasets, stats=stats, config=config, with_train=True)
        for line in describe(data, config, ranks=self.ranks):
            self.say(line)
        return data

    def _train(self, data: RunData, carried: Carried | None, progress: Progress) -> RunResult:
        config = self.config
        dims = policy_dims([part.sources[part.train] for part in data.parts], config.data)
        check_policy(config.policy, dims)
        pins = pins_of(self.paths, data, config=config.evaluation)
        if carried is not None:
            check_dims(carried.dims, dims, what=f"run {config.run}, checkpoint of step {carried.step}")
        start = 0 if carried is None else carried.step
        source = training_source(data, mixing=config.data.mixing, seed=config.seed)
        loader = rank_loader(source, config.data, ranks=self.ranks)
        stream = TrainStream(loader, start_step=start, max_steps=config.trainer.max_steps)
        found = environment() if self.ranks.first else {}
        if self.ranks.first and carried is None:
            describe_run(self.folder, config, data=data, environment=found, changes=code_changes())
        module = self._module(data, dims, revision=str((found.get("git") or {}).get("revision", "")))
        return _Steps(self, data, module, stream, pins, progress).run()

    def _module(self, data: RunData, dims: PolicyDims, *, revision: str) -> TrainModule:
        config = self.config
        with seeded_dropout(config.seed, "weights"):
            policy = build_policy(config.policy, dims, pretrained=True)
        count = sum(parameter.numel() for parameter in policy.parameters() if parameter.requires_grad)
        self.say(f"policy {config.policy.name}: {count:,} parameters, {config.trainer.threads} threads")
        parts = [CarriedPart(part.recipe, part.stats, part.dataset.reference) for part in data.parts]
        own = asdict(replace(config, policy=embedded(config.policy)))
        values = carried_values(own, dims=dims, parts=parts, revision=revision)
        return TrainModule(policy, dims, config=config, carried=values)


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps of a run whose data and policy are ready, and what is written while they are taken."""

    training: Training
    data: RunData
    module: TrainModule
    stream: TrainStream
    pins: dict[str, tuple[str, ...]]
    progress: Progress

    def run(self) -> RunResult:
        config, first = self.training.config, self.training.ranks.first
        metrics = MetricsLog(self.training.folder, config, start_step=self.stream.start_step) if first else None
        try:
            try:
                report, scores = self._take(metrics)
            except Stopped as stop:
                self.training.say(f"run {config.run}: {stop}; resume=true goes on from there")
                raise
            loss = metrics.file.last("train", "loss") if metrics is not None else report.loss
        finally:
            if metrics is not None:
                metrics.close()
        return self._finish(report, scores, loss=loss)

    def _take(self, metrics: MetricsLog | None) -> tuple[StepReport, dict[str, HeadScores]]:
        config, trainer_config, training = self.training.config, self.training.config.trainer, self.training
        samples = config.data.batch_size * training.ranks.world
        refs = tuple(one.manifest.ref for one in training.datasets)
        report = StepReport(
            metrics,
            self.stream,
            every_steps=trainer_config.log_every_steps,
            samples_per_step=samples,
            say=training.say,
            parts=refs if len(refs) > 1 else (),
        )

        def evaluate(step: int) -> dict[str, HeadScores]:
            return self._evaluate(step, metrics)

        folder = training.folder / CHECKPOINTS
        folder.mkdir(exist_ok=True)
        keep = trainer_config.keep_checkpoints
        callbacks: list[Any] = [
            report,
            PeriodicEvaluation(evaluate, every_steps=trainer_config.evaluate_every_steps),
            Checkpoints(folder, every_steps=trainer_config.checkpoint_every_steps, keep=keep, write=training.ranks.first),
        ]
        if metrics is not None:
            watched = GradientReport(self.module.watch, metrics, every_steps=trainer_config.log_every_steps, say=training.say)
            callbacks.insert(1, watched)
        if self.stream.start_step < trainer_config.max_steps:
            with quiet_lightning():
                start = str(find_checkpoint(folder)) if self.stream.start_step else None
                make_trainer(config, callbacks, ranks=training.ranks).fit(self.module, self.stream, ckpt_path=start, weights_only=True)
        else:
            load_weights(self.module.policy, load_checkpoint(find_checkpoint(folder)))
        self.module.to(device_for(trainer_config.accelerator, rank=training.ranks.rank))  # the trainer gives its device back at the end
        return report, evaluate(trainer_config.max_steps)

    def _evaluate(self, step: int, metrics: MetricsLog | None) -> dict[str, HeadScores]:
        """Score every head on every rank, compare, and let rank 0 write scores and videos."""
        training, config = self.training, self.training.config.evaluation
        scores = evaluate_heads(self.module, self.data, config=config, progress=self.progress)
        plain = {head: found.to_json() for head, found in scores.items()}
        require_agreement(plain, f"evaluation after step {step}")
        if metrics is not None:
            metrics.add(step, rows_of(scores))
            write_json(training.folder / EVALUATIONS / f"step-{step:08d}.json", plain)
            for head, pins in self.pins.items():
                if pins:
                    out = training.folder / VIDEOS / f"step-{step:08d}"
                    head_videos(self.module, self.data, head=head, pins=pins, out=out, batch_size=config.batch_size, progress=self.progress)
        return scores

    def _finish(self, report: StepReport, scores: dict[str, HeadScores], *, loss: float) -> RunResult:
        training, config = self.training, self.training.config
        samples = report.steps * config.data.batch_size * training.ranks.world
        result: dict[str, Any] = {
            "schema": RESULT_SCHEMA,
            "run": config.run,
            "dataset": training.datasets[0].manifest.ref,
            "dataset_digest": training.datasets[0].manifest.digest,
            "format": config.format,
            "recipe": training.datasets[0].recipe.name,
            "seed": config.seed,
            "steps": config.trainer.max_steps,
            "ranks": training.ranks.world,
            "stats_key": self.data.first.stats.key,
            "co_train": self.data.co_trained(),
            "train_loss": loss,
            "train_loss_hex": loss.hex(),
            "heads": {head: found.to_json() for head, found in scores.items()},
            "train_s": round(report.train_s, 3),
            "samples_per_s": round(samples / max(report.train_s, 1e-9), 1),
            "data_wait_share": round(report.wait_s / max(report.train_s, 1e-9), 3),
            "checkpoint": find_checkpoint(training.folder / CHECKPOINTS).name if training.ranks.first else "",
        }
        if training.ranks.first:
            write_card(training.folder, result)
            write_json(training.folder / RESULT, result)
        return RunResult(config.run, training.folder, already_done=False, result=result)
