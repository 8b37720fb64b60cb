"""Text that holds none of some words, as a regular expression without complement.

The engine takes a complement, but where it meets a counted repeat each new state costs work that grows with the
count (150 ms at one step for 4,800 characters, llguidance 1.9.1).  Marker words make it easy to do without: all begin
with a character that does not come again in them, so text falls into stretches between those characters, and a
stretch is right when it does not begin like a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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


def _without(first: str, words: Sequence[str]) -> str:
    trie: _Trie = {}
    for word in words:
        node = trie
        for char in word[1:]:
            node = node.setdefault(char, {})
        node[""] = {}
    other = f"[^{re.escape(first)}]*"
    stretch = _ascii_stretch if "".join(words).isascii() else _stretch
    return f"{other}(?:{re.escape(first)}{stretch(trie, first)})*"


def _stretch(node: Mapping[str, _Trie], first: str) -> str:
    """What may stand behind ``first`` and what was read to get to ``node``: it may end, or leave the words."""
    ways = [re.escape(char) + _stretch(child, first) for char, child in node.items() if "" not in child]
    barred = "".join(re.escape(char) for char in (first, *node))
    return f"(?:{'|'.join((f'[^{barred}][^{re.escape(first)}]*', *ways))})?"


def _ascii_stretch(trie: Mapping[str, _Trie], first: str) -> str:
    """The same for words of ASCII, with the characters beyond it named once.

    A class that holds them all is dozens of byte sequences, and the engine builds them for each class: 37 classes of
    the tags of a template took it 8 ms of 9.
    """
    other = f"[^{re.escape(first)}]*"
    return f"(?:{_leaves(trie, first)}{other}|{_begins(trie)}(?:[^\\x00-\\x7f]{other})?)"


def _leaves(node: Mapping[str, _Trie], first: str) -> str:
    """A beginning of a word and the ASCII character with which it goes another way."""
    barred = sorted({ord(char) for char in (first, *node)})
    ways = [re.escape(char) + _leaves(child, first) for char, child in node.items() if "" not in child]
    edges = zip([-1, *barred], [*barred, 0x80], strict=True)
    ranges = "".join(f"\\x{low + 1:02x}-\\x{high - 1:02x}" for low, high in edges if high - low > 1)
    return f"(?:{'|'.join((f'[{ranges}]', *ways))})"


def _begins(node: Mapping[str, _Trie]) -> str:
    """Any beginning of a word, nothing at all included, and no whole word."""
    ways = [re.escape(char) + _begins(child) for char, child in node.items() if "" not in child]
    return f"(?:{'|'.join(ways)})?" if ways else ""
