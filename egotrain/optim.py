"""AdamW groups and the learning-rate schedule."""

import math

from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from egotrain.conf import OptimConfig


def parameter_groups(module: nn.Module, *, weight_decay: float) -> list[dict[str, object]]:
    """Split trainable parameters: matrices decay; norms, biases and other vectors do not."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trainable if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim < 2], "weight_decay": 0.0},
    ]


def learning_rate_share(step: int, *, config: OptimConfig, max_steps: int) -> float:
    """Return the share of the learning rate at a step: a linear rise, then constant or a cosine to `final_share` at `max_steps`."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return 1.0
    done = min(1.0, (step - config.warmup_steps) / max(1, max_steps - config.warmup_steps))
    return config.final_share + (1 - config.final_share) * 0.5 * (1 + math.cos(math.pi * done))


def make_optimizer(module: nn.Module, config: OptimConfig, *, max_steps: int) -> tuple[AdamW, LambdaLR]:
    """Make AdamW and its schedule, which is stepped once per optimiser step."""
    groups = parameter_groups(module, weight_decay=config.weight_decay)
    optimizer = AdamW(groups, lr=config.learning_rate, betas=config.betas)
    return optimizer, LambdaLR(optimizer, lambda step: learning_rate_share(step, config=config, max_steps=max_steps))
