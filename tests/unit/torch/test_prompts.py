"""Prompts become tokens once per distinct text."""

import pytest
import torch

from egodata.errors import ConfigError, InputError
from egodata.torch import PromptTokenizer


class Letters:
    """One token per letter, behind a start token; remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, text):
        self.asked.append(text)
        return [1, *map(ord, text)]


def test_a_batch_has_one_row_per_distinct_text():
    tokens = PromptTokenizer(Letters(), max_tokens=9, padding=7)(["ab", "", "ab", "xyz"])
    assert tokens.ids.tolist() == [[1, 97, 98, 7], [1, 7, 7, 7], [1, 120, 121, 122]]
    assert tokens.mask.tolist() == [[True, True, True, False], [True, False, False, False], [True] * 4]
    assert tokens.rows.tolist() == [0, 1, 0, 2]
    assert tokens.cut.tolist() == [0, 0, 0]
    assert tokens.to("meta").rows.is_meta


def test_each_text_is_tokenised_once_over_all_batches():
    letters = Letters()
    tokenizer = PromptTokenizer(letters, max_tokens=9)
    first, second = tokenizer(["b", "a"]), tokenizer(["a", "c", "b", "c"])
    assert letters.asked == ["b", "a", "c"]
    assert torch.equal(second.ids[second.rows[0]], first.ids[first.rows[1]])
    assert torch.equal(second.ids[second.rows[2]], first.ids[first.rows[0]])


def test_what_a_text_gets_does_not_depend_on_its_batch():
    tokenizer = PromptTokenizer(Letters(), max_tokens=9)
    alone, among = tokenizer(["ab"]), tokenizer(["abcdef", "ab", ""])
    assert among.ids[1][among.mask[1]].tolist() == alone.ids[0][alone.mask[0]].tolist()


def test_a_long_text_is_cut_and_the_batch_says_by_how_much():
    tokens = PromptTokenizer(Letters(), max_tokens=3)(["a", "abcdef"])
    assert tokens.ids.tolist() == [[1, 97, 0], [1, 97, 98]]
    assert tokens.cut.tolist() == [0, 4]


def test_memory_is_bounded_by_the_number_of_texts():
    letters = Letters()
    tokenizer = PromptTokenizer(letters, max_tokens=3, kept=2)
    for text in ("a", "b", "a", "c", "a"):  # "b" is the one used longest ago
        tokenizer([text])
    assert len(tokenizer) == 2
    assert letters.asked == ["a", "b", "c"]
    tokenizer(["b"])
    assert letters.asked[-1] == "b"


def test_no_token_and_no_limit_are_refused():
    with pytest.raises(InputError, match="prompt '': the tokenizer gives no token"):
        PromptTokenizer(lambda text: [], max_tokens=3)([""])
    with pytest.raises(ConfigError, match="max_tokens and kept of at least 1, got 0 and 5"):
        PromptTokenizer(Letters(), max_tokens=0, kept=5)


def test_an_empty_batch_has_no_rows():
    tokens = PromptTokenizer(Letters(), max_tokens=3)([])
    assert tokens.ids.shape == tokens.mask.shape == (0, 0)
    assert len(tokens.rows) == 0
