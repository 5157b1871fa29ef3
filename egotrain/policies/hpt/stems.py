"""Proprio and language to tokens. Suffixes as in `policies.base`."""

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from egotrain.policies.dims import PolicyDims
from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.layers import Latents, Mlp

EMPTY_WORD, PADDING_WORD, RESERVED_WORDS = 1, 0, 2


class ProprioStem(nn.Module):
    """Body state with history: numbers and a validity bit per arm; each step has its own learned, zero-initialised time embedding.

    Beside the latents one token holds the whole history at once, from which speeds can be read.
    """

    def __init__(self, config: HptConfig, dims: PolicyDims) -> None:
        super().__init__()
        self.history_dropout = config.history_dropout
        numbers = dims.proprio_dim + dims.arms
        self.embed = Mlp(numbers, hidden=2 * config.width, out=config.width)
        self.whole = Mlp(dims.proprio_history * (numbers + 1), hidden=2 * config.width, out=config.width)
        self.time_KE = nn.Parameter(torch.zeros(dims.proprio_history, config.width))
        self.norm = nn.LayerNorm(config.width)
        self.latents = Latents(config.proprio_latents, width=config.width, heads=config.heads)

    def forward(self, proprio_BKP: Tensor, mask_BK: Tensor, arm_valid_BKA: Tensor) -> Tensor:
        """Return latents and one token of the whole history, (B, L + 1, E)."""
        numbers = torch.cat([proprio_BKP, arm_valid_BKA.to(proprio_BKP)], -1)
        keep_BK = mask_BK.clone()
        if self.training and self.history_dropout > 0:
            dropped = torch.rand(len(keep_BK), 1, device=keep_BK.device) < self.history_dropout
            keep_BK = keep_BK & ~dropped
        keep_BK[:, -1] = True
        tokens = self.embed(numbers) + self.time_KE
        marked = torch.cat([numbers, torch.ones_like(numbers[..., :1])], -1) * keep_BK[..., None]
        return torch.cat([self.latents(self.norm(tokens), keep_BK), self.whole(marked.flatten(1))[:, None]], 1)


def hash_words(prompts: Sequence[str], *, words: int, vocabulary: int) -> Tensor:
    """Turn texts into word numbers (B, words) int64: lower case, split at spaces, CRC-32 into buckets.

    Number 0 is padding; 1 stands for an empty prompt, so that it is not mistaken for a short one.
    """
    out = torch.full((len(prompts), words), PADDING_WORD, dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        found = prompt.lower().split()[:words]
        numbers = [RESERVED_WORDS + zlib.crc32(word.encode()) % (vocabulary - RESERVED_WORDS) for word in found] or [EMPTY_WORD]
        out[row, : len(numbers)] = torch.tensor(numbers)
    return out


class TextStem(nn.Module):
    """Prompts as hashed words, without pretrained weights."""

    def __init__(self, config: HptConfig) -> None:
        super().__init__()
        self.words, self.vocabulary = config.text_words, config.text_vocabulary
        self.embed = nn.Embedding(config.text_vocabulary, config.width)
        self.position_LE = nn.Parameter(torch.randn(config.text_words, config.width) * 0.02)
        self.norm = nn.LayerNorm(config.width)
        self.latents = Latents(config.text_latents, width=config.width, heads=config.heads)

    def forward(self, prompts: Sequence[str]) -> Tensor:
        """Return latents (B, L, E)."""
        numbers = hash_words(prompts, words=self.words, vocabulary=self.vocabulary).to(self.position_LE.device)
        return self.latents(self.norm(self.embed(numbers) + self.position_LE), numbers != PADDING_WORD)
