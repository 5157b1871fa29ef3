"""The one LightningModule: it trains any policy and knows none by name."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import lightning
import torch
from torch import Tensor

from egodata.torch import Batch
from egotrain.accumulate import micro_batches
from egotrain.conf import DataConfig, FitConfig, OptimConfig
from egotrain.data import jitter_factors, observation
from egotrain.ema import Ema
from egotrain.gradients import GradientWatch
from egotrain.numerics import generator, seeded_dropout
from egotrain.optim import clip_gradients, make_optimizer
from egotrain.policies.base import Observation, Policy
from egotrain.policies.dims import PolicyDims

EMA, NORMS = "ema", "gradient_norms"


class TrainModule(lightning.LightningModule):
    """Loss, optimiser and what a checkpoint carries besides weights.

    A step takes its own hand in optimisation: a batch may go through in parts, the norm of gradients is looked at before it is clipped, and
    averaged weights follow the plain ones.
    """

    def __init__(self, policy: Policy, dims: PolicyDims, *, config: FitConfig, carried: dict[str, Any]) -> None:
        """Join a policy and how to train it.

        Args:
            policy: Built for `dims`.
            dims: Sizes of the data.
            config: Of the run.
            carried: Plain types that checkpoints carry under ``egotrain``.
        """
        super().__init__()
        self.automatic_optimization = False
        self.policy, self.dims = policy, dims
        self.data: DataConfig = config.data
        self.optim: OptimConfig = config.optim
        self.seed, self.max_steps = config.seed, config.trainer.max_steps
        self.carried = carried
        self.watch = GradientWatch(factor=config.optim.outlier_factor)
        self.ema: Ema | None = None
        self._restored_ema: dict[str, Tensor] | None = None
        if config.trainer.compile:
            for part in policy.heavy_parts():
                part.compile()

    def on_fit_start(self) -> None:
        """Start averaging, on the device where the weights are by now."""
        if self.optim.ema_decay > 0:
            self.ema = Ema(self.policy, decay=self.optim.ema_decay)
            if self._restored_ema is not None:
                self.ema.restore(self._restored_ema)

    def observe(self, batch: Batch) -> Observation:
        """Take from a batch what the policy sees, on this module's device."""
        return observation(batch, device=self.device, dims=self.dims)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Take a step of the optimiser and return its loss; noise and dropout follow from (seed, step, rank, part of batch)."""
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        step, parts = self.global_step, self.optim.accumulate
        total = torch.zeros((), device=self.device)
        for part, (samples, share) in enumerate(micro_batches(batch, parts)):
            loss = self._loss(samples, step, part) * share
            with self._reduce_gradients(last=part + 1 == parts):
                self.manual_backward(loss)
            total += loss.detach()
        self.watch.note(clip_gradients(self.policy.parameters(), largest=self.optim.clip_norm))
        optimizer.step()
        schedule: Any = self.lr_schedulers()
        schedule.step()
        if self.ema is not None:
            self.ema.update(step + 1)
        return total

    def _loss(self, batch: Batch, step: int, part: int) -> Tensor:
        key = (step, self.global_rank, part) if part else (step, self.global_rank)
        seen = observation(batch, device=self.device, dims=self.dims, factors=jitter_factors(batch, self.data))
        with seeded_dropout(self.seed, *key):
            noise = generator(self.seed, *key, "noise")
            return self.policy.loss(seen, batch["action"].to(self.device), mask_BSD=batch["action_mask"].to(self.device), generator=noise)

    def _reduce_gradients(self, *, last: bool) -> Any:
        """Let ranks exchange gradients with the last part of a batch only."""
        block = getattr(self.trainer.strategy, "block_backward_sync", None)
        return nullcontext() if last or block is None else block()

    @contextmanager
    def scored_weights(self) -> Iterator[None]:
        """Put averaged weights in place, where there are any, for as long as the context lasts."""
        with nullcontext() if self.ema is None else self.ema.in_place():
            yield

    def configure_optimizers(self) -> Any:
        """Return AdamW and its schedule."""
        optimizer, schedule = make_optimizer(self.policy, self.optim, max_steps=self.max_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def transfer_batch_to_device(self, batch: Batch, device: Any, dataloader_idx: int) -> Batch:
        """Leave the batch where it is: `observe` moves what it needs, images as uint8."""
        return batch

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what is needed to predict without the dataset, and averaged weights."""
        checkpoint["egotrain"] = self.carried
        checkpoint[NORMS] = self.watch.state()
        if self.ema is not None:
            checkpoint[EMA] = dict(self.ema.shadow)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take up averaged weights and recent norms."""
        self._restored_ema = checkpoint.get(EMA)
        self.watch.restore(checkpoint.get(NORMS, []))
