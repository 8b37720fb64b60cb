"""A tokenizer of single bytes and given markers, for checks that have no real tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from special_tokens import AddedToken, SpecialTokens, TokenizerFacts

__all__ = ["byte_tokenizer"]


#: The end token that the engine gets: no format uses it, because a grammar cannot contain the engine's own end token.
_ENGINE_END = "<|end_of_bytes|>"


@lru_cache(maxsize=64)
def byte_tokenizer(markers: tuple[str, ...], ends: tuple[str, ...] = ()) -> tuple[str, SpecialTokens]:
    """Return the text of a ``tokenizer.json`` and its registry: 256 bytes, then the markers, all of them special.

    ``ends`` are the markers that end a turn.
    """
    alphabet = _byte_alphabet()
    marker_texts = tuple(dict.fromkeys((_ENGINE_END, *markers)))
    added = tuple(AddedToken(len(alphabet) + i, text, True) for i, text in enumerate(marker_texts))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    body = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_entry(token) for token in added],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {char: i for i, char in enumerate(alphabet)}, "merges": []},
    }
    ids = {token.text: token.id for token in added}
    eos = tuple(ids[text] for text in (_ENGINE_END, *ends) if text in ids)
    size = len(alphabet) + len(added)
    return json.dumps(body), SpecialTokens(TokenizerFacts(added, size, generation_eos=eos))


def _entry(token: AddedToken) -> dict[str, object]:
    flags: dict[str, object] = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token.id, "content": token.text, "special": token.special, **flags}


def _byte_alphabet() -> list[str]:
    """GPT-2's printable character for every byte."""
    printable: Iterable[int] = (*range(33, 127), *range(161, 173), *range(174, 256))
    chars = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in chars)
    chars |= {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [chars[byte] for byte in range(256)]
