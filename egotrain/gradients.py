"""A watch on the norm of gradients. It looks and never changes them."""

import math
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from egotrain.loggers import MetricsLog

WINDOW, FEWEST = 100, 20


class GradientWatch:
    """Remembers recent norms and tells when one stands out: over `factor` times their median, or not finite."""

    def __init__(self, *, factor: float) -> None:
        """Start without a memory; a factor of 0 never tells."""
        self.factor = factor
        self.norm = 0.0
        self.median: float | None = None
        self._recent: deque[float] = deque(maxlen=WINDOW)

    def note(self, norm: float) -> None:
        """Take in the norm of a step; afterwards `median` is that of the steps before if this one stands out, else None."""
        self.norm, self.median = norm, None
        if self.factor > 0 and len(self._recent) >= FEWEST:
            usual = statistics.median(self._recent)
            if not math.isfinite(norm) or norm > self.factor * usual:
                self.median = usual
        if math.isfinite(norm):
            self._recent.append(norm)

    def state(self) -> list[float]:
        """Return the memory, for a checkpoint."""
        return list(self._recent)

    def restore(self, state: Sequence[float]) -> None:
        """Take up the memory of a checkpoint."""
        self._recent = deque(state, maxlen=WINDOW)


class GradientReport(Callback):
    """Writes the norm of gradients with the other rows, and at once, with a line, where one stands out."""

    def __init__(self, watch: GradientWatch, metrics: MetricsLog, *, every_steps: int, say: Callable[[str], None]) -> None:
        """Remember what to look at and where to write."""
        self.watch, self.metrics, self.every_steps, self.say = watch, metrics, every_steps, say

    def on_train_batch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any) -> None:
        """Write when it is time, or when there is something to tell."""
        step, watch = trainer.global_step, self.watch
        if watch.median is not None:
            self.metrics.add(step, [("train", "policy", "gradient_norm_outlier", watch.norm)])
            self.say(f"step {step}: gradient norm {watch.norm:.3g}, the median of recent steps is {watch.median:.3g}")
        if step % self.every_steps == 0 or step == trainer.max_steps:
            self.metrics.add(step, [("train", "policy", "gradient_norm", watch.norm)])
