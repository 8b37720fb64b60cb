"""Token masks as packed bits: allocate, read and build them.

A bitmask is int32 ``[rows, ceil(vocab_size / 32)]``, C-contiguous, on the CPU; bit ``i % 32`` of word ``i // 32``
is 1 when token ``i`` may follow.  ``vocab_size`` is the width of the logits; bits past it are 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "allocate_bitmask",
    "allowed_ids",
    "allowed_of",
    "clear_ids",
    "from_ids",
    "is_allowed",
    "num_words",
    "only_id",
]


def num_words(vocab_size: int) -> int:
    """Return the number of 32-bit words of one row."""
    return (vocab_size + 31) // 32


def allocate_bitmask(rows: int, vocab_size: int) -> NDArray[np.int32]:
    """Return a bitmask with all bits set, padding bits included: rows that are never filled allow everything."""
    return np.full((rows, num_words(vocab_size)), -1, dtype=np.int32)


def allowed_ids(words: NDArray[np.int32]) -> list[int]:
    """Return the ids whose bits are set in one row, ascending."""
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return np.flatnonzero(bits.view(np.bool_)).tolist()


def allowed_of(words: NDArray[np.int32], token_ids: Iterable[int]) -> list[int]:
    """Return those of ``token_ids`` whose bits are set in one row."""
    items = words.data  # its items are plain integers, which numpy's are slow to become
    return [i for i in token_ids if items[i >> 5] >> (i & 31) & 1]


def clear_ids(words: NDArray[np.int32], token_ids: Iterable[int]) -> None:
    """Clear the bits of ``token_ids`` in one row."""
    items = words.view(np.uint32).data
    for i in token_ids:
        items[i >> 5] &= ~(1 << (i & 31))


def only_id(words: NDArray[np.int32]) -> int | None:
    """Return the id that alone is allowed in one row; None if there are more or none."""
    if np.count_nonzero(words) != 1:
        return None
    at = int(words.view(np.bool_).argmax()) >> 2  # bytes: the first one that is not 0 ends the search
    word = int(words[at]) & 0xFFFFFFFF
    return at * 32 + word.bit_length() - 1 if word & (word - 1) == 0 else None


def is_allowed(words: NDArray[np.int32], token_id: int) -> bool:
    """Whether the bit of ``token_id`` is set in this row."""
    return bool((int(words[token_id >> 5]) >> (token_id & 31)) & 1)


def from_ids(token_ids: Iterable[int], vocab_size: int) -> NDArray[np.int32]:
    """Return one row with exactly these bits."""
    words = np.zeros(num_words(vocab_size), dtype=np.uint32)
    view = words.data  # its items are plain integers, which numpy's are slow to become
    for i in token_ids:
        view[i >> 5] |= 1 << (i & 31)
    return words.view(np.int32)
