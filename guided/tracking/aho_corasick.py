"""Aho-Corasick: finds all of some words in one pass over symbols (bytes, or tokens), however the text is cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

__all__ = ["AhoCorasick"]

T = TypeVar("T")


class AhoCorasick(Generic[T]):
    """The automaton of ``words``, each with its output.  Node 0 is the root.

    By node: ``goto`` leads on, ``depth`` is the length of the partial match, and ``output`` that of the longest word
    that ends there, of equal words the first's.
    """

    def __init__(self, words: Iterable[tuple[Sequence[int], T]]) -> None:
        self.goto: list[dict[int, int]] = [{}]
        self.fail = [0]
        self.output: list[T | None] = [None]
        self.depth = [0]
        for word, output in words:
            self._add(word, output)
        self._link()

    def _add(self, word: Sequence[int], output: T) -> None:
        node = 0
        for symbol in word:
            if symbol not in self.goto[node]:
                self.goto[node][symbol] = len(self.goto)
                self.goto.append({})
                self.fail.append(0)
                self.output.append(None)
                self.depth.append(self.depth[node] + 1)
            node = self.goto[node][symbol]
        if word and self.output[node] is None:
            self.output[node] = output

    def _link(self) -> None:
        """Set the failure links, breadth first; a node without an output takes that of its failure link."""
        queue = deque(self.goto[0].values())
        while queue:
            node = queue.popleft()
            for symbol, child in self.goto[node].items():
                self.fail[child] = self.next(self.fail[node], symbol)
                if self.output[child] is None:
                    self.output[child] = self.output[self.fail[child]]
                queue.append(child)

    def node_of(self, symbols: Iterable[int]) -> int:
        """Return the node after these symbols, from the root."""
        node = 0
        for symbol in symbols:
            node = self.next(node, symbol)
        return node

    def next(self, node: int, symbol: int) -> int:
        """Return the node after one more symbol."""
        goto, fail = self.goto, self.fail
        while symbol not in goto[node]:
            if node == 0:
                return 0
            node = fail[node]
        return goto[node][symbol]
