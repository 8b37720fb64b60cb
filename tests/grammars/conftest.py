"""Fixtures of the tests of grammars."""

from __future__ import annotations

import pytest

from guided.engine.engine import Engine
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens


@pytest.fixture(scope="session")
def byte_engine() -> Engine:
    """Every byte is a token and nothing else but the markers: masks are about single characters."""
    text = small_tokenizer(MARKERS, words=(), special=("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
    return Engine(text, small_tokens(text))
