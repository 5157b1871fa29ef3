"""Flow matching: noise becomes an action by following a learned velocity from t = 1 to t = 0.

Lipman et al. 2023, "Flow matching for generative modeling"; the time distribution is that of
Black et al. 2024, "pi0: A vision-language-action flow model for general robot control", shifted towards noise.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

TIME_ALPHA, TIME_SCALE, TIME_SHIFT = 1.5, 0.999, 0.001
Velocity = Callable[[Tensor, Tensor], Tensor]


def flow_times(count: int, *, generator: Generator) -> Tensor:
    """Draw t ~ Beta(1.5, 1) x 0.999 + 0.001, shape (count,), by inverting the cumulative distribution t^1.5."""
    uniform = torch.rand(count, generator=generator)
    return uniform.pow(1.0 / TIME_ALPHA) * TIME_SCALE + TIME_SHIFT


def noised(action_BSD: Tensor, noise_BSD: Tensor, *, time_B: Tensor) -> tuple[Tensor, Tensor]:
    """Mix actions and noise at a flow time.

    Returns:
        x_t = t noise + (1 - t) action, and the velocity to learn, noise - action; both (B, S, D).
    """
    t = time_B[:, None, None]
    return t * noise_BSD + (1 - t) * action_BSD, noise_BSD - action_BSD


def masked_mse(predicted: Tensor, target: Tensor, *, mask: Tensor) -> Tensor:
    """Mean squared error over the cells in the mask; 0 if there are none."""
    error = (predicted - target).square() * mask
    return error.sum() / mask.sum().clamp(min=1)


def flow_loss(velocity: Velocity, action_BSD: Tensor, *, mask_BSD: Tensor, generator: Generator) -> Tensor:
    """Draw noise and time, and score a velocity against what it should be.

    Args:
        velocity: Maps (x_t (B, S, D), t (B,)) to (B, S, D).
        action_BSD: Normalised actions.
        mask_BSD: Cells that count.
        generator: On the CPU, so that every device draws the same.
    """
    noise = torch.randn(action_BSD.shape, generator=generator).to(action_BSD)
    time = flow_times(len(action_BSD), generator=generator).to(action_BSD)
    mixed, target = noised(action_BSD, noise, time_B=time)
    return masked_mse(velocity(mixed, time), target, mask=mask_BSD)


def integrate(velocity: Velocity, noise_BSD: Tensor, *, steps: int) -> Tensor:
    """Follow a velocity from noise at t = 1 to an action at t = 0 in equal Euler steps."""
    x = noise_BSD
    for i in range(steps):
        time = x.new_full((len(x),), 1.0 - i / steps)
        x = x - velocity(x, time) / steps
    return x
