"""Keys and items of a shortest text that must differ: the next shortest texts of their cells in place of repeats.

The shortest text of a grammar writes every repeat of a part alike.  Where a watcher, or the schema, wants keys or items
that differ, each but the first is written anew as the shortest text of the same cell that is not there yet.
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

from grammars.regular.languages import Regular, inter, matches, neg, words
from grammars.json_schema.shapes.equality_keys import Keys, distinct
from grammars.values.watchers import UniqueNode
from grammars.shortest.instances import TooLarge

__all__ = ["Cells", "Spot", "different", "repeats", "spots"]

_MOST_TRIED = 3_000  # texts of one cell
_SHORT = 200  # characters of a text beside which all others are looked at that are not longer than what it becomes
_MOST_COMPARED = 500  # of them
_CHARACTERS_A_PART = 50  # that cost as much as asking one part for its text
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ _-."
_TOKEN = re.compile(r'\s*([\[\]{},:]|"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+)', re.DOTALL)


class Cells(Protocol):
    """What is asked of a grammar's cells, see `grammars.shortest.node_texts`."""

    parts: list[tuple[int, ...] | None]
    times: list[int]
    found: list[str | None]
    via: dict[int, int]
    terms: dict[int, Regular]

    def options(self, cell: int) -> Sequence[int]: ...
    def word(self, term: Regular) -> str | None: ...
    def count(self, characters: int = 0) -> None: ...


class Spot(NamedTuple):
    """A value of a JSON text: where it stands, and where its keys and what they or the items hold do."""

    start: int
    end: int
    kind: str
    keys: tuple[tuple[int, int], ...] = ()
    values: tuple[Spot, ...] = ()


def spots(text: str) -> Spot:
    """The values of a text that is JSON; raises `ValueError` for others."""
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
    begin, behind = _token(text, at)
    while text[begin] != closing:
        if text[begin] == ",":
            at = behind
        if closing == "}":
            keys.append(_token(text, at))
            at = _token(text, keys[-1][1])[1]
        value, at = _spot(text, at)
        values.append(value)
        begin, behind = _token(text, at)
    return Spot(start, behind, kind, tuple(keys), tuple(values)), behind


def _below(nodes: tuple[UniqueNode, ...], node: int, spot: Spot, text: str) -> Iterator[tuple[Spot, int]]:
    """What a value holds, with the number of the node that watches it."""
    own = nodes[node] if 0 <= node < len(nodes) else None
    for i, inner in enumerate(spot.values):
        if own is None:
            yield inner, -1
        elif spot.kind == "[":
            yield inner, own.prefix[i] if i < len(own.prefix) else own.items
        else:
            name = json.loads(text[slice(*spot.keys[i])], strict=False)
            yield inner, next((number for key, number in own.keys if key == name), own.others)


def repeats(text: str, nodes: tuple[UniqueNode, ...], node: int = 0) -> bool:
    """Is there a key, or an item of an array whose items must differ, that comes twice?"""
    todo = [(spots(text), node)]
    while todo:
        spot, node = todo.pop()
        own = [json.loads(text[slice(*key)], strict=False) for key in spot.keys]
        if spot.kind == "[" and 0 <= node < len(nodes) and nodes[node].unique:
            own = [json.loads(text[inner.start : inner.end], strict=False) for inner in spot.values]
        if len(distinct(own)) < len(own):
            return True
        todo += _below(nodes, node, spot, text)
    return False


def different(cells: Cells, root: int, nodes: tuple[UniqueNode, ...]) -> str | None:
    """The shortest text of a cell with its repeats written otherwise; None where that is not found."""
    written = _Written(cells, root)
    mended = written.text() if written.mend(spots(written.original), nodes, 0) else None
    size = math.inf if mended is None else len(mended.encode())
    if len(written.original) > _SHORT or size == len(written.original.encode()):
        return mended
    # Another option somewhere may be less than to mend what the shortest one repeats.
    with suppress(TooLarge, RecursionError):
        for text in itertools.islice(written.others.unused(root, {}), _MOST_COMPARED):
            if len(text.encode()) >= size:
                break
            if not repeats(text, nodes):
                return text
    return mended


class _Group:
    """Keys or items of which none may come twice: those that are ``used``, and how many texts of a cell were tried."""

    def __init__(self) -> None:
        self.used: set[object] = set()
        self.tried: dict[int, int] = {}


class _Written:
    """A text by the cells that write it; ``pieces`` may be written anew."""

    def __init__(self, cells: Cells, root: int) -> None:
        self.cells = cells
        self.others = _Others(cells)
        self.keys = Keys()
        self.pieces: list[str] = []
        self.ranges: list[tuple[int, int, int]] = []  # pieces and cell, the inner before the outer
        self._write(root)
        at = [0]
        for piece in self.pieces:
            at.append(at[-1] + len(piece))
        self.original = self.text()
        #: Cells that write a span of the original, the outermost last.
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

    def mend(self, spot: Spot, nodes: tuple[UniqueNode, ...], node: int) -> bool:
        """Write the repeats in a value of the original otherwise, the inner ones first."""
        below = list(_below(nodes, node, spot, self.original))
        if not all(self.mend(inner, nodes, number) for inner, number in below):
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
        """A key that is not used in the group, by itself or together with its value."""
        ways = [*self.cells_at.get(key, ())[-1:]]
        ways += [one for one in self.cells_from.get(key[0], ()) if key[1] < self.at[one[1]] <= end]
        return self._replace(key, ways, group, lambda text: json.JSONDecoder(strict=False).raw_decode(text)[0])

    def _other_item(self, spot: Spot, group: _Group, nodes: tuple[UniqueNode, ...], node: int) -> bool:
        def value(text: str) -> object:
            return None if repeats(text, nodes, node) else (self.keys(json.loads(text, strict=False)),)

        span = spot.start, spot.end
        return self._replace(span, self.cells_at.get(span, ())[-1:], group, value)

    def _replace(self, span: tuple[int, int], ways: Sequence[tuple[int, int, int]], group: _Group, value: Any) -> bool:
        """Put what stands there into the group, written otherwise where it is there already."""
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
        """What is written now where the span was."""
        ways = self.cells_at.get(span)
        return "".join(self.pieces[ways[0][0] : ways[0][1]]) if ways else None


class _Lazy:
    """Texts as they are asked for; none of them while the next is being worked out: it is one of its own parts."""

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
        """The texts of a cell behind the first of them that were ``tried``: so many of each cell."""
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
        """The texts of all options.  What an option has is asked for when nothing shorter is left."""
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
        """The texts of parts in order: from the shortest on, one part at a time is taken further."""
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
        """The words of a language: found by a search once, and then by other letters in the place of some."""
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
    """Words of the same size that have another letter somewhere."""
    for i, letter in enumerate(word):
        if letter not in '"\\':
            yield from (word[:i] + other + word[i + 1 :] for other in _LETTERS)
