"""Tokenise a prompt that continues an earlier one by reading only its new part.

A fast tokenizer splits a text at its added tokens first, so the tokens before such a boundary do not depend on the text
after it.  This is checked once per tokenizer; if it does not hold, every prompt is read as a whole.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

__all__ = ["IncrementalTokenizer"]

#: Prompts remembered: as many conversations are read incrementally at the same time.
_MAX_PROMPTS = 16

#: Shorter texts are read whole: that takes less than a millisecond.
_MIN_CHARACTERS = 1000

#: A tokenizer of transformers keeps the options of a call in itself: other threads would read with them.
_one_at_a_time = threading.Lock()


class IncrementalTokenizer:
    """A transformers tokenizer that remembers the prompts it has read; other attributes are those of ``tokenizer``."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._ids_by_prompt: OrderedDict[str, list[int]] = OrderedDict()
        texts = [token.content for token in tokenizer.added_tokens_decoder.values()]
        self._boundaries: dict[str, int] = {
            token.content: int(i)
            for i, token in tokenizer.added_tokens_decoder.items()
            if token.special
            and not (token.lstrip or token.rstrip or token.single_word)
            and not any(token.content in text for text in texts if text != token.content)
        }
        self.is_incremental: bool | None = None  # not checked yet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, text: str, **options: Any) -> Any:
        """Return what the tokenizer returns; of a known beginning only the rest is read."""
        if options != {"add_special_tokens": False} or len(text) < _MIN_CHARACTERS or self.is_incremental is False:
            return self._call(text, **options)
        cached = self._ids_by_prompt  # another one after `forget`
        ids = self._read(text)
        with self._lock:
            cached[text] = ids
            cached.move_to_end(text)
            while len(cached) > _MAX_PROMPTS:
                cached.popitem(last=False)
        return {"input_ids": list(ids)}

    def _call(self, text: str, **options: Any) -> Any:
        with _one_at_a_time:
            return self._tokenizer(text, **options)

    def forget(self) -> None:
        """Remember no prompt, nor those that are being read."""
        self._ids_by_prompt = OrderedDict()

    def _whole(self, text: str) -> list[int]:
        return list(self._call(text, add_special_tokens=False)["input_ids"])

    def _read(self, text: str) -> list[int]:
        with self._lock:
            cached = list(self._ids_by_prompt.items())
        shared, old, before = max(
            ((_num_common(text, old), old, ids) for old, ids in cached), default=(0, "", []), key=lambda k: k[0]
        )
        at, boundary = max(((text.rfind(mark, 0, shared), mark) for mark in self._boundaries), default=(-1, ""))
        if at <= 0:
            return self._whole(text)
        token = self._boundaries[boundary]
        number = text.count(boundary, 0, at)
        places = [i for i, other in enumerate(before) if other == token]
        if len(places) != old.count(boundary):  # the text spells the token without being it, or otherwise
            return self._whole(text)
        ids = before[: places[number]] + self._whole(text[at:])
        if self.is_incremental is None:
            whole = self._whole(text)
            self.is_incremental = ids == whole
            return whole
        return ids


def _num_common(one: str, other: str) -> int:
    """Return the length of the common prefix, by halving: slices are compared at once."""
    low, high = 0, min(len(one), len(other)) + 1
    while low < high - 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
