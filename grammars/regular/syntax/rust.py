"""Translate regular expressions of Rust's ``regex`` syntax into languages: those of the engine and of pydantic.

`language(pattern)` is what the pattern of a whole lexeme matches.  It answers what the engine cannot answer in time: a
shortest word, whether two lexemes can match the same text, whether a lexeme can ever end.  Nothing is accepted or
refused by it alone: it raises `NotTranslated` for what it does not understand, and the pattern always goes to the
engine.  `searched(pattern)` is the strings in which a pattern of pydantic is found.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import lru_cache
from typing import cast

from grammars.regular.languages import EPS, MAX_CODE_POINT, Ranges, Regular, chars, ranges_minus, text
from grammars.regular.syntax.assertions import lowered
from grammars.regular.syntax.case_folding import case_folded
from grammars.regular.syntax.character_classes import CLASSES, category
from grammars.regular.syntax.ecma_tree import END, START, Boundary, NotRegular, Tree, tree_alt, tree_cat, tree_rep
from grammars.regular.syntax.rust_classes import POSIX, combined, unicode_class

__all__ = ["MAX_COUNT", "MAX_PATTERN", "InvalidRegex", "NotTranslated", "approximate_language", "language", "searched"]

#: The largest number of a counted repeat that the engine reads.
MAX_COUNT = 2**32 - 1
#: Characters of one pattern.
MAX_PATTERN = 100_000


class InvalidRegex(ValueError):
    """The pattern is not a regular expression; ``at`` is the index of the character at fault."""

    def __init__(self, message: str, at: int) -> None:
        self.at = at
        super().__init__(message)


class _TooMany(InvalidRegex):
    """A limit of the engine, or of ours."""


class NotTranslated(ValueError):
    """The pattern uses something that only the engine understands (Unicode classes, word boundaries ...)."""


_ALL_CHARS: Ranges = ((0, MAX_CODE_POINT),)
_NEWLINE: Ranges = ((0x0A, 0x0A),)
_ESCAPES = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B, "a": 0x07, "0": 0x00}
_OPERATORS = ("&&", "--", "~~")
_DEEPEST = 100


@lru_cache(maxsize=2_000)
def language(pattern: str, flags: str = "") -> Regular:
    """Return the language of the pattern of a whole lexeme; raises `InvalidRegex` or `NotTranslated`."""
    if len(pattern) > 20_000:
        raise NotTranslated("the pattern is too long to look into")
    return cast(Regular, _parsed(_Parser(pattern), flags))


@lru_cache(maxsize=500)
def searched(pattern: str, *, plain_classes: bool = False) -> Regular:
    """Return the strings in which the pattern is found; raises `InvalidRegex` or `NotTranslated`.

    ``plain_classes``: classes and word boundaries are those of ECMA-262.
    """
    parser = _Parser(pattern, search=True)
    parser.classes = CLASSES.__getitem__ if plain_classes else unicode_class
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
    except InvalidRegex:
        return EPS


def _parsed(parser: _Parser, flags: str) -> Tree:
    term = parser.alternation(_Flags("s" in flags, "i" in flags, "x" in flags), 0)
    if parser.at < len(parser.text):
        raise InvalidRegex("unopened group", parser.at)
    return term


class _Flags(tuple[bool, bool, bool]):
    """The flags dot_all, ignore_case and verbose."""

    def __new__(cls, dot_all: bool, ignore_case: bool, verbose: bool) -> _Flags:
        return super().__new__(cls, (dot_all, ignore_case, verbose))


class _Parser:
    """``search``: anchors and word boundaries are kept, and names of Unicode classes are read."""

    def __init__(self, pattern: str, *, strict: bool = True, search: bool = False) -> None:
        self.text = pattern
        self.at = 0
        self.strict = strict
        self.search = search
        self.classes: Callable[[str], Ranges] = unicode_class

    def untranslated(self, what: str) -> None:
        """Raise `NotTranslated` unless an approximation is wanted."""
        if self.strict:
            raise NotTranslated(what)

    def peek(self, size: int = 1) -> str:
        return self.text[self.at : self.at + size]

    def take(self, size: int = 1) -> str:
        found = self.text[self.at : self.at + size]
        if len(found) < size:
            raise InvalidRegex("the pattern ends too early", len(self.text))
        self.at += size
        return found

    # -- structure

    def alternation(self, flags: _Flags, depth: int) -> Tree:
        if depth > _DEEPEST:
            raise InvalidRegex(f"groups are nested more than {_DEEPEST} deep", self.at)
        options = []
        while True:
            term, flags = self.sequence(flags, depth)
            options.append(term)
            if self.peek() != "|":
                return tree_alt(options)
            self.at += 1

    def sequence(self, flags: _Flags, depth: int) -> tuple[Tree, _Flags]:
        parts: list[Tree] = []
        while self.at < len(self.text) and self.peek() not in "|)":
            if flags[2] and self.skip_verbose():
                continue
            changed = self.bare_flags(flags)
            if changed is not None:
                flags = changed
                continue
            if self.peek() in ("^", "$"):
                self.anchor(parts, flags)
                continue
            parts.append(self.quantified(self.atom(flags, depth), flags))
        return tree_cat(parts), flags

    def skip_verbose(self) -> bool:
        begin = self.at
        while self.at < len(self.text) and (self.peek().isspace() or self.peek() == "#"):
            if self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                self.at += 1
        return self.at > begin

    def anchor(self, parts: list[Tree], flags: _Flags) -> None:
        """Read ``^`` or ``$``: without effect at the ends of a whole lexeme, elsewhere only the engine understands it.

        A repeated anchor (``^+``) means the same as a single one.
        """
        char = self.take()
        kept = self.quantified(START if char == "^" else END, flags)
        if self.search:
            parts.append(kept)
            return
        at_edge = not parts if char == "^" else self.at == len(self.text) or self.peek() in "|)"
        if not at_edge:
            self.untranslated(f"{char} inside the pattern")

    def bare_flags(self, flags: _Flags) -> _Flags | None:
        """``(?is)``: flags for the rest of the group."""
        if self.peek(2) != "(?":
            return None
        end = self.at + 2
        while end < len(self.text) and self.text[end] in "imsxuUR-":
            end += 1
        if self.text[end : end + 1] != ")" or end == self.at + 2:
            return None
        words, self.at = self.text[self.at + 2 : end], end + 1
        return self.with_flags(flags, words)

    def with_flags(self, flags: _Flags, words: str) -> _Flags:
        on, _, off = words.partition("-")
        values = [(letter in on or old) and letter not in off for letter, old in zip("six", flags, strict=True)]
        if set(words) & set("mUR") or "u" in off:
            self.untranslated(f"the flags {words!r}")
        return _Flags(*values)

    def quantified(self, body: Tree, flags: _Flags) -> Tree:
        while True:
            if flags[2]:
                self.skip_verbose()
            char = self.peek()
            if char in ("*", "+", "?") and char:
                self.at += 1
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
            elif char == "{":
                least, most = self.braces()
            else:
                return body
            if self.peek() == "?":  # lazy: the same language
                self.at += 1
            body = tree_rep(body, least, most)

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

    def atom(self, flags: _Flags, depth: int) -> Tree:
        begin = self.at
        char = self.take()
        if char == "(":
            return self.group(flags, depth)
        if char == "[":
            return chars(self.char_class(flags))
        if char == ".":
            return chars(_ALL_CHARS if flags[0] else ranges_minus(_ALL_CHARS, _NEWLINE))
        if char == "\\":
            return self.escape(flags)
        if char in "*+?{":
            raise InvalidRegex("nothing to repeat", begin)
        return self.char(ord(char), flags)

    def char(self, code: int, flags: _Flags) -> Tree:
        found = self.case(((code, code),), flags)
        return text(chr(code)) if len(found) == 1 else chars(found)

    def group(self, flags: _Flags, depth: int) -> Tree:
        begin = self.at - 1
        if self.peek() == "?":
            self.at += 1
            if self.peek() in ("=", "!") or self.peek(2) in ("<=", "<!"):
                raise InvalidRegex("look-around is not supported", begin)
            if self.peek() == "<" or self.peek(2) == "P<":
                end = self.text.find(">", self.at)
                if end < 0:
                    raise InvalidRegex("a group's name does not end", begin)
                self.at = end + 1
            else:
                end = self.text.find(":", self.at)
                words = self.text[self.at : end] if end >= 0 else "?"
                if set(words) - set("imsxuUR-"):
                    raise InvalidRegex("an unknown kind of group", begin)
                flags = self.with_flags(flags, words)
                self.at = end + 1
        body = self.alternation(flags, depth + 1)
        if self.peek() != ")":
            raise InvalidRegex("a group does not end", begin)
        self.at += 1
        return body

    def escape(self, flags: _Flags) -> Tree:
        begin = self.at - 1
        ranges = self.escaped_class(flags)
        if ranges is not None:
            return chars(ranges)
        if self.peek() in ("A", "z"):
            kept = START if self.take() == "A" else END
            return kept if self.search else EPS
        if self.peek() in ("b", "B", "<", ">"):
            kind = {"b": "word", "B": "no word"}.get(self.take(), "")
            if self.search and kind and self.peek() != "{":
                return Boundary(kind)
            self.untranslated("word boundaries")
            return EPS
        return self.char(self.escaped_char(begin), flags)

    def escaped_class(self, flags: _Flags) -> Ranges | None:
        char = self.peek()
        if char in ("p", "P") and char:
            begin = self.at
            end = self.text.find("}", self.at) if self.peek(2)[1:] == "{" else self.at + 1
            self.at = end + 1 if end >= 0 else len(self.text)
            if self.search:
                name = self.text[begin + 1 : self.at].strip("{}")
                found = self.case(category(name.removeprefix("^")), flags)
                return ranges_minus(_ALL_CHARS, found) if (char == "P") != name.startswith("^") else found
            self.untranslated("Unicode classes")
            return _ALL_CHARS
        if char not in ("d", "D", "w", "W", "s", "S") or not char:
            return None
        self.at += 1
        ranges = self.classes(char.lower())
        return ranges_minus(_ALL_CHARS, ranges) if char.isupper() else ranges

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

    def char_class(self, flags: _Flags) -> Ranges:
        begin = self.at - 1
        negated = self.peek() == "^"
        self.at += negated
        ranges: Ranges = ()
        operator = ""
        found: list[tuple[int, int]] = []
        while self.peek() == "-":
            found.append((0x2D, 0x2D))
            self.at += 1
        first = not found
        while True:
            if self.peek() == "":
                raise InvalidRegex("a character class does not end", begin)
            if flags[2] and self.skip_verbose():
                continue
            two = self.peek(2)
            if two in _OPERATORS or (self.peek() == "]" and not first):
                ranges = combined(operator, ranges, self.case(chars(found).args, flags))
                operator, found = two, []
                if two not in _OPERATORS:
                    break
                self.at += 2
                continue
            found += self.class_item(flags)
            first = False
        self.at += 1
        return ranges_minus(_ALL_CHARS, ranges) if negated else ranges

    def class_item(self, flags: _Flags) -> Ranges:
        if self.peek() == "[":
            self.at += 1
            return self.posix(flags) if self.peek() == ":" else self.char_class(flags)
        low = self.class_char(flags)
        if not isinstance(low, int):
            return low
        if self.peek() == "-" and self.peek(2)[1:] not in ("]", "-", ""):
            self.at += 1
            high = self.class_char(flags)
            if not isinstance(high, int) or high < low:
                raise InvalidRegex("a range in the wrong order", self.at)
            return ((low, high),)
        return ((low, low),)

    def class_char(self, flags: _Flags) -> int | Ranges:
        begin = self.at
        char = self.take()
        if char != "\\":
            return ord(char)
        ranges = self.escaped_class(flags)
        return ranges if ranges is not None else self.escaped_char(begin)

    def posix(self, flags: _Flags) -> Ranges:
        begin = self.at - 1
        end = self.text.find(":]", self.at)
        name = self.text[self.at + 1 : end]
        negated = name.startswith("^")
        spelled = POSIX.get(name.lstrip("^"))
        if end < 0 or spelled is None:
            raise InvalidRegex("an unknown class of characters", begin)
        self.at = end + 2
        pairs = zip(spelled[::2], spelled[1::2], strict=True)
        ranges = self.case(tuple((ord(low), ord(high)) for low, high in pairs), flags)
        return ranges_minus(_ALL_CHARS, ranges) if negated else ranges

    def case(self, ranges: Ranges, flags: _Flags) -> Ranges:
        return case_folded(ranges, wide=False) if flags[1] else ranges


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
