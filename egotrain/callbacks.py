"""What happens between steps: rows of metrics, progress, evaluation, checkpoints, and stopping when asked to."""

import math
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from egodata.errors import ConfigError
from egotrain.checkpoint import prune, publish, step_path
from egotrain.data import TrainStream
from egotrain.evaluation import HeadScores
from egotrain.loggers import MetricsLog, Row
from egotrain.ranks import any_rank, mean_over_ranks

PLAIN_EVERY_S = 10.0
Say = Callable[[str], None]
Scores = dict[str, HeadScores]


class Stopped(KeyboardInterrupt):
    """A run was asked to stop (SIGTERM) and has written its checkpoint."""


def rows_of(scores: Scores) -> list[Row]:
    """Return (head, who, metric, value) for the metrics file; an operator's rows are of the head ``HEAD/OPERATOR``."""
    out: list[Row] = []
    for head, found in scores.items():
        out.append((head, "policy", "loss", found.loss))
        parts = {head: found.scores, **{f"{head}/{name}": part for name, part in found.operators.items()}}
        out += [
            (name, who, metric, value) for name, part in parts.items() for who, metrics in part.items() for metric, value in metrics.items()
        ]
    return out


class StepReport(Callback):
    """Writes the training loss, the learning rate, the speed and the share of time spent waiting for data; says so in plain lines.

    With `parts`, names of several datasets, the loss of a step whose batch came from one of them is written under its name as well.
    """

    def __init__(
        self,
        metrics: MetricsLog | None,
        stream: TrainStream,
        *,
        every_steps: int,
        samples_per_step: int,
        say: Say,
        parts: tuple[str, ...] = (),
    ) -> None:
        """Remember where to write, if at all; `say` gets a line every few seconds."""
        self.metrics, self.stream, self.every_steps, self.say = metrics, stream, every_steps, say
        self.samples_per_step = samples_per_step
        self.parts = parts
        self.train_s = self.wait_s = 0.0
        self.steps = 0
        self.loss = math.nan
        self._began = self._said = self._logged = 0.0
        self._logged_step = 0
        self._logged_wait = 0.0

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Start the clock."""
        self._began = self._said = self._logged = time.perf_counter()
        self._logged_step = trainer.global_step
        self._logged_wait = self.stream.wait_s

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, *_: Any) -> None:
        """Write and say the loss when it is time: the mean over the ranks.

        Raises:
            ConfigError: It is not a number.
        """
        self.steps += 1
        step, now = trainer.global_step, time.perf_counter()
        self.train_s, self.wait_s = now - self._began, self.stream.wait_s
        if step % self.every_steps and step != trainer.max_steps:
            return
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        self.loss = mean_over_ranks(float(loss.detach()))
        if not math.isfinite(self.loss):
            raise ConfigError(f"step {step}: the loss is {self.loss}. Lower optim.learning_rate, or look at metrics.csv.")
        self._write(trainer, pl_module, now)

    def _write(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, now: float) -> None:
        step = trainer.global_step
        elapsed = max(1e-9, now - self._logged)
        speed = (step - self._logged_step) * self.samples_per_step / elapsed
        waiting = (self.wait_s - self._logged_wait) / elapsed
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        values = {"loss": self.loss, "learning_rate": rate, "samples_per_s": speed, "data_wait_share": waiting}
        if self.metrics is not None:
            rows: list[Row] = [("train", "policy", name, value) for name, value in values.items()]
            if self.parts and len(self.stream.read_from) == 1:
                rows.append(("train", self.parts[self.stream.read_from[0]], "loss", self.loss))
            self.metrics.add(step, rows)
        for name, value in (("loss", self.loss), ("samples/s", speed), ("data wait", waiting)):
            pl_module.log(name, value, prog_bar=True, logger=False)
        self._logged, self._logged_step, self._logged_wait = now, step, self.wait_s
        if now - self._said >= PLAIN_EVERY_S or step == trainer.max_steps:
            self._said = now
            self.say(f"step {step}/{trainer.max_steps}: loss {self.loss:.4f}, {speed:.0f} samples/s, {waiting:.0%} waiting for data")


class PeriodicEvaluation(Callback):
    """Scores the heads every so many steps, but not at the last one: the end of a run does that itself."""

    def __init__(self, evaluate: Callable[[int], Scores], *, every_steps: int) -> None:
        """Remember how to evaluate at a step; 0 steps never does."""
        self.evaluate, self.every_steps = evaluate, every_steps

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any) -> None:
        """Evaluate when it is time."""
        step = trainer.global_step
        if self.every_steps and step % self.every_steps == 0 and step != trainer.max_steps:
            self.evaluate(step)


class Checkpoints(Callback):
    """Writes a checkpoint every so many steps, at the end and before it stops; ``last.ckpt`` names the newest.

    SIGTERM is answered at the end of the step: with a checkpoint, then `Stopped`. Every rank stops at the same step.
    """

    def __init__(self, folder: Path, *, every_steps: int, keep: int, write: bool) -> None:
        """Remember where, how often, how many to keep (0: all), and whether this rank writes."""
        self.folder, self.every_steps, self.keep, self.write = folder, every_steps, keep, write
        self._asked = False
        self._before: Any = None

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Take SIGTERM over from the trainer, which would drop the steps since the last checkpoint."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: Any) -> None:
        self._asked = True

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Give SIGTERM back."""
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def on_exception(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any) -> None:
        """Give SIGTERM back."""
        self.on_train_end(trainer, pl_module)

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any) -> None:
        """Write one when it is time.

        Raises:
            Stopped: The run was asked to.
        """
        step = trainer.global_step
        stop = any_rank(self._asked)
        if stop or step % self.every_steps == 0 or step == trainer.max_steps:
            self._save(trainer, step)
        if stop and step != trainer.max_steps:
            raise Stopped(f"stopped by SIGTERM after step {step}")

    def _save(self, trainer: lightning.Trainer, step: int) -> None:
        path = step_path(self.folder, step)
        written = path.with_suffix(".tmp")
        trainer.save_checkpoint(written)
        if self.write:
            publish(written, path)
            prune(self.folder, keep=self.keep)
