"""Translate regular expressions of Rust's ``regex`` syntax into languages: those of the engine and of pydantic.

`language(pattern)` is what the pattern of a whole lexeme matches.  It answers what the engine cannot answer in time: a
shortest word, whether two lexemes can match the same text, whether a lexeme can ever end.  Nothing is accepted or
refused by it alone: it raises `NotTranslated` for what it does not understand, and the pattern always goes to the
engine.  `searched(pattern)` is the strings in which a pattern of pydantic is found.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import chain
from typing import cast

from grammars.regular.syntax.assertions import lowered
from grammars.regular.syntax.character_classes import CLASSES, EVERY, category
from grammars.regular.syntax.ecma_tree import END, START, Boundary, NotRegular, Tree
from grammars.regular.syntax.parser import MAX_COUNT, MAX_PATTERN, InvalidRegex, PatternParser, both_sides
from grammars.regular.terms import EPS, MAX_CODE_POINT, Ranges, Regular, chars, ranges_minus

__all__ = ["InvalidRegex", "NotTranslated", "approximate_language", "language", "searched"]


class _TooMany(InvalidRegex):
    """A limit of the engine, or of ours."""


class NotTranslated(ValueError):
    """The pattern uses something that only the engine understands (Unicode classes, word boundaries ...)."""


class LooksAround(NotTranslated):
    """The pattern looks around a lexeme, which the engine's lexer cannot."""


_ESCAPES = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B, "a": 0x07, "0": 0x00}
_OPERATORS = ("&&", "--", "~~")


@lru_cache(maxsize=2_000)
def language(pattern: str, flags: str = "") -> Regular:
    """Return the language of the pattern of a whole lexeme; raises `InvalidRegex` or `NotTranslated`."""
    if len(pattern) > 20_000:
        raise NotTranslated("more than 20,000 characters")
    try:
        return cast(Regular, _parsed(_Parser(pattern), flags))
    except NotRegular as error:
        raise NotTranslated(str(error)) from None


@lru_cache(maxsize=500)
def searched(pattern: str, *, plain_classes: bool = False) -> Regular:
    """Return the strings in which the pattern is found; raises `InvalidRegex` or `NotTranslated`.

    ``plain_classes``: classes and word boundaries are those of ECMA-262.
    """
    parser = _Parser(pattern, search=True)
    parser.classes = CLASSES.__getitem__ if plain_classes else _unicode_class
    try:
        return lowered(_parsed(parser, ""), parser.classes("w"))
    except NotRegular as error:
        raise NotTranslated(str(error)) from None


@lru_cache(maxsize=500)
def approximate_language(pattern: str, flags: str = "") -> Regular:
    """Return a language of about the same size.

    A part that only the engine understands becomes any character, or nothing if it matches no text.  Raises
    `InvalidRegex` for an invalid pattern or one past a limit; a pattern that only the engine understands is checked
    for limits alone.
    """
    if len(pattern) > MAX_PATTERN:
        raise _TooMany(f"the pattern has {len(pattern)} characters, more than {MAX_PATTERN}", 0)
    try:
        return language(pattern, flags)
    except NotTranslated:
        pass
    try:
        return cast(Regular, _parsed(_Parser(pattern, strict=False), flags))
    except _TooMany:
        raise
    except (InvalidRegex, NotRegular):
        return EPS


def _parsed(parser: _Parser, flags: str) -> Tree:
    parser.flags = frozenset(flags) & {"s", "i", "x"}
    return parser.parse()


