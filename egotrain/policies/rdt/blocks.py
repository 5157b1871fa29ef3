"""Blocks and per-embodiment ends of an RDT. Suffixes as in `policies.base`; J tokens of the chunk."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from egotrain.policies.bodies import fitted
from egotrain.policies.dims import BodyDims, PolicyDims
from egotrain.policies.layers import Attention, Mlp, sinusoids
from egotrain.policies.rdt.config import RdtConfig

FREQUENCIES = 256
EPSILON = 1e-6


class NumberToken(nn.Module):
    """A number of the order of 1 to 1000, such as a time or a control frequency, as a token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = Mlp(FREQUENCIES, width, width)

    def forward(self, values_B: Tensor) -> Tensor:
        """Return (B, width)."""
        return self.embed(sinusoids(values_B, FREQUENCIES))


class RdtBlock(nn.Module):
    """Self-attention, cross-attention to one condition, feed-forward; normalised by RMS, queries and keys too."""

    def __init__(self, config: RdtConfig) -> None:
        super().__init__()
        width = config.width
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=EPSILON) for _ in range(3))
        self.self_attention = Attention(width, heads=config.heads, qk_norm=True)
        self.cross_attention = Attention(width, heads=config.heads, qk_norm=True)
        self.mlp = Mlp(width, config.mlp_ratio * width, width)

    def forward(self, x_BLE: Tensor, condition_BME: Tensor, keep_BM: Tensor) -> Tensor:
        """Return tokens of the same shape; `keep_BM` leaves tokens of the condition out."""
        normed = self.norms[0](x_BLE)
        x_BLE = x_BLE + self.self_attention(normed, normed)
        x_BLE = x_BLE + self.cross_attention(self.norms[1](x_BLE), condition_BME, keep_BM)
        return x_BLE + self.mlp(self.norms[2](x_BLE))


class StateAdaptor(nn.Module):
    """One embodiment's proprio history to tokens: numbers, a validity bit per arm, and whether the step was recorded."""

    def __init__(self, config: RdtConfig, body: BodyDims) -> None:
        super().__init__()
        self.body = body
        self.embed = Mlp(body.proprio_dim + body.arms + 1, *[config.width] * config.action_depth)

    def forward(self, proprio_BKP: Tensor, mask_BK: Tensor, arm_valid_BKA: Tensor) -> Tensor:
        """Return (B, K, width)."""
        bits = [arm_valid_BKA[..., : self.body.arms].to(proprio_BKP), mask_BK[..., None].to(proprio_BKP)]
        return self.embed(torch.cat([fitted(proprio_BKP, self.body.proprio_dim), *bits], -1))


class ActionIn(nn.Module):
    """One embodiment's noised action chunk to tokens."""

    def __init__(self, config: RdtConfig, dims: PolicyDims, body: BodyDims) -> None:
        super().__init__()
        self.group, self.dim = config.steps_per_token, body.action_dim
        self.missing = -dims.action_steps % self.group
        self.embed = Mlp(self.group * self.dim, *[config.width] * config.action_depth)

    def forward(self, noised_BSD: Tensor) -> Tensor:
        """Return (B, J, width)."""
        padded = F.pad(fitted(noised_BSD, self.dim), (0, 0, 0, self.missing))
        return self.embed(padded.unflatten(1, (-1, self.group)).flatten(2))


class ActionOut(nn.Module):
    """Tokens to what the objective asks for, for one embodiment."""

    def __init__(self, config: RdtConfig, dims: PolicyDims, body: BodyDims) -> None:
        super().__init__()
        self.group, self.dim, self.steps = config.steps_per_token, body.action_dim, dims.action_steps
        self.norm = nn.RMSNorm(config.width, eps=EPSILON)
        self.out = Mlp(config.width, config.width, self.group * self.dim)
        for parameter in self.out[-1].parameters():
            nn.init.zeros_(parameter)
        self.carry = nn.Linear(config.width, self.dim) if config.shortcuts else None
        if self.carry is not None:
            nn.init.zeros_(self.carry.weight)
            nn.init.constant_(self.carry.bias, config.objective.carried_share)

    def forward(self, tokens_BJE: Tensor, noised_BSD: Tensor, time_BE: Tensor) -> Tensor:
        """Return (B, S, D)."""
        out = self.out(self.norm(tokens_BJE)).unflatten(2, (self.group, -1)).flatten(1, 2)[:, : self.steps]
        if self.carry is not None:
            out = out + self.carry(F.silu(time_BE))[:, None] * fitted(noised_BSD, self.dim)
        return fitted(out, noised_BSD.shape[-1])
