"""A smaller alphabet for terms that are only compared: characters that no term tells apart become one.

``\\w`` has 763 ranges, nearly all of them beyond ASCII, and a walk through derivatives looks at each.
"""

from __future__ import annotations

from collections.abc import Iterable

from grammars.regular.terms import MAX_CODE_POINT, Ranges, Regular, alt, cat, chars, inter, neg, rep, words

__all__ = ["CompactAlphabet"]

_ASCII_END = 0x80
_SURROGATES = 0xD800, 0xDFFF


class CompactAlphabet:
    """A map of the characters beyond ASCII to as few as ``terms`` distinguish; ASCII stays as it is.

    `compact` takes any of these terms, and others of the same characters.  No character is left over: the last one
    stands for all up to the end of Unicode.
    """

    def __init__(self, terms: Iterable[Regular]) -> None:
        self._sets: dict[Ranges, list[int]] = {}  # of characters, with those of the smaller alphabet
        for term in terms:
            self._collect(term)
        edges: dict[int, int] = dict.fromkeys((_ASCII_END, _SURROGATES[0], _SURROGATES[1] + 1), 0)
        for bit, ranges in enumerate(self._sets):
            for low, high in ranges:
                for edge in (max(low, _ASCII_END), high + 1) if high >= _ASCII_END else ():
                    edges[edge] = edges.get(edge, 0) ^ (1 << bit)
        self._examples: dict[int, str] = {}
        numbers: dict[int, int] = {}  # of the characters by the sets that they are in, as bits
        inside = 0
        for edge in sorted(edges):
            inside ^= edges[edge]
            if inside not in numbers and edge not in (_SURROGATES[0], MAX_CODE_POINT + 1):
                numbers[inside] = _ASCII_END + len(numbers)
                self._examples[numbers[inside]] = chr(edge)
        self._last = _ASCII_END + len(numbers) - 1
        codes = list(self._sets.values())
        for bits, number in numbers.items():
            while bits:
                codes[bits.bit_length() - 1].append(number)
                bits ^= 1 << (bits.bit_length() - 1)

    def example(self, code: int) -> str:
        """Return a character that ``code`` stands for."""
        return self._examples.get(code, chr(code))

    def _collect(self, term: Regular) -> None:
        if term.op == "chars":
            self._sets.setdefault(term.args, [])
        elif term.op == "words":
            for char in {char for word in term.args for char in word if ord(char) >= _ASCII_END}:
                self._sets.setdefault(((ord(char), ord(char)),), [])
        else:
            for part in term.args:
                if isinstance(part, Regular):
                    self._collect(part)

    def compact(self, term: Regular) -> Regular:
        """Return the term over the smaller alphabet."""
        args = term.args
        match term.op:
            case "chars":
                kept = [(low, min(high, _ASCII_END - 1)) for low, high in args if low < _ASCII_END]
                return chars([*kept, *((code, self._end(code)) for code in self._sets[args])])
            case "words":
                return words("".join(map(self._char, word)) for word in args)
            case "rep":
                return rep(self.compact(args[0]), *args[1:])
            case "not":
                return neg(self.compact(args[0]))
        make = {"cat": cat, "alt": alt, "and": inter}[term.op]
        return make(*map(self.compact, args))

    def _char(self, char: str) -> str:
        code = ord(char)
        return char if code < _ASCII_END else chr(self._sets[((code, code),)][0])

    def _end(self, code: int) -> int:
        return MAX_CODE_POINT if code == self._last else code
