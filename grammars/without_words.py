"""Text that holds none of some words, as a regular expression without complement.

The engine takes a complement, but where it meets a counted repeat each new state costs work that grows with the
count (150 ms at one step for 4,800 characters, llguidance 1.9.1).  Marker words make it easy to do without: all begin
with a character that does not come again in them, so text falls into stretches between those characters, and a
stretch is right when it does not begin like a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

__all__ = ["without_words"]

_Trie: TypeAlias = dict[str, "_Trie"]


def without_words(words: Iterable[str]) -> tuple[str, ...] | None:
    """Patterns that together, as an intersection, hold all text that contains none of ``words``.

    One pattern for each character that words begin with; None where a word is not like a marker: a single character,
    or one whose first character comes again in it.
    """
    groups: dict[str, list[str]] = {}
    for word in sorted(set(words)):
        if len(word) < 2 or word[0] in word[1:]:
            return None
        groups.setdefault(word[0], []).append(word)
    return tuple(_without(first, group) for first, group in groups.items()) or None


def _without(first: str, words: Iterable[str]) -> str:
    trie: _Trie = {}
    for word in words:
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
