"""Modalities to a fixed number of tokens. Suffixes as in `policies.base`."""

import torch
from torch import Tensor, nn

from egotrain.policies.bodies import fitted
from egotrain.policies.dims import BodyDims, PolicyDims
from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.layers import Attention, Mlp


class Stem(nn.Module):
    """An MLP, then learned queries that attend to the tokens (Jaegle et al. 2021, "Perceiver")."""

    def __init__(self, config: HptConfig, in_width: int, *, layers: int, latents: int) -> None:
        super().__init__()
        self.embed = Mlp(in_width, *[config.width] * layers)
        self.norm = nn.LayerNorm(config.width)
        self.queries_LE = nn.Parameter(torch.randn(latents, config.width) * 0.02)
        self.attention = Attention(config.width, heads=config.heads, inner=config.heads * config.stem_head_width)

    def forward(self, tokens_BME: Tensor, *, keep_BM: Tensor | None = None, added: Tensor | None = None) -> Tensor:
        """Return (B, latents, width).

        Args:
            tokens_BME: Any number of tokens.
            keep_BM: False for tokens to leave out.
            added: Embeddings put on top after the MLP.
        """
        tokens = self.embed(tokens_BME)
        tokens = tokens if added is None else tokens + added
        queries = self.queries_LE.expand(len(tokens), -1, -1)
        return queries + self.attention(queries, self.norm(tokens), keep_BM)


class ImageStem(nn.Module):
    """One camera's encoded images to latents; tokens that stand for a whole image pass by, those of the current image only."""

    def __init__(self, config: HptConfig, dims: PolicyDims) -> None:
        super().__init__()
        self.stem = Stem(config, config.images.width, layers=2, latents=config.image_latents)
        self.age_NE = nn.Parameter(torch.zeros(dims.images, config.width))

    def forward(self, tokens_BNME: Tensor, mask_BN: Tensor, *, direct: int) -> Tensor:
        """Return tokens (B, L, E); the current image always counts, recorded or black.

        Args:
            tokens_BNME: Oldest image first.
            mask_BN: Images that were recorded.
            direct: Tokens at the end of M that pass by.
        """
        count, tokens = tokens_BNME.shape[1:3]
        cells = tokens - direct
        keep = mask_BN | (torch.arange(count, device=mask_BN.device) == count - 1)
        keep_BM = keep.repeat_interleave(cells, 1) if count > 1 else None
        age_ME = self.age_NE.repeat_interleave(cells, 0)
        latents = self.stem(tokens_BNME[:, :, :cells].flatten(1, 2), keep_BM=keep_BM, added=age_ME)
        return torch.cat([latents, tokens_BNME[:, -1, cells:]], 1)


class ProprioStem(nn.Module):
    """Body state with history: numbers and a validity bit per arm; each step has its own learned, zero-initialised time embedding.

    With shortcuts, a token beside the latents holds the whole history at once, from which speeds can be read.
    """

    def __init__(self, config: HptConfig, dims: PolicyDims, body: BodyDims) -> None:
        super().__init__()
        self.history_dropout, self.body = config.history_dropout, body
        numbers = body.proprio_dim + body.arms
        self.stem = Stem(config, numbers, layers=2, latents=config.proprio_latents)
        whole = Mlp(dims.proprio_history * (numbers + 1), 2 * config.width, config.width)
        self.whole = whole if config.shortcuts else None
        self.time_KE = nn.Parameter(torch.zeros(dims.proprio_history, config.width))

    def forward(self, proprio_BKP: Tensor, mask_BK: Tensor, arm_valid_BKA: Tensor) -> Tensor:
        """Return tokens (B, L, E)."""
        arms = arm_valid_BKA[..., : self.body.arms].to(proprio_BKP)
        numbers = torch.cat([fitted(proprio_BKP, self.body.proprio_dim), arms], -1)
        keep_BK = mask_BK.clone()
        if self.training and self.history_dropout > 0:
            dropped = torch.rand(len(keep_BK), 1, device=keep_BK.device) < self.history_dropout
            keep_BK = keep_BK & ~dropped
        keep_BK[:, -1] = True
        latents = self.stem(numbers, keep_BM=keep_BK, added=self.time_KE)
        if self.whole is None:
            return latents
        marked = torch.cat([numbers, torch.ones_like(numbers[..., :1])], -1) * keep_BK[..., None]
        return torch.cat([latents, self.whole(marked.flatten(1))[:, None]], 1)
