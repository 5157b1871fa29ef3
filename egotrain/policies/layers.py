"""Building blocks of transformers that policies share. Suffixes as in `base`."""

import math
from itertools import pairwise

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


class Mlp(nn.Sequential):
    """Linear layers with GELU between them, of the widths given."""

    def __init__(self, *widths: int) -> None:
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.GELU(), nn.Linear(before, after)] if layers else [nn.Linear(before, after)]
        super().__init__(*layers)


class Attention(nn.Module):
    """Multi-head attention from queries to a context, which may be the queries themselves."""

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        context_width: int | None = None,
        inner: int | None = None,
        learned_pair: bool = False,
        qk_norm: bool = False,
    ) -> None:
        """Build one.

        Args:
            width: Of queries and result.
            heads: Of attention.
            context_width: Of what is attended to; None: as the queries.
            inner: Width of all heads together; None: as the queries.
            learned_pair: Whether one learned key and value joins every context.
            qk_norm: Whether queries and keys are normalised per head (Henry et al. 2020).
        """
        super().__init__()
        inner = inner or width
        self.heads = heads
        self.query = nn.Linear(width, inner)
        self.key_value = nn.Linear(context_width or width, 2 * inner)
        self.out = nn.Linear(inner, width)
        self.pair = nn.Parameter(torch.randn(2, inner) * 0.02) if learned_pair else None
        self.query_norm, self.key_norm = (nn.RMSNorm(inner // heads, eps=1e-6) if qk_norm else nn.Identity() for _ in range(2))

    def forward(self, x_BLE: Tensor, context_BME: Tensor, keep_BM: Tensor | None = None) -> Tensor:
        """Attend; `keep_BM` is False for context tokens to leave out, at least one per sample must stay."""
        query, (key, value) = self.query(x_BLE), self.key_value(context_BME).chunk(2, -1)
        if self.pair is not None:
            more = self.pair.to(key.dtype)[:, None, None].expand(-1, len(key), -1, -1)
            key, value = torch.cat([key, more[0]], 1), torch.cat([value, more[1]], 1)
            keep_BM = None if keep_BM is None else F.pad(keep_BM, (0, 1), value=True)
        query, key, value = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (query, key, value))
        mask = None if keep_BM is None else keep_BM[:, None, None, :]
        mixed = F.scaled_dot_product_attention(self.query_norm(query), self.key_norm(key), value, attn_mask=mask)
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
    """Pre-norm transformer block: self-attention with one learned key and value more, then an MLP."""

    def __init__(self, width: int, *, heads: int, mlp_ratio: int, drop_path: float = 0.0) -> None:
        super().__init__()
        self.self_norm, self.self_attention = nn.LayerNorm(width), Attention(width, heads=heads, learned_pair=True)
        self.mlp_norm, self.mlp = nn.LayerNorm(width), Mlp(width, mlp_ratio * width, width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x_BLE: Tensor, keep_BL: Tensor | None = None) -> Tensor:
        """Return tokens of the same shape; `keep_BL` leaves tokens out of self-attention."""
        normed = self.self_norm(x_BLE)
        x_BLE = x_BLE + self.drop_path(self.self_attention(normed, normed, keep_BL))
        return x_BLE + self.drop_path(self.mlp(self.mlp_norm(x_BLE)))


def grid_positions(height: int, width: int, *, channels: int, device: torch.device) -> Tensor:
    """Return fixed sines and cosines (height x width, channels) of where a cell of a grid is; channels a multiple of 4."""
    x, y = (torch.linspace(0, 100, count, device=device) for count in (width, height))
    across = sinusoids(x, channels // 2).expand(height, -1, -1)
    down = sinusoids(y, channels // 2)[:, None].expand(-1, width, -1)
    return torch.cat([across, down], -1).flatten(0, 1)
