"""Small byte-level BPE tokenizers: every byte, some words, and the markers that a test wants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tokenizers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from special_tokens import AddedToken, SpecialTokens, TokenizerFacts

__all__ = ["MARKERS", "WORDS", "live_tokenizer", "small_tokenizer", "small_tokens"]

MARKERS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|endoftext|>")

#: Words that small tokenizers know in addition to all single bytes.
WORDS = (" the", " a", "ing", "true", "false", "null", '{"', '": "', '", "', '"}', "\n\n", "think", " is", "al", "on")


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for every byte: its own, or the next one from U+0100 on."""
    chars = sorted(pre_tokenizers.ByteLevel.alphabet())
    others = (char for char in chars if ord(char) > 255)
    return [chr(byte) if chr(byte) in chars else next(others) for byte in range(256)]


def small_tokenizer(markers: Sequence[str], *, words: Sequence[str] = WORDS, special: Sequence[str] = ()) -> str:
    """The text of a byte-level BPE ``tokenizer.json``: every byte, some words, then the markers."""
    alphabet = byte_alphabet()
    vocab = {char: i for i, char in enumerate(alphabet)}
    merges: list[tuple[str, str]] = []
    for word in words:
        parts = [alphabet[b] for b in word.encode()]
        while len(parts) > 1:
            left, right = parts[0], parts[1]
            if left + right not in vocab:
                vocab[left + right] = len(vocab)
                merges.append((left, right))
            parts[:2] = [left + right]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([tokenizers.AddedToken(text, normalized=False, special=text in special) for text in markers])
    return str(tokenizer.to_str())


def live_tokenizer(text: str, **named: str) -> Any:
    """Return the tokenizer of transformers for the text of a ``tokenizer.json``, with its special tokens by name."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text), **named)


def small_tokens(tokenizer: str, *, eos: Sequence[str] = ("<|im_end|>",), logits: int | None = None) -> SpecialTokens:
    """The registry of a small tokenizer."""
    body = json.loads(tokenizer)
    added = tuple(AddedToken(t["id"], t["content"], t["special"]) for t in body["added_tokens"])
    ids = {token.text: token.id for token in added}
    vocab = body["model"]["vocab"]
    size = max([*vocab.values(), *ids.values()]) + 1
    return SpecialTokens(
        TokenizerFacts(added, size, logits, generation_eos=tuple(ids[text] for text in eos), lookup=vocab.get)
    )
