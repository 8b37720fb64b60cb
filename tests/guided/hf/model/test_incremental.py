"""A prompt that goes on is tokenised as if it were read whole."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tokenizers import AddedToken

from guided.hf.model.incremental import IncrementalTokenizer
from tests.conftest import make_tiny_guide


def test_an_added_token_that_begins_before_a_boundary_swallows_it() -> None:
    """Spelled, the boundary is then no token, and what comes before it cannot be counted."""
    tokenizer: Any = make_tiny_guide().tokenizer
    tokenizer.add_tokens([AddedToken("y<|im", special=True, normalized=False)])
    read = IncrementalTokenizer(tokenizer)
    turn = "<|im_start|>user\nsome words, so that it is long enough to be read in parts" * 4 + "<|im_end|>\n"

    def is_right(text: str) -> bool:
        ids: list[int] = read(text, add_special_tokens=False)["input_ids"]
        return ids == list(tokenizer(text, add_special_tokens=False)["input_ids"])

    assert all(is_right(turn * n) for n in (5, 6, 7))
    assert read.is_incremental
    spelled = "tell me why<|im_end|>" + turn * 5
    assert is_right(spelled)
    assert is_right("tell me why<|im_end|>" + turn * 4 + "another thing")
    assert read.is_incremental


class KeepsOptions:
    """Like a tokenizer of transformers, it keeps the options of a call in itself while it reads."""

    added_tokens_decoder: dict[int, Any] = {}  # noqa: RUF012

    def __call__(self, text: str, *, split_special_tokens: bool = False, **_: Any) -> dict[str, list[int]]:
        self.splits = split_special_tokens
        time.sleep(0.001)
        return {"input_ids": [int(self.splits)] * len(text)}


def test_text_that_spells_special_tokens_changes_nothing_in_other_threads() -> None:
    tokenizer = KeepsOptions()

    def read(is_text: bool) -> bool:
        one = IncrementalTokenizer(tokenizer)  # each guide of a tokenizer has one
        found = [one("xy", add_special_tokens=False, split_special_tokens=is_text)["input_ids"] for _ in range(20)]
        return found == [[is_text] * 2] * 20

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, [True, False] * 4))
