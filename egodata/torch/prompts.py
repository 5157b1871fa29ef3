"""Prompts as tokens: each distinct text goes through the tokenizer once, and once per batch into a text model."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from egodata.errors import ConfigError, InputError

KEPT_TEXTS = 65_536

Tokenize = Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The prompts of a batch: U distinct texts of at most L tokens, and which of them each sample has.

    Attributes:
        ids: (U, L) int64 token numbers, in the order in which texts appear first.
        mask: (U, L) bool; tokens that are no padding.
        rows: (B,) int64; sample b has text rows[b], so that features (U, L, F) become (B, L, F) by ``features[rows]``.
        cut: (U,) int64 tokens of each text beyond the limit, which were left out.
    """

    ids: Tensor
    mask: Tensor
    rows: Tensor
    cut: Tensor

    def to(self, device: torch.device | str) -> "PromptTokens":
        """Return the same on a device."""
        return PromptTokens(*(one.to(device, non_blocking=True) for one in (self.ids, self.mask, self.rows, self.cut)))


class PromptTokenizer:
    """Keeps the tokens of the texts that it has seen, the last used ones."""

    def __init__(self, tokenize: Tokenize, *, max_tokens: int, padding: int = 0, kept: int = KEPT_TEXTS) -> None:
        """Wrap a tokenizer; nothing is tokenised.

        Args:
            tokenize: From one text to its token numbers, without padding: such as ``lambda text: tokenizer(text)["input_ids"]``.
            max_tokens: Longer texts are cut, and each batch says by how much.
            padding: Token number behind shorter texts.
            kept: Texts kept at most.

        Raises:
            ConfigError: A limit below 1.
        """
        if min(max_tokens, kept) < 1:
            raise ConfigError(f"prompt tokens: expected max_tokens and kept of at least 1, got {max_tokens} and {kept}.")
        self._tokenize, self._max, self._padding, self._cap = tokenize, max_tokens, padding, kept
        self._kept: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of texts kept."""
        return len(self._kept)

    def __call__(self, prompts: Sequence[str]) -> PromptTokens:
        """Return the tokens of a batch's prompts.

        Raises:
            InputError: The tokenizer gives no token for a text; a model cannot look at nothing.
        """
        distinct = {text: row for row, text in enumerate(dict.fromkeys(prompts))}
        found = [self._numbers(text) for text in distinct]
        lengths = torch.tensor([len(numbers) for numbers in found], dtype=torch.int64)
        counted = lengths.clamp(max=self._max)
        ids = torch.full((len(found), int(counted.max()) if len(found) else 0), self._padding, dtype=torch.int64)
        for row, numbers in enumerate(found):
            ids[row, : min(len(numbers), self._max)] = torch.tensor(numbers[: self._max], dtype=torch.int64)
        mask = torch.arange(ids.shape[1]) < counted[:, None]
        return PromptTokens(ids, mask, torch.tensor([distinct[text] for text in prompts], dtype=torch.int64), lengths - counted)

    def _numbers(self, text: str) -> tuple[int, ...]:
        numbers = self._kept.get(text)
        if numbers is None:
            numbers = tuple(int(number) for number in self._tokenize(text))
            if not numbers:
                raise InputError(f"prompt {text[:60]!r}: the tokenizer gives no token. Let it add a start token, or one for an empty text.")
            self._kept[text] = numbers
            if len(self._kept) > self._cap:
                self._kept.popitem(last=False)
        self._kept.move_to_end(text)
        return numbers
