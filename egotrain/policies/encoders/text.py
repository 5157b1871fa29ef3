"""Prompts to tokens. Suffixes as in `policies.base`; L tokens of a prompt."""

import zlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from egotrain.policies.encoders.architectures import architecture, tokenizer_text
from egotrain.policies.encoders.config import ALL_LAYERS, HASHED_WORDS, TextEncoderConfig
from egotrain.policies.encoders.pretrained import Backbone

EMPTY_WORD, PADDING_WORD, RESERVED_WORDS = 1, 0, 2
CACHE_BYTES = 256 * 2**20


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


class TextEncoder(nn.Module):
    """What every text encoder is: B prompts to features (B, L, width), and which of them are no padding (B, L).

    Attributes:
        width: Of a feature.
        tokens: The largest L.
    """

    width: int
    tokens: int


class HashedWords(TextEncoder):
    """Words looked up in a learned table, with their positions; without pretrained weights."""

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.tokens, self.width, self.vocabulary = config.tokens, config.width, config.vocabulary
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.position_LE = nn.Parameter(torch.randn(config.tokens, config.width) * 0.02)

    def forward(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return features and which count."""
        numbers = hash_words(prompts, words=self.tokens, vocabulary=self.vocabulary).to(self.position_LE.device)
        return self.embed(numbers) + self.position_LE, numbers != PADDING_WORD


class FrozenText(TextEncoder):
    """A pretrained text model that never learns. Each prompt goes through it once, by itself, so its features depend on no other prompt."""

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config, frozen_layers=ALL_LAYERS)
        self.tokens, self.width = config.tokens, architecture(config).hidden_size
        self._tokenizer: Any = None
        self._kept: OrderedDict[str, Tensor] = OrderedDict()
        self._kept_bytes = 0
        self.register_load_state_dict_post_hook(lambda module, keys: module.forget())

    def forget(self) -> None:
        """Drop kept features, as when the weights change."""
        self._kept.clear()
        self._kept_bytes = 0

    def forward(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return features and which count."""
        found = [self._features(prompt) for prompt in prompts]
        device = next(self.parameters()).device
        counts = torch.tensor([len(one) for one in found], device=device)
        features = pad_sequence([one.to(device) for one in found], batch_first=True)
        return features, torch.arange(features.shape[1], device=device) < counts[:, None]

    def _features(self, prompt: str) -> Tensor:
        """Return (l, width) of one prompt, which the least recently used make room for."""
        if prompt not in self._kept:
            device = next(self.parameters()).device
            # not as an inference tensor, which an evaluation would leave behind for training to stumble over
            with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
                numbers = torch.tensor([self._numbers(prompt)], device=device)
                kept = self.backbone(input_ids=numbers, attention_mask=torch.ones_like(numbers))[0].float().clone()
            self._kept[prompt] = kept
            self._kept_bytes += kept.nbytes
            while self._kept_bytes > CACHE_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes
        self._kept.move_to_end(prompt)
        return self._kept[prompt]

    def _numbers(self, prompt: str) -> list[int]:
        """Return token numbers; an empty text, where the tokenizer adds nothing by itself, is one token 0."""
        if self._tokenizer is None:
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_str(tokenizer_text(self.config))
            self._tokenizer.no_padding()
            self._tokenizer.enable_truncation(max_length=self.tokens)
        return list(self._tokenizer.encode(prompt).ids) or [0]


def text_encoder(config: TextEncoderConfig) -> TextEncoder:
    """Build a text encoder with fresh weights.

    Raises:
        NotFoundError: The model is not on this machine.
    """
    return HashedWords(config) if config.source == HASHED_WORDS else FrozenText(config)
