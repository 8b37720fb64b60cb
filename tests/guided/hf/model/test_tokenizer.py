"""Facts of a live tokenizer are read without asking it for its whole vocabulary."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from guided.hf.model.tokenizer import facts_of
from tests.made_up.tokenizers import MARKERS, small_tokenizer

REAL = ("qwen3", "gpt4o", "llama2")  # dense, with a hole, with added tokens among the others


def live(text: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text))


@pytest.mark.parametrize("far", [False, True])
def test_a_vocabulary_with_a_hole_is_measured_by_its_largest_id(far: bool) -> None:
    """An ordinary token after the hole, or an added one far away."""
    body = json.loads(small_tokenizer(MARKERS))
    vocab = body["model"]["vocab"]
    if far:
        body["added_tokens"][-1]["id"] += 40
    else:
        last = max(vocab, key=lambda token: vocab[token])
        vocab[last] += 60
    tokenizer = live(json.dumps(body))
    assert facts_of(tokenizer).vocab_size == max(tokenizer.get_vocab().values()) + 1


@pytest.mark.parametrize("name", REAL)
def test_size_and_lookup_are_those_of_the_vocabulary(name: str, tokenizer_folder: Callable[[str], Path]) -> None:
    tokenizer = live((tokenizer_folder(name) / "tokenizer.json").read_text(encoding="utf-8"))
    facts, vocab = facts_of(tokenizer), tokenizer.get_vocab()
    assert facts.vocab_size == max(vocab.values()) + 1
    some = [*list(vocab)[::997], *(token.text for token in facts.added)]
    assert [facts.lookup(text) for text in some] == [vocab.get(text) for text in some]
    assert facts.lookup("no such token at all") is None
