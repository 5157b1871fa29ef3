"""What the objective asks of a noised action chunk, given the trunk's tokens. Suffixes as in `policies.base`; J tokens of the chunk."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from egotrain.policies.bodies import fitted
from egotrain.policies.dims import BodyDims, PolicyDims
from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.layers import Attention, Mlp, sinusoids

TIME_RANGE = 1000.0
NORMS = 3


class HeadLayer(nn.Module):
    """Self-attention, cross-attention to the trunk's tokens and an MLP; norms may be scaled and shifted by a condition.

    The scaling is that of Peebles and Xie 2023, "Scalable diffusion models with transformers", without gates.
    """

    def __init__(self, config: HptConfig) -> None:
        super().__init__()
        width, hidden = config.head_width, config.head_mlp_ratio * config.head_width
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=not config.shortcuts) for _ in range(NORMS))
        self.modulation = nn.Linear(width, 2 * NORMS * width) if config.shortcuts else None
        if self.modulation is not None:
            nn.init.zeros_(self.modulation.weight)
            nn.init.zeros_(self.modulation.bias)
        self.self_attention = Attention(width, heads=config.head_heads)
        self.cross_attention = Attention(width, heads=config.head_heads, context_width=config.width)
        self.mlp = Mlp(width, *[hidden] * config.head_mlp_layers, width)

    def forward(self, x_BJE: Tensor, context_BLE: Tensor, condition_BE: Tensor) -> Tensor:
        """Return tokens of the same shape."""
        parts = None if self.modulation is None else self.modulation(F.silu(condition_BE))[:, None].chunk(2 * NORMS, -1)

        def normed(k: int) -> Tensor:
            plain = self.norms[k](x_BJE)
            return plain if parts is None else plain * (1 + parts[2 * k]) + parts[2 * k + 1]

        first = normed(0)
        x_BJE = x_BJE + self.self_attention(first, first)
        x_BJE = x_BJE + self.cross_attention(normed(1), context_BLE)
        return x_BJE + self.mlp(normed(2))


class ActionHead(nn.Module):
    """A cross-attention transformer over tokens that each stand for one or a few action steps.

    With shortcuts, the noise in the input is handed on by a gain that follows from the time, so that the layers have to find only the rest,
    and the context reaches every layer's norms.
    """

    def __init__(self, config: HptConfig, dims: PolicyDims, body: BodyDims) -> None:
        super().__init__()
        width, self.dim = config.head_width, body.action_dim
        self.group, self.steps = config.steps_per_token, dims.action_steps
        self.tokens = -(-dims.action_steps // self.group)
        self.embed = nn.Linear(self.group * self.dim, width)
        self.position_JE = nn.Parameter(torch.randn(self.tokens, width) * 0.02)
        self.time = Mlp(width, width, width)
        self.layers = nn.ModuleList(HeadLayer(config) for _ in range(config.head_layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, self.group * self.dim)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.summary = nn.Linear(config.action_tokens * config.width, width) if config.shortcuts else None
        self.carry = nn.Linear(width, self.dim) if config.shortcuts else None
        if self.carry is not None:
            nn.init.zeros_(self.carry.weight)
            nn.init.constant_(self.carry.bias, config.objective.carried_share)

    def forward(self, noised_BSD: Tensor, time_B: Tensor, context_BLE: Tensor) -> Tensor:
        """Return what the objective asks for, (B, S, D)."""
        own = fitted(noised_BSD, self.dim)
        padded = F.pad(own, (0, 0, 0, self.tokens * self.group - self.steps))
        time_BE = self.time(sinusoids(time_B * TIME_RANGE, self.position_JE.shape[-1]))
        x = self.embed(padded.unflatten(1, (self.tokens, self.group)).flatten(2)) + self.position_JE + time_BE[:, None]
        condition = time_BE if self.summary is None else time_BE + self.summary(context_BLE.flatten(1))
        for layer in self.layers:
            x = layer(x, context_BLE, condition)
        out = self.out(self.norm(x)).unflatten(2, (self.group, -1)).flatten(1, 2)[:, : self.steps]
        if self.carry is not None:
            out = out + self.carry(F.silu(time_BE))[:, None] * own
        return fitted(out, noised_BSD.shape[-1])
