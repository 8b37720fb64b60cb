"""An index of a vocabulary for the run-time watchers: its ordinary tokens by bytes, in the groups that they need."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from grammars.values.json_escapes import canonical, split_escape
from grammars.values.json_scanner import NUMBER_BYTES, ScanFrame
from guided.engine.engine import Engine

__all__ = ["BoundaryTokens", "PrefixTokens", "VocabularyIndex"]

_UNCLOSED = rb'(?:[^"\\]|\\.)*\\?'  # the content of an unclosed string


class PrefixTokens:
    """Tokens that open a string and do not end it, by the part of the string that they write."""

    def __init__(self, texts: Iterable[tuple[bytes, int]]) -> None:
        self.ids: dict[bytes, list[int]] = {}
        for text, i in texts:
            self.ids.setdefault(text, []).append(i)
        self._prefixes = {text[:size] for text in self.ids for size in range(len(text) + 1)}

    def has_prefix(self, text: bytes) -> bool:
        """Whether a token writes ``text``, and perhaps more."""
        return text in self._prefixes

    def prefixes_of(self, text: bytes) -> list[int]:
        """Return the ids of the tokens that write a prefix of ``text``, or all of it."""
        token_ids: list[int] = []
        for size in range(len(text) + 1):
            if text[:size] not in self._prefixes:
                break
            token_ids += self.ids.get(text[:size], ())
        return token_ids


class VocabularyIndex:
    """The ordinary tokens of an engine's vocabulary by their bytes; `Engine.derived` keeps one index.

    Each group is built on first use (all of them: about 0.5 s for 200k tokens).
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @cached_property
    def token_bytes(self) -> Sequence[bytes]:
        """The bytes of each id, empty for markers and padding."""
        decode, markers = self._engine.ll_tokenizer.decode_bytes, self._engine.tokens.marker_ids
        return [b"" if i in markers else bytes(decode([i])) for i in range(self._engine.vocab_size)]

    @cached_property
    def _sorted(self) -> list[tuple[bytes, int]]:
        of = self.token_bytes
        return [(of[i], i) for i in sorted(range(len(of)), key=of.__getitem__) if of[i]]

    @cached_property
    def ids(self) -> dict[bytes, list[int]]:
        """Ids by bytes."""
        ids_of_text: dict[bytes, list[int]] = {}
        for i, data in enumerate(self.token_bytes):
            if data:
                ids_of_text.setdefault(data, []).append(i)
        return ids_of_text

    @cached_property
    def boundary_tokens(self) -> BoundaryTokens:
        """Tokens that may span a JSON boundary; they are scanned byte by byte."""
        return BoundaryTokens(self.token_bytes)

    @cached_property
    def _text(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes of all tokens, concatenated, and the offset of each."""
        sizes = np.fromiter(map(len, self.token_bytes), dtype=np.int64, count=len(self.token_bytes))
        return np.frombuffer(b"".join(self.token_bytes), dtype=np.uint8), np.cumsum(sizes) - sizes

    def holding(self, letters: bytes) -> NDArray[np.int64]:
        """Ids of the tokens that contain one of these bytes, ascending: a fast filter before a regex."""
        text, starts = self._text
        at = np.flatnonzero(_table(letters)[text])
        return np.unique(np.searchsorted(starts, at, side="right") - 1)

    def _beginning(self, letters: bytes) -> NDArray[np.int64]:
        """Ids of the tokens that begin with one of these bytes, ascending."""
        text, starts = self._text
        full = np.flatnonzero(np.diff(starts, append=len(text)))
        return full[_table(letters)[text[starts[full]]]]

    @cached_property
    def number_ends(self) -> dict[bytes, list[int]]:
        """Tokens that end a number, by the part of the number that they add."""
        ending = re.compile(rb"([-+.0-9eE]*)[,\]}\s]")
        groups: dict[bytes, list[int]] = {}
        for i in self._beginning(NUMBER_BYTES + b",]} \t\n\r\v\f").tolist():
            match = ending.match(self.token_bytes[i])
            if match is not None:
                groups.setdefault(match.group(1), []).append(i)
        return groups

    @cached_property
    def after_numbers(self) -> list[int]:
        """A few tokens, one of which mostly may follow a number that is complete."""
        return [i for data in (b",", b", ", b"}", b"]") for i in self.ids.get(data, ())[:1]]

    @cached_property
    def exponents_of_zero(self) -> list[int]:
        """Tokens that write an exponent after nothing but zeros."""
        exponent = re.compile(rb"[-\s.0]*[eE]")
        return [i for i in self.holding(b"eE").tolist() if exponent.match(self.token_bytes[i])]

    @cached_property
    def key_beginnings(self) -> PrefixTokens:
        """Tokens that begin a key where one comes next, by the text after its quote."""
        pattern = re.compile(rb'[ \t\n\r]*"(' + _UNCLOSED + rb")", re.DOTALL)
        ids = self.holding(b'"').tolist()
        return PrefixTokens((m.group(1), i) for i in ids if (m := pattern.fullmatch(self.token_bytes[i])) is not None)

    @cached_property
    def string_ends(self) -> dict[bytes, list[int]]:
        """Tokens that end a string, by the text before its quote; not valid in the middle of an escape."""
        pattern = re.compile(rb'((?:[^"\\]|\\.)*)"', re.DOTALL)
        groups: dict[bytes, list[int]] = {}
        for i in self.holding(b'"').tolist():
            if (m := pattern.match(self.token_bytes[i])) is not None:
                groups.setdefault(m.group(1), []).append(i)
        return groups

    @cached_property
    def next_value_beginnings(self) -> list[int]:
        """Tokens that end something and write the beginning of the next string or number."""
        blank = rb"[ \t\n\r]*"
        pattern = re.compile(rb".*," + blank + rb'(?:"(?!$)' + _UNCLOSED + rb"|[-0-9][-+.0-9eE]*)", re.DOTALL)
        return [i for i in self.holding(b",").tolist() if pattern.fullmatch(self.token_bytes[i])]

    @cached_property
    def member_crossings(self) -> list[int]:
        """Tokens that end a key, hold its value, and end before or in the next key: `": 1, "a`."""
        pattern = re.compile(rb'.*"[ \t\n\r]*:.*,[ \t\n\r]*(?:"' + _UNCLOSED + rb")?", re.DOTALL)
        return [i for i in self.holding(b":").tolist() if pattern.fullmatch(self.token_bytes[i])]

    @cached_property
    def commas(self) -> list[int]:
        """Tokens that end with a comma, or with the quote that begins the next key or item."""
        last = re.compile(rb',[ \t\n\r]*"?$')
        return [i for i in self.holding(b",").tolist() if last.search(self.token_bytes[i])]

    @cached_property
    def blanks(self) -> list[int]:
        """Tokens of white space only."""
        return [i for i in self._beginning(b" \t\n\r").tolist() if not self.token_bytes[i].strip(b" \t\n\r")]

    def has_prefix(self, prefix: bytes) -> bool:
        """Whether a token begins with ``prefix``."""
        start = bisect_left(self._sorted, (prefix, -1))
        return start < len(self._sorted) and self._sorted[start][0].startswith(prefix)

    def prefixes_of(self, text: bytes) -> list[int]:
        """Return the ids of the tokens that are a prefix of ``text``, or all of it."""
        ids = self.ids
        token_ids: list[int] = []
        for size in range(1, min(len(text), self._longest) + 1):
            token_ids += ids.get(text[:size], ())
        return token_ids

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.token_bytes), default=0)

    @cached_property
    def max_number_part(self) -> int:
        """The length of the longest token that is part of a number only, leading white space included, in bytes."""
        part = re.compile(rb"[ \t\n\r]*[-+.0-9eE]+")
        return max(
            (
                len(self.token_bytes[i])
                for i in self.holding(NUMBER_BYTES).tolist()
                if part.fullmatch(self.token_bytes[i])
            ),
            default=1,
        )

    @cached_property
    def all_digits(self) -> list[int]:
        """Tokens of digits only."""
        return [i for i in self._beginning(b"0123456789").tolist() if self.token_bytes[i].isdigit()]

    def with_prefix(self, prefix: bytes) -> list[int]:
        """Return the ids of the tokens that begin with ``prefix``."""
        start = bisect_left(self._sorted, (prefix, -1))
        token_ids = []
        for data, i in self._sorted[start:]:
            if not data.startswith(prefix):
                break
            token_ids.append(i)
        return token_ids


def _table(letters: bytes) -> NDArray[np.bool_]:
    """Return for each byte whether it is one of ``letters``."""
    table = np.zeros(256, dtype=np.bool_)
    table[list(letters)] = True
    return table


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
    """The tokens of one vocabulary that end more than one JSON token, by the texts they would repeat.  Immutable.

    Thousands of tokens of a large vocabulary contain a quote followed by more text.  Scanning each of them byte by byte
    at every step of a string would cost milliseconds.  Such a token can only repeat a string that it contains whole,
    the string that was begun before it, or a part of itself, so the candidates are looked up here.
    """

    def __init__(self, of: Sequence[bytes]) -> None:
        #: All texts are `canonical`.
        self._holding: dict[bytes, list[int]] = {}  # a string between quotes -> tokens that contain it
        self._repeating: dict[bytes, list[int]] = {}  # beginning of a string -> tokens that end it and write it again
        self._after_escape: list[int] = []  # tokens that may finish an escape and write the string again
        self._two_items: list[int] = []  # tokens that contain a string twice
        self._two_keys: list[int] = []  # those of them that may contain a key twice
        #: Tokens in which a number ends, or a literal begins after another part: not indexed by text.
        self.with_scalars: list[int] = []
        for i, data in enumerate(of):
            if not _SEVERAL.search(data):
                continue
            if _WORD.search(data):
                self.with_scalars.append(i)
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


def _between_quotes(data: bytes) -> Iterable[bytes]:
    """Every part of a token that may be a whole string, without its quotes."""
    quotes = [i for i, byte in enumerate(data) if byte == 0x22]
    pairs = combinations(quotes, 2) if b"\\" in data else pairwise(quotes)  # an escaped quote ends nothing
    return (data[a + 1 : b] for a, b in pairs)
