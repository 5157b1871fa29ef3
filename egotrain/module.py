"""The one LightningModule: it trains any policy and knows none by name."""

from typing import Any

import lightning
from torch import Tensor

from egodata.torch import Batch
from egotrain.conf import DataConfig, FitConfig, OptimConfig
from egotrain.data import jittered, observation
from egotrain.numerics import generator, seeded_dropout
from egotrain.optim import make_optimizer
from egotrain.policies.base import Observation, Policy
from egotrain.policies.dims import PolicyDims


class TrainModule(lightning.LightningModule):
    """Loss, optimiser and what a checkpoint carries besides weights."""

    def __init__(self, policy: Policy, dims: PolicyDims, *, config: FitConfig, carried: dict[str, Any]) -> None:
        """Join a policy and how to train it.

        Args:
            policy: Built for `dims`.
            dims: Sizes of the data.
            config: Of the run.
            carried: Plain types that checkpoints carry under ``egotrain``.
        """
        super().__init__()
        self.policy, self.dims = policy, dims
        self.data: DataConfig = config.data
        self.optim: OptimConfig = config.optim
        self.seed, self.max_steps = config.seed, config.trainer.max_steps
        self.carried = carried

    def observe(self, batch: Batch) -> Observation:
        """Take from a batch what the policy sees, on this module's device."""
        return observation(batch, device=self.device, dims=self.dims)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of one step; noise, jitter and dropout follow from (seed, step, rank)."""
        step, rank = self.global_step, self.global_rank
        seen = self.observe(batch)
        if self.data.colour_jitter > 0:
            source = generator(self.seed, step, rank, "jitter")
            images = {name: jittered(x, strength=self.data.colour_jitter, generator=source) for name, x in seen.images.items()}
            seen = Observation(images, *[getattr(seen, name) for name in Observation.__slots__[1:]])
        with seeded_dropout(self.seed, step, rank):
            noise = generator(self.seed, step, rank, "noise")
            return self.policy.loss(seen, batch["action"].to(self.device), mask_BSD=batch["action_mask"].to(self.device), generator=noise)

    def configure_optimizers(self) -> Any:
        """Return AdamW and its schedule, stepped every step."""
        optimizer, schedule = make_optimizer(self.policy, self.optim, max_steps=self.max_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def transfer_batch_to_device(self, batch: Batch, device: Any, dataloader_idx: int) -> Batch:
        """Leave the batch where it is: `observe` moves what it needs, images as uint8."""
        return batch

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what is needed to predict without the dataset."""
        checkpoint["egotrain"] = self.carried
