"""Translate patterns of Python's ``re`` into regular languages.  ``re`` decides what is a pattern; it is parsed here.

What no regular language can say raises `Irregular` with its name and the index of the character where it stands; what
``re`` refuses raises `InvalidRegex`.
"""

from __future__ import annotations

import re
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from grammars.regular.syntax.assertions import lowered
from grammars.regular.syntax.case_folding import cased_text
from grammars.regular.syntax.character_classes import writable
from grammars.regular.syntax.ecma_tree import END, START, Boundary, LookAround, NotRegular, Tree, tree_alt, tree_cat
from grammars.regular.syntax.parser import MAX_COUNT, MAX_PATTERN, InvalidRegex, PatternParser
from grammars.regular.terms import Ranges, Regular, chars, ranges_minus, text

__all__ = ["Irregular", "language", "no_nested_set_warnings", "parse"]

_ASCII: Ranges = ((0, 0x7F),)
_LAST_LINE = LookAround(True, False, tree_alt([END, tree_cat([text("\n"), END])]))
_LINE_START = tree_alt([START, LookAround(False, False, text("\n"))])
_LINE_END = LookAround(True, False, tree_alt([END, text("\n")]))
_ANCHORS: dict[str, Tree] = {"A": START, "Z": END, "z": END, "b": Boundary("word"), "B": Boundary("no word")}
_CONTROLS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_BRACES = re.compile(r"\{(?!\})([0-9]*)(,?)([0-9]*)\}")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-3]?[0-7]{3}|[0-7]{1,3}")
_OCTAL_OUTSIDE = re.compile(r"0[0-7]{0,2}|[0-7]{3}")
_SKIPPED = re.compile(r"\(\?#[^)]*\)")
_SKIPPED_VERBOSE = re.compile(r"[ \t\n\r\v\f]+|#[^\n]*|\(\?#[^)]*\)")
_REFUSED = {"?>": "an atomic group", "?P=": "a back-reference", "?(": "a conditional group"}
#: Constructs of which ``re`` warns that they may become nested sets one day.
_NESTED = re.compile(r"\[\[|--|&&|~~|\|\|")
#: What other dialects read as a class, and ``re`` as members of a set that ends at the next bracket.
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_quiet = threading.RLock()


class Irregular(InvalidRegex):
    """The pattern is valid, but holds ``what`` no regular language can say, or is not read here."""

    def __init__(self, what: str, at: int) -> None:
        self.what = what
        super().__init__(f"{what} is not supported", at)


@lru_cache(maxsize=2_000)
def language(
    pattern: str, flags: int = 0, *, search: bool = False, plain_classes: bool = False, final_newline: bool = True
) -> Regular:
    """Return the texts that the whole pattern matches, or, with ``search``, in which it is found.

    ``flags`` are those of ``re``.  ``plain_classes``: classes, word boundaries and the other case of ASCII letters are
    ASCII, as with ``re.ASCII``, while other letters keep their other case.  Without ``final_newline`` texts are left
    out that match only because ``$`` also matches before a final newline.  Raises `InvalidRegex`.
    """
    parser = _Parser(pattern, flags, plain_classes, final_newline)
    tree = parser.parse()
    if isinstance(tree, Regular) and not search:
        return tree
    word = _class("w", plain_classes or "a" in parser.all_flags)
    try:
        return lowered(tree if search else tree_cat([START, tree, END]), word)
    except NotRegular as error:
        raise Irregular(str(error), parser.assertion or 0) from None


def parse(pattern: str) -> Regular:
    """Return the language of a pattern without assertions.  Raises `InvalidRegex`, for an assertion `Irregular`."""
    parser = _Parser(pattern, 0, False, True)
    tree = parser.parse()
    if not isinstance(tree, Regular):
        at = parser.assertion or 0
        raise Irregular("look-around" if pattern[at] == "(" else "an anchor or word boundary", at)
    return tree


@contextmanager
def no_nested_set_warnings(pattern: str) -> Iterator[None]:
    """Suppress the FutureWarning of ``re`` about nested sets: a client's pattern does not concern the user.

    Warning filters are process-wide: changed only for a pattern with such a construct, by one thread at a time.
    """
    if not _NESTED.search(pattern):
        yield
        return
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@lru_cache(maxsize=64)
def _flags_of(pattern: str, flags: int) -> frozenset[str]:
    """The flags of the whole pattern; raises `InvalidRegex` for what ``re`` refuses."""
    if len(pattern) > MAX_PATTERN:
        raise InvalidRegex(f"the pattern has {len(pattern)} characters, more than {MAX_PATTERN}", 0)
    try:
        with no_nested_set_warnings(pattern):
            bits = re.compile(pattern, flags).flags
    except re.error as error:
        at = pattern.find("(?<") if error.pos is None else error.pos  # of a look-behind it does not say where
        raise InvalidRegex(error.msg, max(at, 0)) from None
    except RecursionError:
        raise InvalidRegex("groups are nested too deep", 0) from None
    except (OverflowError, ValueError) as error:
        large = re.search(r"\{[0-9]*,?[0-9]{10,}", pattern)
        message = f"a repeat of more than {MAX_COUNT} times" if large else str(error)
        raise InvalidRegex(message, large.start() if large else 0) from None
    return frozenset(letter for letter in "aimsx" if bits & re.RegexFlag[letter.upper()])


