"""Aho-Corasick automaton over bytes for all stop strings of a request; it goes on where the last token ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from guided.stops.scope import Piece

__all__ = ["AhoCorasick", "CompletedStop"]


class CompletedStop(NamedTuple):
    """A stop that one token completes; it ends ``end`` bytes after the token's start and is ``length`` bytes long."""

    end: int
    length: int
    reason: str | int


class AhoCorasick:
    """Aho-Corasick over bytes.  Node 0 is the root; ``depth[node]`` is the length of the partial match, in bytes."""

    def __init__(self, strings: Iterable[str]) -> None:
        self.goto: list[dict[int, int]] = [{}]
        self.depth = [0]
        self.fail = [0]
        self.word: list[str | None] = [None]
        for string in strings:
            self._add(string)
        self._link()

    def _add(self, string: str) -> None:
        goto, node = self.goto, 0
        for byte in string.encode("utf-8"):
            target = goto[node].get(byte)
            if target is None:
                target = goto[node][byte] = len(goto)
                goto.append({})
                self.depth.append(self.depth[node] + 1)
                self.fail.append(0)
                self.word.append(None)
            node = target
        self.word[node] = string

    def _link(self) -> None:
        """Set the failure links, breadth first; a node without a word takes that of its failure link."""
        goto, fail, word = self.goto, self.fail, self.word
        queue = deque(goto[0].values())
        while queue:
            node = queue.popleft()
            if word[node] is None:
                word[node] = word[fail[node]]
            for byte, child in goto[node].items():
                back = fail[node]
                while back and byte not in goto[back]:
                    back = fail[back]
                fail[child] = goto[back].get(byte, 0)
                queue.append(child)

    def scan(self, node: int, piece: Piece) -> tuple[int, CompletedStop | None]:
        """Return the node after ``piece``, and the first stop that it completes."""
        goto, fail, word = self.goto, self.fail, self.word
        if piece.fresh:
            node = 0
        for i, byte in enumerate(piece.data):
            while node and byte not in goto[node]:
                node = fail[node]
            node = goto[node].get(byte, 0)
            found = word[node]
            if found is not None:
                return node, CompletedStop(piece.base + i + 1, len(found.encode("utf-8")), found)
        return node, None
