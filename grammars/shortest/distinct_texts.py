"""Distinct keys and items in a shortest text: repeats are replaced by the next shortest texts of their cells.

The shortest text of a grammar writes a part that occurs several times in the same way.  Where a watcher, or the
schema, requires distinct keys or items, each but the first is replaced by the shortest text of the same cell that is
not used yet.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Protocol

from grammars.json_schema.shapes.equality_keys import EqualityKeys, distinct_values
from grammars.regular.languages import Regular, inter, matches, neg, words
from grammars.shortest.instances import TooLarge
from grammars.values.watchers import UniqueNode

__all__ = ["Cells", "Spot", "distinct_text", "has_repeats", "spots"]

_MOST_TRIED = 3_000  # texts of one cell
_SHORT = 200  # characters; for a text of at most this size other texts are compared with the corrected one
_MOST_COMPARED = 500  # other texts
_CHARACTERS_A_PART = 50  # writing this many costs as much as one part
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ _-."
_TOKEN = re.compile(r'\s*([\[\]{},:]|"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+)', re.DOTALL)


class Cells(Protocol):
    """The cells of a grammar, see `grammars.shortest.node_texts`."""

    parts: list[tuple[int, ...] | None]
    times: list[int]
    found: list[str | None]
    via: dict[int, int]
    terms: dict[int, Regular]

    def options(self, cell: int) -> Sequence[int]: ...
    def word(self, term: Regular) -> str | None: ...
    def count(self, characters: int = 0) -> None: ...


class Spot(NamedTuple):
    """The span of a value in a JSON text, with the spans of its keys and of its members or items."""

    start: int
    end: int
    kind: str
    keys: tuple[tuple[int, int], ...] = ()
    values: tuple[Spot, ...] = ()


def spots(text: str) -> Spot:
    """Return the spans of the values of a JSON text; raises `ValueError` for other texts."""
    found, at = _spot(text, 0)
    if text[at:].strip():
        raise ValueError("there is more than one value")
    return found


def _token(text: str, at: int) -> tuple[int, int]:
    found = _TOKEN.match(text, at)
    if found is None:
        raise ValueError("this is no JSON")
    return found.span(1)


def _spot(text: str, at: int) -> tuple[Spot, int]:
    start, at = _token(text, at)
    kind = text[start]
    if kind not in "[{":
        return Spot(start, at, "scalar"), at
    closing = "]" if kind == "[" else "}"
    keys: list[tuple[int, int]] = []
    values: list[Spot] = []
    begin, end = _token(text, at)
    while text[begin] != closing:
        if text[begin] == ",":
            at = end
        if closing == "}":
            keys.append(_token(text, at))
            at = _token(text, keys[-1][1])[1]
        value, at = _spot(text, at)
        values.append(value)
        begin, end = _token(text, at)
    return Spot(start, end, kind, tuple(keys), tuple(values)), end


def _below(nodes: tuple[UniqueNode, ...], node: int, spot: Spot, text: str) -> Iterator[tuple[Spot, int]]:
    """The members or items of a value, each with the number of the node that watches it."""
    own = nodes[node] if 0 <= node < len(nodes) else None
    for i, inner in enumerate(spot.values):
        if own is None:
            yield inner, -1
        elif spot.kind == "[":
            yield inner, own.prefix[i] if i < len(own.prefix) else own.items
        else:
            name = json.loads(text[slice(*spot.keys[i])], strict=False)
            yield inner, next((number for key, number in own.keys if key == name), own.others)


def has_repeats(text: str, nodes: tuple[UniqueNode, ...], node: int = 0) -> bool:
    """Whether a key, or an item of an array whose items must differ, occurs twice."""
    todo = [(spots(text), node)]
    while todo:
        spot, node = todo.pop()
        own = [json.loads(text[slice(*key)], strict=False) for key in spot.keys]
        if spot.kind == "[" and 0 <= node < len(nodes) and nodes[node].unique:
            own = [json.loads(text[inner.start : inner.end], strict=False) for inner in spot.values]
        if len(distinct_values(own)) < len(own):
            return True
        todo += _below(nodes, node, spot, text)
    return False


def distinct_text(cells: Cells, root: int, nodes: tuple[UniqueNode, ...]) -> str | None:
    """Return a shortest text of a cell without repeats; None where none is found."""
    written = _Written(cells, root)
    corrected = written.text() if written.correct(spots(written.original), nodes, 0) else None
    size = math.inf if corrected is None else len(corrected.encode())
    if len(written.original) > _SHORT or size == len(written.original.encode()):
        return corrected
    # Another option somewhere may be shorter than the shortest text with its repeats replaced.
    with suppress(TooLarge, RecursionError):
        for text in itertools.islice(written.others.unused(root, {}), _MOST_COMPARED):
            if len(text.encode()) >= size:
                break
            if not has_repeats(text, nodes):
                return text
    return corrected


class _Group:
    """Keys or items that must differ: those ``used`` already, and how many texts of each cell were tried."""

    def __init__(self) -> None:
        self.used: set[object] = set()
        self.tried: dict[int, int] = {}


class _Written:
    """A text by the cells that write it; its ``pieces`` may be replaced."""

    def __init__(self, cells: Cells, root: int) -> None:
        self.cells = cells
        self.others = _Others(cells)
        self.keys = EqualityKeys()
        self.pieces: list[str] = []
        self.ranges: list[tuple[int, int, int]] = []  # first and last piece, and cell; the inner before the outer
        self._write(root)
        at = [0]
        for piece in self.pieces:
            at.append(at[-1] + len(piece))
        self.original = self.text()
        #: The cells that write a span of the original, the outermost last.
        self.cells_at: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self.cells_from: dict[int, list[tuple[int, int, int]]] = {}
        for one in self.ranges:
            if at[one[0]] < at[one[1]]:
                self.cells_at.setdefault((at[one[0]], at[one[1]]), []).append(one)
                self.cells_from.setdefault(at[one[0]], []).append(one)
        self.at = at

    def _write(self, cell: int) -> None:
        begin = len(self.pieces)
        parts, cells = self.cells.parts[cell], self.cells
        if parts is not None:
            for _ in range(cells.times[cell]):
                for part in parts:
                    self._write(part)
        elif cell in cells.via:
            self._write(cells.via[cell])
        else:
            self.pieces.append(cells.found[cell] or "")
        self.ranges.append((begin, len(self.pieces), cell))

    def text(self) -> str:
        return "".join(self.pieces)

    def correct(self, spot: Spot, nodes: tuple[UniqueNode, ...], node: int) -> bool:
        """Replace the repeats in a value of the original, the inner ones first; False where that fails."""
        below = list(_below(nodes, node, spot, self.original))
        if not all(self.correct(inner, nodes, number) for inner, number in below):
            return False
        is_unique = 0 <= node < len(nodes) and nodes[node].unique
        group = _Group()
        if spot.kind == "{":
            ends = [*(begin for begin, _ in spot.keys[1:]), spot.end - 1]
            return all(self._other_key(key, end, group) for key, end in zip(spot.keys, ends, strict=False))
        if spot.kind == "[" and is_unique:
            return all(self._other_item(inner, group, nodes, number) for inner, number in below)
        return True

    def _other_key(self, key: tuple[int, int], end: int, group: _Group) -> bool:
        """Put a key into the group, replaced, alone or together with its value, where it is used already."""
        ways = [*self.cells_at.get(key, ())[-1:]]
        ways += [one for one in self.cells_from.get(key[0], ()) if key[1] < self.at[one[1]] <= end]
        return self._replace(key, ways, group, lambda text: json.JSONDecoder(strict=False).raw_decode(text)[0])

    def _other_item(self, spot: Spot, group: _Group, nodes: tuple[UniqueNode, ...], node: int) -> bool:
        def value(text: str) -> object:
            return None if has_repeats(text, nodes, node) else (self.keys(json.loads(text, strict=False)),)

        span = spot.start, spot.end
        return self._replace(span, self.cells_at.get(span, ())[-1:], group, value)

    def _replace(self, span: tuple[int, int], ways: Sequence[tuple[int, int, int]], group: _Group, value: Any) -> bool:
        """Put the value of a span into the group, replaced where it is used already; False where that fails."""
        used, own = group.used, self._piece(span)
        if own is None:
            return False
        first = value(own)
        if first is not None and first not in used:
            used.add(first)
            return True
        for begin, end, cell in ways:
            for text in self.others.unused(cell, group.tried):
                found = value(text)
                if found is not None and found not in used:
                    used.add(found)
                    self.pieces[begin:end] = [text, *[""] * (end - begin - 1)]
                    return True
        return False

    def _piece(self, span: tuple[int, int]) -> str | None:
        """The present text of a span of the original."""
        ways = self.cells_at.get(span)
        return "".join(self.pieces[ways[0][0] : ways[0][1]]) if ways else None


class _Lazy:
    """Texts computed on demand; None while the next is being computed, when it is asked for as one of its own parts."""

    def __init__(self, source: Iterator[str]) -> None:
        self.texts: list[str] = []
        self.source = source
        self.is_busy = False

    def at(self, index: int) -> str | None:
        while len(self.texts) <= index:
            if self.is_busy:
                return None
            self.is_busy = True
            try:
                found = next(self.source, None)
            finally:
                self.is_busy = False
            if found is None:
                return None
            self.texts.append(found)
        return self.texts[index]


class _Others:
    """All texts of each cell, the shortest first."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.known: dict[int, _Lazy] = {}

    def unused(self, cell: int, tried: dict[int, int]) -> Iterator[str]:
        """The texts of a cell after those already ``tried``, a count by cell, which is kept up to date."""
        texts = self.of(cell)
        index = tried.get(cell, 0)
        while index < _MOST_TRIED and (text := texts.at(index)) is not None:
            index += 1
            tried[cell] = index
            yield text

    def of(self, cell: int) -> _Lazy:
        known = self.known.get(cell)
        if known is None:
            known = self.known[cell] = _Lazy(self._texts(cell))
        return known

    def _texts(self, cell: int) -> Iterator[str]:
        parts = self.cells.parts[cell]
        if parts is not None:
            return self._together(parts * self.cells.times[cell])
        term = self.cells.terms.get(cell)
        if term is not None:
            return self._words(term)
        options = self.cells.options(cell)
        own = self.cells.found[cell]
        return self._merged(options) if options else iter(() if own is None else (own,))

    def _merged(self, options: Sequence[int]) -> Iterator[str]:
        """The texts of all options; the next text of an option is computed when no shorter one is left."""
        heap = [
            (len((self.cells.found[at] or "").encode()), at, 0) for at in options if self.cells.found[at] is not None
        ]
        heapify(heap)
        done: set[str] = set()
        while heap:
            self.cells.count()
            size, at, index = heappop(heap)
            text = self.of(at).at(index)
            if text is None:
                continue
            if len(text.encode()) > size:
                heappush(heap, (len(text.encode()), at, index))
                continue
            heappush(heap, (size, at, index + 1))
            if text not in done:
                done.add(text)
                yield text

    def _together(self, parts: tuple[int, ...]) -> Iterator[str]:
        """The texts of parts in order, shortest first: each step replaces the text of one part by its next one."""
        heap: list[tuple[int, tuple[int, ...], str]] = []
        done: set[tuple[int, ...]] = set()

        def offer(indexes: tuple[int, ...]) -> None:
            self.cells.count(_CHARACTERS_A_PART * len(parts))
            texts = [self.of(part).at(index) for part, index in zip(parts, indexes, strict=True)]
            whole = [text for text in texts if text is not None]
            if len(whole) == len(parts) and indexes not in done:
                done.add(indexes)
                heappush(heap, (len("".join(whole).encode()), indexes, "".join(whole)))

        offer((0,) * len(parts))
        while heap:
            self.cells.count()
            _, indexes, text = heappop(heap)
            yield text
            for i, index in enumerate(indexes):
                offer((*indexes[:i], index + 1, *indexes[i + 1 :]))

    def _words(self, term: Regular) -> Iterator[str]:
        """The words of a language: after each word that a search finds, those with one letter replaced."""
        if term.op == "words":
            yield from sorted(term.args, key=lambda word: (len(word.encode()), word))
            return
        done: set[str] = set()
        while True:
            word = self.cells.word(inter(term, neg(words(done))) if done else term)
            if word is None:
                return
            done.add(word)
            yield word
            for other in _alike(word):
                self.cells.count()
                if other not in done and matches(term, other):
                    done.add(other)
                    yield other


def _alike(word: str) -> Iterator[str]:
    """Words of the same length that differ in one letter."""
    for i, letter in enumerate(word):
        if letter not in '"\\':
            yield from (word[:i] + other + word[i + 1 :] for other in _LETTERS)
