"""What a policy's network learns to tell from a noised action, and how that makes an action out of noise.

`flow`: the velocity from noise to action (see `flow`). `diffusion`: the action itself, from a chunk noised by the cosine schedule of
Nichol and Dhariwal 2021, "Improved denoising diffusion probabilistic models"; actions are drawn by the deterministic sampler of Song et al.
2021, "Denoising diffusion implicit models". Suffixes as in `base`.
"""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from egotrain.policies.flow import flow_loss, integrate, masked_mse
from egotrain.policies.objective_config import LEVELS, ObjectiveConfig

COSINE_OFFSET, LEAST_SHARE = 0.008, 1e-4
Network = Callable[[Tensor, Tensor], Tensor]


def signal_share(time_B: Tensor) -> Tensor:
    """Return the squared share of the action in a chunk noised up to a time in [0, 1], falling from 1 to nearly 0."""
    offset = COSINE_OFFSET
    angle = (time_B.double() + offset) / (1 + offset) * (math.pi / 2)
    start = math.cos(offset / (1 + offset) * math.pi / 2) ** 2
    return (angle.cos().square() / start).clamp(LEAST_SHARE, 1.0)


def objective_loss(config: ObjectiveConfig, network: Network, *, action_BSD: Tensor, mask_BSD: Tensor, generator: Generator) -> Tensor:
    """Draw noise and times, and score what the network tells over the cells in the mask.

    Args:
        config: Which objective.
        network: Maps (noised (B, S, D), time (B,) in (0, 1]) to (B, S, D).
        action_BSD: Normalised actions.
        mask_BSD: Cells that count.
        generator: On the CPU, so that every device draws the same.
    """
    if config.kind == "flow":
        return flow_loss(network, action_BSD, mask_BSD=mask_BSD, generator=generator)
    noise = torch.randn(action_BSD.shape, generator=generator).to(action_BSD)
    level = torch.randint(1, LEVELS + 1, (len(action_BSD),), generator=generator).to(action_BSD)
    time = level / LEVELS
    share = signal_share(time).to(action_BSD)[:, None, None]
    noised = share.sqrt() * action_BSD + (1 - share).sqrt() * noise
    return masked_mse(network(noised, time), action_BSD, mask=mask_BSD)


def sampled(config: ObjectiveConfig, network: Network, *, noise_BSD: Tensor) -> Tensor:
    """Turn noise into an action in `config.steps` equal steps; a pure function of network and noise."""
    if config.kind == "flow":
        return integrate(network, noise_BSD, steps=config.steps)
    x = noise_BSD
    times = torch.linspace(1, 0, config.steps + 1, dtype=torch.float64, device=x.device)
    shares = signal_share(times).to(x)
    for i in range(config.steps):
        action = network(x, times[i].to(x).expand(len(x)))
        noise = (x - shares[i].sqrt() * action) / (1 - shares[i]).sqrt()
        x = action if i + 1 == config.steps else shares[i + 1].sqrt() * action + (1 - shares[i + 1]).sqrt() * noise
    return x
