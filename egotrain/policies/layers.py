"""Building blocks of transformers that policies share. Suffixes as in `base`."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MAX_PERIOD = 10_000.0


def sinusoids(values: Tensor, width: int) -> Tensor:
    """Embed numbers (...), of the order of 1 to 1000, into (..., width) sines and cosines (Vaswani et al. 2017)."""
    half = width // 2
    rates = torch.exp(torch.arange(half, device=values.device, dtype=torch.float32) * (-math.log(MAX_PERIOD) / half))
    angles = values[..., None].float() * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


class Mlp(nn.Module):
    """Two linear layers with GELU."""

    def __init__(self, width: int, *, hidden: int, out: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.rise = nn.Linear(width, hidden)
        self.fall = nn.Linear(hidden, out or width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., width) to (..., out)."""
        return self.fall(self.dropout(F.gelu(self.rise(x))))


class Attention(nn.Module):
    """Multi-head attention from queries to a context, which may be the queries themselves."""

    def __init__(self, width: int, *, heads: int, context_width: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(context_width or width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x_BLE: Tensor, context_BME: Tensor, keep_BM: Tensor | None = None) -> Tensor:
        """Attend; `keep_BM` is False for context tokens to leave out, at least one per sample must stay."""
        query, (key, value) = self.query(x_BLE), self.key_value(context_BME).chunk(2, -1)
        query, key, value = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (query, key, value))
        mask = None if keep_BM is None else keep_BM[:, None, None, :]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class DropPath(nn.Module):
    """Leave out a residual branch for some samples while training (Huang et al. 2016, "Deep networks with stochastic depth")."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Scale what is kept, so that the mean stays."""
        if not self.training or self.rate == 0.0:
            return x
        keep = torch.rand(len(x), *[1] * (x.dim() - 1), device=x.device) >= self.rate
        return x * keep / (1.0 - self.rate)


class Block(nn.Module):
    """Pre-norm transformer block: self-attention, then an MLP."""

    def __init__(self, width: int, *, heads: int, mlp_ratio: int, drop_path: float = 0.0) -> None:
        super().__init__()
        self.self_norm, self.self_attention = nn.LayerNorm(width), Attention(width, heads=heads)
        self.mlp_norm, self.mlp = nn.LayerNorm(width), Mlp(width, hidden=mlp_ratio * width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x_BLE: Tensor, keep_BL: Tensor | None = None) -> Tensor:
        """Return tokens of the same shape; `keep_BL` leaves tokens out of self-attention."""
        normed = self.self_norm(x_BLE)
        x_BLE = x_BLE + self.drop_path(self.self_attention(normed, normed, keep_BL))
        return x_BLE + self.drop_path(self.mlp(self.mlp_norm(x_BLE)))


class ConditionedBlock(nn.Module):
    """Self-attention, cross-attention to a context and an MLP, whose norms are scaled and shifted by a condition.

    Peebles and Xie 2023, "Scalable diffusion models with transformers", without gates.
    """

    def __init__(self, width: int, *, heads: int, mlp_ratio: int, context_width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(3))
        self.modulation = nn.Linear(width, 6 * width)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)
        self.self_attention = Attention(width, heads=heads)
        self.cross_attention = Attention(width, heads=heads, context_width=context_width)
        self.mlp = Mlp(width, hidden=mlp_ratio * width)

    def forward(self, x_BLE: Tensor, context_BME: Tensor, condition_BE: Tensor) -> Tensor:
        """Return tokens of the same shape."""
        scales_shifts = self.modulation(F.silu(condition_BE))[:, None].chunk(6, -1)

        def normed(k: int) -> Tensor:
            return self.norms[k](x_BLE) * (1 + scales_shifts[2 * k]) + scales_shifts[2 * k + 1]

        first = normed(0)
        x_BLE = x_BLE + self.self_attention(first, first)
        x_BLE = x_BLE + self.cross_attention(normed(1), context_BME)
        return x_BLE + self.mlp(normed(2))


class Latents(nn.Module):
    """Learned queries that cross-attend to any number of tokens and give a fixed number (Jaegle et al. 2021, "Perceiver")."""

    def __init__(self, count: int, *, width: int, heads: int) -> None:
        super().__init__()
        self.queries_LE = nn.Parameter(torch.randn(count, width) * 0.02)
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads=heads)
        self.mlp_norm, self.mlp = nn.LayerNorm(width), Mlp(width, hidden=2 * width)

    def forward(self, tokens_BME: Tensor, keep_BM: Tensor | None = None) -> Tensor:
        """Return (B, count, E); `keep_BM` leaves tokens out."""
        queries = self.queries_LE.expand(len(tokens_BME), -1, -1)
        out = queries + self.attention(queries, self.norm(tokens_BME), keep_BM)
        return out + self.mlp(self.mlp_norm(out))