class _Parser(PatternParser):
    """``search``: anchors and word boundaries are kept, and names of Unicode classes are read."""

    looks: Mapping[str, tuple[bool, bool]] = {}
    refused = dict.fromkeys(("?=", "?!", "?<=", "?<!"), "look-around")
    repeats = "*+?{"
    stacks = True
    not_ends = frozenset(("]", "-", ""))

    def __init__(self, pattern: str, *, strict: bool = True, search: bool = False) -> None:
        super().__init__(pattern)
        self.strict = strict
        self.search = search
        self.is_vague = False  # is a class read of which only the engine knows the characters?
        self.classes: Callable[[str], Ranges] = _unicode_class

    def untranslated(self, what: str, error: type[NotTranslated] = NotTranslated) -> None:
        """Raise the error unless an approximation is wanted."""
        if self.strict:
            raise error(what)

    def skip(self) -> bool:
        begin = self.at
        while "x" in self.flags and (self.peek().isspace() or self.peek() == "#"):
            end = self.text.find("\n", self.at) if self.peek() == "#" else self.at + 1
            self.at = len(self.text) if end < 0 else end
        return self.at > begin

    def item(self, parts: list[Tree]) -> None:
        """Read an atom with its repeats.

        ``^`` and ``$`` are without effect at the ends of a whole lexeme, elsewhere only the engine understands them.
        """
        char = self.peek()
        if char not in ("^", "$") or self.search:
            super().item(parts)
            return
        self.at += 1
        self.quantified(EPS)
        at_edge = not parts if char == "^" else self.at == len(self.text) or self.peek() in "|)"
        if not at_edge:
            self.untranslated(f"{char} inside the pattern", LooksAround)

    def set_flags(self, on: str, off: str, at: int) -> None:
        if set(on + off) - set("imsxuUR"):
            raise InvalidRegex("an unknown kind of group", at)
        if "R" in on + off or "u" in off:  # m is about lines, U about greed: the lexer knows neither
            self.untranslated(f"the flags {on}{off and '-'}{off}")
        self.flags = self.flags.union(on) - set(off)

    def braces(self) -> tuple[int, int | None]:
        begin = self.at
        end = self.text.find("}", begin)
        low, comma, high = self.text[begin + 1 : max(end, begin + 1)].partition(",")
        low, high = low.strip(), high.strip()
        if end < 0 or not _is_number(low) or (high and not _is_number(high)):
            raise InvalidRegex("a repeat without numbers", begin)
        if max(len(low.lstrip("0")), len(high.lstrip("0"))) > 10 or max(int(low), int(high or 0)) > MAX_COUNT:
            raise _TooMany(f"a repeat of more than {MAX_COUNT} times", begin)
        self.at = end + 1
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if most is not None and most < least:
            raise InvalidRegex("the numbers of a repeat are in the wrong order", begin)
        return least, most

    # -- atoms

    def anchor(self, char: str, begin: int) -> Tree:
        return START if char == "^" else END

    def escape(self, begin: int) -> Tree:
        ranges = self.escaped_class()
        if ranges is not None:
            return chars(ranges)
        if self.peek() in ("A", "z"):
            kept = START if self.take() == "A" else END
            return kept if self.search else EPS
        if self.peek() in ("b", "B", "<", ">"):
            kind = {"b": "word", "B": "no word"}.get(self.take(), "")
            if self.search and kind and self.peek() != "{":
                return Boundary(kind)
            self.untranslated("word boundaries", LooksAround)
            return EPS
        return self.char(self.escaped_char(begin))

    def property(self) -> Ranges:
        begin, char = self.at, self.peek()
        end = self.text.find("}", self.at) if self.peek(2)[1:] == "{" else self.at + 1
        self.at = end + 1 if end >= 0 else len(self.text)
        name = self.text[begin + 1 : self.at].strip("{}")
        try:
            members = self.cased(category(name.removeprefix("^")))
        except NotRegular:
            self.untranslated(f"\\{self.text[begin : self.at]}")
            self.is_vague = True
            return EVERY
        return ranges_minus(EVERY, members) if (char == "P") != name.startswith("^") else members

    def named(self, letter: str, *, negated: bool) -> Ranges:
        return self.classes(letter)

    def escaped_char(self, begin: int) -> int:
        char = self.take()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in "xuU":
            if self.peek() == "{":
                end = self.text.find("}", self.at)
                digits, self.at = self.text[self.at + 1 : end], end + 1
            else:
                digits = self.take({"x": 2, "u": 4, "U": 8}[char])
            if not digits or set(digits) - set(string.hexdigits):
                raise InvalidRegex("not a hexadecimal number", begin)
            code = int(digits, 16)
            if code > MAX_CODE_POINT:
                raise InvalidRegex("not a character", begin)
            return code
        if char.isalnum():
            raise InvalidRegex(f"unknown escape \\{char}", begin)
        return ord(char)

    def char_class(self) -> Ranges:
        begin = self.at - 1
        outer, self.is_vague = self.is_vague, False
        negated = self.peek() == "^"
        self.at += negated
        ranges: Ranges = ()
        operator = ""
        members: list[tuple[int, int]] = []
        while self.peek() == "-":
            members.append((0x2D, 0x2D))
            self.at += 1
        first = not members
        while True:
            if self.peek() == "":
                raise InvalidRegex("a character class does not end", begin)
            if self.skip():
                continue
            two = self.peek(2)
            if two in _OPERATORS or (self.peek() == "]" and not first):
                ranges = _combined(operator, ranges, self.cased(chars(members).args))
                operator, members = two, []
                if two not in _OPERATORS:
                    break
                self.at += 2
                continue
            members += self.class_item()
            first = False
        self.at += 1
        is_vague, self.is_vague = self.is_vague, self.is_vague or outer
        return EVERY if is_vague else ranges_minus(EVERY, ranges) if negated else ranges

    def class_item(self) -> Ranges:
        if self.peek() != "[":
            return super().class_item()
        self.at += 1
        return self.posix() if self.peek() == ":" else self.char_class()

    def odd_range(self, low: int | Ranges, high: int | Ranges, at: int) -> Ranges:
        if isinstance(low, int):
            return super().odd_range(low, high, self.at)
        return both_sides(low, high)

    def posix(self) -> Ranges:
        begin = self.at - 1
        end = self.text.find(":]", self.at)
        name = self.text[self.at + 1 : end]
        negated = name.startswith("^")
        spelled = _POSIX.get(name.lstrip("^"))
        if end < 0 or spelled is None:
            raise InvalidRegex("an unknown class of characters", begin)
        self.at = end + 2
        pairs = zip(spelled[::2], spelled[1::2], strict=True)
        ranges = self.cased(tuple((ord(low), ord(high)) for low, high in pairs))
        return ranges_minus(EVERY, ranges) if negated else ranges


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


