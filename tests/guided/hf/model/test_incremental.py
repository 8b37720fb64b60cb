"""A prompt that goes on is tokenised as if it were read whole."""

from __future__ import annotations

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
