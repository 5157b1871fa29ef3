"""The work of one run: open the data, build the policy, take the steps, score, write the result."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from egodata.catalog import Manifest
from egodata.progress import Progress
from egodata.sampling import load_recipe
from egodata.schema.layout import StorePaths
from egodata.stats import norm_stats
from egotrain.callbacks import Checkpoints, PeriodicEvaluation, StepReport, Stopped, rows_of
from egotrain.card import write_card
from egotrain.checkpoint import Carried, carried_values, check_carried, find_checkpoint, load_checkpoint, load_weights, newest_checkpoint
from egotrain.conf import FitConfig
from egotrain.data import RunData, TrainStream, check_dims, open_sources, pins_of, policy_dims, rank_loader
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
from egotrain.runs import EVALUATIONS, RESULT, RESULT_SCHEMA, VIDEOS, RunResult, describe_run, write_json
from egotrain.steps import make_trainer, quiet_lightning
from egotrain.videos import check_pins, head_videos

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Training:
    """One run in a folder that no other run uses; the same on every rank, but only rank 0 writes.

    Attributes:
        paths: The store.
        manifest: The frozen dataset.
        folder: Of the run.
        config: The whole run.
        say: Told in lines what is done.
        ranks: Where this process stands.
    """

    paths: StorePaths
    manifest: Manifest
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
        config, recipe = self.config, load_recipe(self.config.recipe)
        if carried is None:
            stats = norm_stats(self.paths, self.manifest, recipe=recipe, format=config.format, progress=progress)
        else:
            stats = carried.stats
        heads = tuple(dict.fromkeys(("train", *config.evaluation.heads)))
        sources = open_sources(self.paths, self.manifest, recipe=recipe, heads=heads, stats=stats, config=config)
        data = RunData(self.manifest, recipe, stats, sources)
        for line in describe(data, config, ranks=self.ranks):
            self.say(line)
        return data

    def _train(self, data: RunData, carried: Carried | None, progress: Progress) -> RunResult:
        config = self.config
        dims = policy_dims(data.sources["train"], config.data)
        check_policy(config.policy, dims)
        pins = {head: pins_of(self.paths, self.manifest, head=head, config=config.evaluation) for head in config.evaluation.heads}
        check_pins(data, pins)
        if carried is not None:
            check_carried(carried, self.manifest)
            check_dims(carried.dims, dims, what=f"run {config.run}, checkpoint of step {carried.step}")
        start = 0 if carried is None else carried.step
        loader = rank_loader(data.sources["train"], config.data, ranks=self.ranks)
        stream = TrainStream(loader, start_step=start, max_steps=config.trainer.max_steps)
        found = environment() if self.ranks.first else {}
        if self.ranks.first and carried is None:
            describe_run(self.folder, config, manifest=self.manifest, stats=data.stats, environment=found, changes=code_changes())
        module = self._module(data, dims, revision=str((found.get("git") or {}).get("revision", "")))
        return _Steps(self, data, module, stream, pins, progress).run()

    def _module(self, data: RunData, dims: PolicyDims, *, revision: str) -> TrainModule:
        config = self.config
        with seeded_dropout(config.seed, "weights"):
            policy = build_policy(config.policy, dims, pretrained=True)
        count = sum(parameter.numel() for parameter in policy.parameters() if parameter.requires_grad)
        self.say(f"policy {config.policy.name}: {count:,} parameters, {config.trainer.threads} threads")
        dataset = {"dataset": self.manifest.ref, "digest": self.manifest.digest}
        own = asdict(replace(config, policy=embedded(config.policy)))
        values = carried_values(own, dims=dims, recipe=data.recipe, stats=data.stats, dataset=dataset, revision=revision)
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
        report = StepReport(
            metrics, self.stream, every_steps=trainer_config.log_every_steps, samples_per_step=samples, say=self.training.say
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
                if pins and head in self.data.sources:
                    out = training.folder / VIDEOS / f"step-{step:08d}"
                    head_videos(self.module, self.data, head=head, pins=pins, out=out, batch_size=config.batch_size, progress=self.progress)
        return scores

    def _finish(self, report: StepReport, scores: dict[str, HeadScores], *, loss: float) -> RunResult:
        training, config = self.training, self.training.config
        samples = report.steps * config.data.batch_size * training.ranks.world
        result: dict[str, Any] = {
            "schema": RESULT_SCHEMA,
            "run": config.run,
            "dataset": training.manifest.ref,
            "dataset_digest": training.manifest.digest,
            "format": config.format,
            "recipe": self.data.recipe.name,
            "seed": config.seed,
            "steps": config.trainer.max_steps,
            "ranks": training.ranks.world,
            "stats_key": self.data.stats.key,
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
