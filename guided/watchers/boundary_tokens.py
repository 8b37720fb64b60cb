"""Tokens that end more than one JSON token, found by what they would write a second time.

Thousands of tokens of a large vocabulary hold a quote and more behind it.  Following each of them byte by byte at
every step of a string would cost milliseconds; a token can only repeat what stands in it as a whole, what was begun
before it, or itself, so the ones to be followed are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise

from guided.watchers.json_scanner import Frame, Mode, ScanState
from guided.watchers.json_escapes import canonical, unfinished

__all__ = ["Crossings"]

_SEVERAL = re.compile(rb'"[^"]*"|[,\[:]\s*[-0-9tfn]|^\s+[-0-9tfn]', re.DOTALL)
#: A number that ends in the token, or a literal that begins in it.
_WORD = re.compile(
    rb"(?:[,\[:]\s*|^\s+)(?:[-0-9][-+.0-9eE]*[^-+.0-9eE]"
    rb"|(?:t|tr|tru|f|fa|fal|fals|n|nu|nul)$|(?:true|false|null)(?:$|[^a-z]))",
    re.DOTALL,
)

#: How a token goes on inside an escape.
_ESCAPED = re.compile(rb"[nrtbfu0-9a-fA-F/\\]|$")

_Ids = dict[int, None]


class Crossings:
    """The tokens of one vocabulary that end more than one JSON token.  Build once; immutable."""

    def __init__(self, of: Sequence[bytes]) -> None:
        #: All texts are `canonical`.
        self._holding: dict[bytes, list[int]] = {}  # a string between quotes -> tokens that hold it
        self._mirrors: dict[bytes, list[int]] = {}  # how a string began -> tokens that end it and write it again
        self._spelled: list[int] = []  # tokens that may finish an escape, and write the string again
        self._alone: list[int] = []  # tokens that write something twice by themselves
        self._words: list[int] = []  # tokens with numbers and literals, which no index holds
        for i, data in enumerate(of):
            if not _SEVERAL.search(data):
                continue
            if _WORD.search(data):
                self._words.append(i)
            strings = [canonical(string) for string in _between_quotes(data)]
            if b"," in data and len(set(strings)) < len(strings):
                self._alone.append(i)
            first = data.partition(b'"')[0]
            if strings and _ESCAPED.match(first):
                self._spelled.append(i)
            first = canonical(first)
            for string in dict.fromkeys(strings):
                self._holding.setdefault(string, []).append(i)
                if string.endswith(first):
                    self._mirrors.setdefault(string.removesuffix(first), []).append(i)
        self._held = frozenset(self._holding)

    def known(self, frame: Frame | None) -> list[int]:
        """Tokens that hold a key or an item of ``frame``, or of one around it, between quotes."""
        found: _Ids = dict.fromkeys(self._alone)
        while frame is not None:
            for text in frame.seen.among(self._held):
                found.update(dict.fromkeys(self._holding[text]))
            frame = frame.parent
        return list(found)

    def mirrors(self, scan: ScanState) -> Sequence[int]:
        """Tokens that end the string that is being written, and write it again behind that."""
        if scan.mode is not Mode.STRING and scan.mode is not Mode.IN_KEY:
            return ()
        text = scan.text
        if b"\\" in text or b"\x7f" in text:
            if unfinished(text):
                return self._spelled
            text = canonical(text)
        return self._mirrors.get(text, ())

    @property
    def words(self) -> Sequence[int]:
        """Tokens in which a number ends or a literal begins behind something else."""
        return self._words


def _between_quotes(data: bytes) -> Iterable[bytes]:
    """Every piece of a token that may be a whole string, quotes left out."""
    quotes = [i for i, byte in enumerate(data) if byte == 0x22]
    pairs = combinations(quotes, 2) if b"\\" in data else pairwise(quotes)  # an escaped quote ends nothing
    return (data[a + 1 : b] for a, b in pairs)
