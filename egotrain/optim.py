"""AdamW groups, the learning-rate schedule, and clipping."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from egotrain.conf import OptimConfig
from egotrain.policies.base import Policy


def parameter_groups(module: nn.Module, *, weight_decay: float, learning_rate: float = 1.0) -> list[dict[str, object]]:
    """Split trainable parameters: matrices decay; norms, biases and other vectors do not.

    Parts of a policy with a share of the learning rate of their own come behind, two groups per share.
    """
    shares = {}
    if isinstance(module, Policy):
        shares = {id(parameter): share for part, share in module.slow_parts() for parameter in part.parameters()}
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups: list[dict[str, object]] = []
    for share in (1.0, *sorted({*shares.values()} - {1.0})):
        own = [parameter for parameter in trainable if shares.get(id(parameter), 1.0) == share]
        groups.append({"params": [p for p in own if p.ndim >= 2], "weight_decay": weight_decay, "lr": share * learning_rate})
        groups.append({"params": [p for p in own if p.ndim < 2], "weight_decay": 0.0, "lr": share * learning_rate})
    return groups


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
    groups = parameter_groups(module, weight_decay=config.weight_decay, learning_rate=config.learning_rate)
    optimizer = AdamW(groups, lr=config.learning_rate, betas=config.betas)
    return optimizer, LambdaLR(optimizer, lambda step: learning_rate_share(step, config=config, max_steps=max_steps))


def clip_gradients(parameters: Iterable[Tensor], *, largest: float) -> float:
    """Scale gradients so that the norm of all of them is at most `largest`, 0 leaves them; return the norm before.

    A norm that is not finite is returned and scales nothing.
    """
    kept = [parameter for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in kept if parameter.grad is not None])
    told = float(norm)
    if largest > 0 and math.isfinite(told):
        torch.nn.utils.clip_grads_with_norm_(kept, largest, norm)
    return told
