"""Small byte-level BPE tokenizers: every byte, some words, and the markers that a test wants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from special_tokens import AddedToken, SpecialTokens, TokenizerFacts

__all__ = ["MARKERS", "WORDS", "byte_alphabet", "live_tokenizer", "small_tokenizer", "small_tokens"]

MARKERS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|endoftext|>")

#: Words that small tokenizers know in addition to all single bytes.
WORDS = (" the", " a", "ing", "true", "false", "null", '{"', '": "', '", "', '"}', "\n\n", "think", " is", "al", "on")


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for every byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = {b: chr(b) for b in printable}
    extra = (b for b in range(256) if b not in chars)
    chars |= {b: chr(256 + n) for n, b in enumerate(extra)}
    return [chars[b] for b in range(256)]


def small_tokenizer(markers: Sequence[str], *, words: Sequence[str] = WORDS, special: Sequence[str] = ()) -> str:
    """The text of a byte-level BPE ``tokenizer.json``: every byte, some words, then the markers."""
    alphabet = byte_alphabet()
    vocab = {char: i for i, char in enumerate(alphabet)}
    merges: list[list[str]] = []
    for word in words:
        parts = [alphabet[b] for b in word.encode()]
        while len(parts) > 1:
            left, right = parts[0], parts[1]
            if left + right not in vocab:
                vocab[left + right] = len(vocab)
                merges.append([left, right])
            parts[:2] = [left + right]
    added = [
        {
            "id": len(vocab) + i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": text in special,
        }
        for i, text in enumerate(markers)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocab,
                "merges": merges,
            },
        }
    )


def live_tokenizer(text: str, **named: str) -> Any:
    """Return the tokenizer of transformers for the text of a ``tokenizer.json``, with its special tokens by name."""
    from tokenizers import Tokenizer
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
