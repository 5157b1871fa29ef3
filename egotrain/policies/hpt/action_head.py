"""Velocity of a noised action chunk, given the trunk's tokens. Suffixes as in `policies.base`; J tokens of the chunk."""

import torch
from torch import Tensor, nn

from egotrain.policies.dims import PolicyDims
from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.layers import ConditionedBlock, Mlp, sinusoids

TIME_RANGE = 1000.0


class ActionHead(nn.Module):
    """A cross-attention transformer over tokens that each stand for a few action steps, conditioned on time and context.

    Most of the velocity is noise that the input already holds: it is carried over by a gain that follows from the time,
    at first 1, so that the layers have to find only the rest.
    """

    def __init__(self, config: HptConfig, dims: PolicyDims) -> None:
        super().__init__()
        width = config.head_width
        self.group = config.steps_per_token
        self.steps = dims.action_steps
        self.tokens = -(-dims.action_steps // self.group)
        self.embed = nn.Linear(self.group * dims.action_dim, width)
        self.position_JE = nn.Parameter(torch.randn(self.tokens, width) * 0.02)
        self.time = Mlp(width, hidden=2 * width)
        self.summary = nn.Linear(config.action_tokens * config.width, width)
        sizes = {"heads": config.head_heads, "mlp_ratio": config.mlp_ratio, "context_width": config.width}
        self.blocks = nn.ModuleList(ConditionedBlock(width, **sizes) for _ in range(config.head_layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, self.group * dims.action_dim)
        self.carry = nn.Linear(width, dims.action_dim)
        for layer, bias in ((self.out, 0.0), (self.carry, 1.0)):
            nn.init.zeros_(layer.weight)
            nn.init.constant_(layer.bias, bias)

    def forward(self, noised_BSD: Tensor, time_B: Tensor, context_BLE: Tensor) -> Tensor:
        """Return the velocity (B, S, D)."""
        padded = nn.functional.pad(noised_BSD, (0, 0, 0, self.tokens * self.group - self.steps))
        x = self.embed(padded.unflatten(1, (self.tokens, self.group)).flatten(2)) + self.position_JE
        time_BE = self.time(sinusoids(time_B * TIME_RANGE, x.shape[-1]))
        condition = time_BE + self.summary(context_BLE.flatten(1))
        for block in self.blocks:
            x = block(x, context_BLE, condition)
        out = self.out(self.norm(x)).unflatten(2, (self.group, -1)).flatten(1, 2)
        return out[:, : self.steps] + self.carry(nn.functional.silu(time_BE))[:, None] * noised_BSD
