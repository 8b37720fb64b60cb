"""A smaller alphabet for terms that are only compared: characters that no term tells apart become one.

``\\w`` has 763 ranges, nearly all of them beyond ASCII, and a walk through derivatives looks at each.
The engine's lexer reads bytes, and after the first of a character it goes on with what that byte continues: where
``terms`` tell characters beyond ASCII apart, each of them is two of the smaller alphabet, the first for its first byte.
"""

from __future__ import annotations

from collections.abc import Iterable

from grammars.regular.terms import ALL, MAX_CODE_POINT, Ranges, Regular, alt, cat, chars, inter, neg, rep, words

__all__ = ["CompactAlphabet"]

_ASCII_END = 0x80
#: Where the characters of the smaller alphabet begin that are not first bytes: of these UTF-8 has 51.
_SINGLE = 0xC0
#: The first characters beyond ASCII of each first byte.
_LEADS = (*range(0x80, 0x800, 0x40), 0x800, *range(0x1000, 0x11000, 0x1000), *range(0x40000, 0x110000, 0x40000))
_SURROGATES = 0xD800, 0xDFFF


class CompactAlphabet:
    """A map of the characters beyond ASCII to as few as ``terms`` distinguish; ASCII stays as it is.

    `compact` takes any of these terms, and others of the same characters.  No character is left over: where the terms
    tell none beyond ASCII apart, one stands for all up to the end of Unicode.
    """

    def __init__(self, terms: Iterable[Regular]) -> None:
        self._sets: dict[Ranges, set[int]] = {}  # of characters, with those of the smaller alphabet
        for term in (ALL, *terms):
            self._collect(term)
        edges: dict[int, int] = dict.fromkeys((*_LEADS, _SURROGATES[0], _SURROGATES[1] + 1), 0)
        for bit, ranges in enumerate(self._sets):
            for low, high in ranges:
                for edge in (max(low, _ASCII_END), high + 1) if high >= _ASCII_END else ():
                    edges[edge] = edges.get(edge, 0) ^ (1 << bit)
        numbers: dict[int, int] = {}  # of the characters by the sets that they are in, as bits
        begun: dict[int, dict[int, str]] = {}  # by the first byte, those that begin with it, each with an example
        inside = 0
        for edge in sorted(edges):
            inside ^= edges[edge]
            if not _SURROGATES[0] <= edge <= _SURROGATES[1] and edge <= MAX_CODE_POINT:
                number = numbers.setdefault(inside, _SINGLE + len(numbers))
                begun.setdefault(chr(edge).encode()[0], {}).setdefault(number, chr(edge))
        alike = {frozenset(examples): examples for examples in begun.values()} if len(numbers) > 1 else {}
        self._leads = dict(enumerate(alike.values(), _ASCII_END))
        codes = list(self._sets.values())
        for bits, number in numbers.items():
            while bits:
                codes[bits.bit_length() - 1].add(number)
                bits ^= 1 << (bits.bit_length() - 1)
        self.all = self.compact(ALL)

    def examples(self, code: int, then: Iterable[tuple[int, int]] = ()) -> list[str]:
        """Return characters that ``code`` stands for, of a first byte those that go on with ``then``."""
        if code not in self._leads:
            return [chr(code)]
        rest = self._leads[code].items()
        return [char for number, char in rest if any(low <= number <= high for low, high in then)]

    def _collect(self, term: Regular) -> None:
        if term.op == "chars":
            self._sets.setdefault(term.args, set())
        elif term.op == "words":
            for char in {char for word in term.args for char in word if ord(char) >= _ASCII_END}:
                self._sets.setdefault(((ord(char), ord(char)),), set())
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
                return self._chars(kept, self._sets[args])
            case "words":
                return words("".join(map(self._char, word)) for word in args)
            case "rep":
                return rep(self.compact(args[0]), *args[1:])
            case "not":
                return inter(self.all, neg(self.compact(args[0])))
        make = {"cat": cat, "alt": alt, "and": inter}[term.op]
        return make(*map(self.compact, args))

    def _chars(self, ascii_part: list[tuple[int, int]], beyond: set[int]) -> Regular:
        if not self._leads:
            return chars([*ascii_part, *((_ASCII_END, MAX_CODE_POINT) for _ in beyond)])
        leads: dict[frozenset[int], list[tuple[int, int]]] = {}
        for lead, begun in self._leads.items():
            if after := begun.keys() & beyond:
                leads.setdefault(frozenset(after), []).append((lead, lead))
        pairs = (cat(chars(firsts), chars((code, code) for code in after)) for after, firsts in leads.items())
        return alt(chars(ascii_part), *pairs)

    def _char(self, char: str) -> str:
        code = ord(char)
        if code < _ASCII_END:
            return char
        [number] = self._sets[((code, code),)]
        return next(chr(lead) + chr(number) for lead, begun in self._leads.items() if number in begun)