_POSIX = {  # first and last characters, pair by pair
    "alnum": "09AZaz", "alpha": "AZaz", "ascii": "\x00\x7f", "blank": "\t\t  ", "cntrl": "\x00\x1f\x7f\x7f",
    "digit": "09", "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ",
    "upper": "AZ", "word": "09AZ__az", "xdigit": "09AFaf",
}  # fmt: skip


def _combined(operator: str, left: Ranges, right: Ranges) -> Ranges:
    """The class of two classes around an operator, the right one where there is none."""
    match operator:
        case "&&":
            return ranges_minus(left, ranges_minus(left, right))
        case "--":
            return ranges_minus(left, right)
        case "~~":
            return cast(Ranges, chars((*ranges_minus(left, right), *ranges_minus(right, left))).args)
    return right


#: Symbols that are letters: in circles and in squares.
_SYMBOLS: Ranges = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_SPACES: Ranges = (
    (0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip


@lru_cache(maxsize=3)
def _unicode_class(name: str) -> Ranges:
    """``\\d``, ``\\w``, ``\\s`` as the engine defines them: for all scripts."""
    if name == "s":
        return _SPACES
    if name == "d":
        return category("Nd")
    letters = chain.from_iterable(map(category, ("L", "M", "Nd", "Nl", "Pc")))
    return chars((*letters, (0x200C, 0x200D), *_SYMBOLS)).args  # type: ignore[no-any-return]