class _Parser(PatternParser):
    """Reads a pattern that ``re`` has accepted.  ``assertion``: the index of the first one."""

    refused = _REFUSED
    not_ends = frozenset("]")

    def __init__(self, pattern: str, flags: int, plain_classes: bool, final_newline: bool) -> None:
        self.all_flags = _flags_of(pattern, flags)
        super().__init__(pattern, self.all_flags)
        self.plain_classes = plain_classes
        self.final_newline = final_newline
        self.assertion: int | None = None

    def unsupported(self, what: str, at: int) -> Exception:
        return Irregular(what, at)

    def skip(self) -> bool:
        begin = self.at
        while skipped := (_SKIPPED_VERBOSE if "x" in self.flags else _SKIPPED).match(self.text, self.at):
            self.at = skipped.end()
        return self.at > begin

    def set_flags(self, on: str, off: str, at: int) -> None:
        if "u" in on:
            off += "a"
        self.flags = self.flags.union(on) - set(off)

    def braces(self) -> tuple[int, int | None] | None:
        match = _BRACES.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        least, comma, most = match.groups()
        return int(least or 0), int(most) if most else None if comma else int(least)

    def inside(self, look: tuple[bool, bool] | None) -> Tree:
        before = self.final_newline
        if look is not None:
            self.final_newline = before or look[1]  # the law of what is left out would turn around
        body = self.alternation()
        self.final_newline = before
        return body

    def opening(self, begin: int) -> str:
        opening = super().opening(begin)
        if opening in self.looks:
            self.asserted(begin)
        return opening

    def asserted(self, at: int) -> None:
        self.assertion = at if self.assertion is None else self.assertion

    def anchor(self, char: str, begin: int) -> Tree:
        self.asserted(begin)
        if char == "^":
            return _LINE_START if "m" in self.flags else START
        return _LINE_END if "m" in self.flags else _LAST_LINE if self.final_newline else END

    def escape(self, begin: int) -> Tree:
        if self.peek() in _ANCHORS:
            self.asserted(begin)
            return _ANCHORS[self.take()]
        members = self.escaped_class()
        if members is not None:
            return chars(writable(members))
        if self.peek().isdigit() and not _OCTAL_OUTSIDE.match(self.text, self.at):
            raise self.unsupported("a back-reference", begin)
        return self.char(self.escaped_char(begin))

    def escaped_char(self, begin: int) -> int:
        if octal := _OCTAL.match(self.text, self.at):
            self.at = octal.end()
            return int(octal[0], 8)
        char = self.take()
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in "xuU":
            return int(self.take({"x": 2, "u": 4, "U": 8}[char]), 16)
        if char == "N":
            end = self.text.index("}", self.at)
            name, self.at = self.text[self.at + 1 : end], end + 1
            return ord(unicodedata.lookup(name))
        return ord(char)

    def is_class_end(self, begin: int) -> bool:
        return self.at > begin

    def class_char(self) -> int | Ranges:
        if posix := _POSIX.match(self.text, self.at):
            raise self.unsupported(rf"the POSIX class {posix[0]} (in Python's re \w, [a-z] ...)", self.at)
        return super().class_char()

    def named(self, letter: str, *, negated: bool) -> Ranges:
        return _class(letter, self.plain_classes or "a" in self.flags)

    def cased(self, ranges: Ranges) -> Ranges:
        """Return the characters, with those of other case where case is ignored."""
        if "i" not in self.flags:
            return ranges
        beyond = () if "a" in self.flags else ranges_minus(ranges, _ASCII) if self.plain_classes else ranges
        every: Ranges = chars((*ranges, *_other_case(ranges, re.ASCII), *_other_case(beyond, re.UNICODE))).args
        return every


@lru_cache(maxsize=1_000)
def _other_case(ranges: Ranges, flag: int) -> Ranges:
    """The characters that match one of ``ranges`` where case is ignored, among those that have another case."""
    if not ranges:
        return ()
    members = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
    leaf = re.compile(f"[{members}]", flag | re.IGNORECASE)
    return tuple((ord(char), ord(char)) for char in cased_text() if leaf.match(char))


@lru_cache(maxsize=6)
def _class(letter: str, is_ascii: bool) -> Ranges:
    r"""``\d``, ``\s`` or ``\w``, as ``re`` reads them."""
    runs = re.compile(f"\\{letter}+", re.ASCII if is_ascii else 0)
    every = "".join(map(chr, range(128 if is_ascii else 0x110000)))
    return tuple((run.start(), run.end() - 1) for run in runs.finditer(every))
