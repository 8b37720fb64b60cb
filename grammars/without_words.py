"""Text that holds none of some words, as a regular expression without complement.

The engine takes a complement, but where it meets a counted repeat each new state costs work that grows with the
count (150 ms at one step for 4,800 characters, llguidance 1.9.1).  Marker words make it easy to do without: all begin
with one character that does not come again in them, so text falls into stretches between those characters, and a
stretch is right when it does not begin like a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

__all__ = ["without_words"]

_Trie: TypeAlias = dict[str, "_Trie"]


def without_words(words: Iterable[str]) -> str | None:
    """The pattern of all text that contains none of ``words``; None where they do not begin as markers do."""
    known = sorted(set(words))
    if not known or not all(known):
        return None
    first = known[0][0]
    if any(word[0] != first or first in word[1:] or len(word) < 2 for word in known):
        return None
    trie: _Trie = {}
    for word in known:
        node = trie
        for char in word[1:]:
            node = node.setdefault(char, {})
        node[""] = {}
    other = f"[^{re.escape(first)}]*"
    return f"{other}(?:{re.escape(first)}{_stretch(trie, first)})*"


def _stretch(node: Mapping[str, _Trie], first: str) -> str:
    """What may stand behind ``first`` and what was read to get to ``node``: it may end, or leave the words."""
    ways = [re.escape(char) + _stretch(child, first) for char, child in node.items() if "" not in child]
    barred = "".join(re.escape(char) for char in (first, *node))
    return f"(?:{'|'.join((f'[^{barred}][^{re.escape(first)}]*', *ways))})?"
