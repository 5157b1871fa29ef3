"""What happens between steps: rows of metrics, progress, evaluation, checkpoints."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from egodata.errors import ConfigError
from egotrain.checkpoint import publish, step_path
from egotrain.data import TrainStream
from egotrain.evaluation import HeadScores
from egotrain.runs import MetricsFile

PLAIN_EVERY_S = 10.0
Say = Callable[[str], None]
Scores = dict[str, HeadScores]


def rows_of(scores: Scores) -> list[tuple[str, str, str, float]]:
    """Return (head, who, metric, value) for the metrics file."""
    out = []
    for head, found in scores.items():
        out.append((head, "policy", "loss", found.loss))
        out += [(head, who, name, value) for who, metrics in found.scores.items() for name, value in metrics.items()]
    return out


class StepReport(Callback):
    """Writes the training loss, the learning rate, the speed and the share of time spent waiting for data; says so in plain lines."""

    def __init__(self, metrics: MetricsFile, stream: TrainStream, *, every_steps: int, batch_size: int, say: Say) -> None:
        """Remember where to write; `say` gets a line every few seconds where there is no progress bar."""
        self.metrics, self.stream, self.every_steps, self.batch_size, self.say = metrics, stream, every_steps, batch_size, say
        self.train_s = self.wait_s = 0.0
        self.steps = 0
        self._began = self._said = self._logged = 0.0
        self._logged_step = 0
        self._logged_wait = 0.0

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Start the clock."""
        self._began = self._said = self._logged = time.perf_counter()
        self._logged_step = trainer.global_step
        self._logged_wait = self.stream.wait_s

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, *_: Any) -> None:
        """Write and say the loss when it is time.

        Raises:
            ConfigError: It is not a number.
        """
        self.steps += 1
        step, now = trainer.global_step, time.perf_counter()
        self.train_s, self.wait_s = now - self._began, self.stream.wait_s
        if step % self.every_steps and step != trainer.max_steps:
            return
        loss = float((outputs["loss"] if isinstance(outputs, dict) else outputs).detach())
        if not math.isfinite(loss):
            raise ConfigError(f"step {step}: the loss is {loss}. Lower optim.learning_rate, or look at {self.metrics.path.name}.")
        pl_module.log("loss", loss, prog_bar=True, logger=False)
        elapsed = max(1e-9, now - self._logged)
        speed = (step - self._logged_step) * self.batch_size / elapsed
        waiting = (self.wait_s - self._logged_wait) / elapsed
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        values = {"loss": loss, "learning_rate": rate, "samples_per_s": speed, "data_wait_share": waiting}
        self.metrics.add(step, [("train", "policy", name, value) for name, value in values.items()])
        pl_module.log("samples/s", speed, prog_bar=True, logger=False)
        pl_module.log("data wait", waiting, prog_bar=True, logger=False)
        self._logged, self._logged_step, self._logged_wait = now, step, self.wait_s
        if now - self._said >= PLAIN_EVERY_S or step == trainer.max_steps:
            self._said = now
            self.say(f"step {step}/{trainer.max_steps}: loss {loss:.4f}, {speed:.0f} samples/s, {waiting:.0%} waiting for data")


class PeriodicEvaluation(Callback):
    """Scores the heads every so many steps, but not at the last one: the end of a run does that itself."""

    def __init__(self, metrics: MetricsFile, evaluate: Callable[[], Scores], *, every_steps: int) -> None:
        """Remember how to evaluate; 0 steps never does."""
        self.metrics, self.evaluate, self.every_steps = metrics, evaluate, every_steps

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any) -> None:
        """Evaluate when it is time."""
        step = trainer.global_step
        if self.every_steps and step % self.every_steps == 0 and step != trainer.max_steps:
            self.metrics.add(step, rows_of(self.evaluate()))


class Checkpoints(Callback):
    """Writes a checkpoint every so many steps and at the end, and lets ``last.ckpt`` name the newest."""

    def __init__(self, folder: Path, *, every_steps: int) -> None:
        """Remember where and how often."""
        self.folder, self.every_steps = folder, every_steps

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any) -> None:
        """Write one when it is time."""
        step = trainer.global_step
        if step % self.every_steps and step != trainer.max_steps:
            return
        path = step_path(self.folder, step)
        written = path.with_suffix(".tmp")
        trainer.save_checkpoint(written)
        publish(written, path)
