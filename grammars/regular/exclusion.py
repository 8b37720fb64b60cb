"""Regular expressions, free of complement, for text that contains none of some words.

The engine supports complement, but combined with a counted repeat each new state costs work that grows with the count
(150 ms at one step for 4,800 characters, llguidance 1.9.1).  Marker words make complement easy to avoid: each begins
with a character that does not occur again in it, so text is a sequence of stretches that begin with that character,
and a stretch is allowed if it does not begin like a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

__all__ = ["exclusion_patterns"]

_Trie: TypeAlias = dict[str, "_Trie"]


def exclusion_patterns(words: Iterable[str]) -> tuple[str, ...] | None:
    """Return patterns whose intersection is all text that contains none of ``words``.

    One pattern for each first character of the words.  None if a word is not like a marker: a single character, or one
    whose first character occurs again in it.
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
    """A pattern for what may follow ``first`` and the path to ``node``: nothing, or text that leaves the words."""
    ways = [re.escape(char) + _stretch(child, first) for char, child in node.items() if "" not in child]
    barred = "".join(re.escape(char) for char in (first, *node))
    return f"(?:{'|'.join((f'[^{barred}][^{re.escape(first)}]*', *ways))})?"


def _ascii_stretch(trie: Mapping[str, _Trie], first: str) -> str:
    """`_stretch` for words of ASCII, naming the class of non-ASCII characters only once.

    A class with all of them is dozens of byte sequences, which the engine builds for each class: for the tags of one
    template, 37 such classes took 8 of 9 ms.
    """
    other = f"[^{re.escape(first)}]*"
    return f"(?:{_leaves(trie, first)}{other}|{_begins(trie)}(?:[^\\x00-\\x7f]{other})?)"


def _leaves(node: Mapping[str, _Trie], first: str) -> str:
    """A pattern for a prefix of a word and an ASCII character that leaves all words."""
    barred = sorted({ord(char) for char in (first, *node)})
    ways = [re.escape(char) + _leaves(child, first) for char, child in node.items() if "" not in child]
    edges = zip([-1, *barred], [*barred, 0x80], strict=True)
    ranges = "".join(f"\\x{low + 1:02x}-\\x{high - 1:02x}" for low, high in edges if high - low > 1)
    return f"(?:{'|'.join((f'[{ranges}]', *ways))})"


def _begins(node: Mapping[str, _Trie]) -> str:
    """A pattern for any proper prefix of a word, the empty one included."""
    ways = [re.escape(char) + _begins(child) for char, child in node.items() if "" not in child]
    return f"(?:{'|'.join(ways)})?" if ways else ""
