"""An index of the tokens that span a JSON boundary (end more than one JSON token), by the texts they would repeat.

Thousands of tokens of a large vocabulary contain a quote followed by more text.  Scanning each of them byte by byte at
every step of a string would cost milliseconds.  Such a token can only repeat a string that it contains whole, the
string that was begun before it, or a part of itself, so the candidates are looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise

from grammars.values.json_escapes import canonical, split_escape
from grammars.values.json_scanner import ScanFrame

__all__ = ["BoundaryTokens"]

_SEVERAL = re.compile(rb'"[^"]*"|[,\[:]\s*[-0-9tfn]|^\s+[-0-9tfn]', re.DOTALL)
#: A number that ends in the token, or a literal that begins in it.
_WORD = re.compile(
    rb"(?:[,\[:]\s*|^\s+)(?:[-0-9][-+.0-9eE]*[^-+.0-9eE]"
    rb"|(?:t|tr|tru|f|fa|fal|fals|n|nu|nul)$|(?:true|false|null)(?:$|[^a-z]))",
    re.DOTALL,
)

#: The beginning of a token that continues an escape.
_ESCAPED = re.compile(rb"[nrtbfu0-9a-fA-F/\\]|$")

_Ids = dict[int, None]


class BoundaryTokens:
    """The tokens of one vocabulary that span a JSON boundary.  Build once; immutable."""

    def __init__(self, of: Sequence[bytes]) -> None:
        #: All texts are `canonical`.
        self._holding: dict[bytes, list[int]] = {}  # a string between quotes -> tokens that contain it
        self._repeating: dict[bytes, list[int]] = {}  # beginning of a string -> tokens that end it and write it again
        self._after_escape: list[int] = []  # tokens that may finish an escape and write the string again
        self._two_items: list[int] = []  # tokens that contain a string twice
        self._two_keys: list[int] = []  # those of them that may contain a key twice
        self._with_scalars: list[int] = []  # tokens with numbers or literals: not indexed by text
        for i, data in enumerate(of):
            if not _SEVERAL.search(data):
                continue
            if _WORD.search(data):
                self._with_scalars.append(i)
            strings = [canonical(string) for string in _between_quotes(data)]
            if b"," in data and len(set(strings)) < len(strings):
                self._two_items.append(i)
                if b":" in data:
                    self._two_keys.append(i)
            first = data.partition(b'"')[0]
            if strings and _ESCAPED.match(first):
                self._after_escape.append(i)
            first = canonical(first)
            for string in dict.fromkeys(strings):
                self._holding.setdefault(string, []).append(i)
                if string.endswith(first):
                    self._repeating.setdefault(string.removesuffix(first), []).append(i)
        self._held: frozenset[bytes] = frozenset(self._holding)

    def holding(self, value: object) -> Sequence[int]:
        """Tokens that contain a key or an item in quotes."""
        text = value[1] if isinstance(value, tuple) else value
        return self._holding.get(text, ()) if isinstance(text, bytes) else ()

    def holding_written(self, frame: ScanFrame | None, has_items: bool) -> list[int]:
        """Tokens that contain, in quotes, a key or an item of ``frame`` or of a frame around it.

        Without ``has_items`` only keys are compared.
        """
        token_ids: _Ids = dict.fromkeys(self._two_items if has_items else self._two_keys)
        while frame is not None:
            for text in frame.written.intersection(self._held):
                token_ids.update(dict.fromkeys(self._holding[text]))
            frame = frame.parent
        return list(token_ids)

    def repeating_current(self, text: bytes) -> Sequence[int]:
        """Tokens that end the current string, of which ``text`` is written, and then write it again."""
        start, begun = split_escape(text)
        return self._after_escape if begun else self._repeating.get(start, ())

    @property
    def with_scalars(self) -> Sequence[int]:
        """Tokens in which a number ends, or a literal begins after another part."""
        return self._with_scalars


def _between_quotes(data: bytes) -> Iterable[bytes]:
    """Every part of a token that may be a whole string, without its quotes."""
    quotes = [i for i, byte in enumerate(data) if byte == 0x22]
    pairs = combinations(quotes, 2) if b"\\" in data else pairwise(quotes)  # an escaped quote ends nothing
    return (data[a + 1 : b] for a, b in pairs)
