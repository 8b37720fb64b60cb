"""Translate patterns of Python's ``re`` into regular languages; ``re`` itself reads them, so its dialect is exact.

What no regular language can say raises `Irregular` with its name and the index of the character where it stands; what
``re`` refuses raises `InvalidRegex`.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # the only way to a pattern's tree
from typing import Any

from grammars.regular.languages import NONE, Ranges, Regular, chars, ranges_minus, text
from grammars.regular.syntax.assertions import lowered
from grammars.regular.syntax.case_folding import cased_text
from grammars.regular.syntax.character_classes import EVERY, WIDE_DOT, writable
from grammars.regular.syntax.ecma_tree import (
    END,
    START,
    Boundary,
    LookAround,
    NotRegular,
    Tree,
    tree_alt,
    tree_cat,
    tree_rep,
)
from grammars.regular.syntax.rust import MAX_COUNT, MAX_PATTERN, InvalidRegex

__all__ = ["Irregular", "language", "no_nested_set_warnings", "parse", "place_of"]

#: What no regular language can say, by the name of its item in the tree of ``re``.
_REFUSED = {
    "GROUPREF": "a back-reference",
    "GROUPREF_EXISTS": "a conditional group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repeat",
}
_COUNT = r"\{[0-9]*,?[0-9]*\}"
#: The tokens of a pattern, to find where one of these stands.
_TOKENS = re.compile(
    r"(?P<GROUPREF>\\[1-9]|\(\?P=)|(?P<assertion>\(\?<?[=!]|\\[bBAZ]|[\^$])|\\.|\[\^?\]?(?:\\.|[^\\\]])*\]"
    rf"|(?P<GROUPREF_EXISTS>\(\?\()|(?P<ATOMIC_GROUP>\(\?>)|(?P<POSSESSIVE_REPEAT>(?:[*+?]|{_COUNT})\+)|{_COUNT}|.",
    re.DOTALL,
)
_ASCII: Ranges = ((0, 0x7F),)
_LAST_LINE = LookAround(True, False, tree_alt([END, tree_cat([text("\n"), END])]))
_ANCHORS: dict[str, Tree] = {
    "AT_BEGINNING": START,
    "AT_BEGINNING_STRING": START,
    "AT_END": _LAST_LINE,
    "AT_END_STRING": END,
    "AT_BOUNDARY": Boundary("word"),
    "AT_NON_BOUNDARY": Boundary("no word"),
}
_OF_LINES: dict[str, Tree] = {
    "AT_BEGINNING": tree_alt([START, LookAround(False, False, text("\n"))]),
    "AT_END": LookAround(True, False, tree_alt([END, text("\n")])),
}
_CLASSES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


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
    tree = parse(pattern, flags, plain_classes=plain_classes, final_newline=final_newline)
    if isinstance(tree, Regular) and not search:
        return tree
    word = _class("WORD", plain_classes or bool(_read(pattern, flags).state.flags & re.ASCII))
    try:
        return lowered(tree if search else tree_cat([START, tree, END]), word)
    except NotRegular as error:
        raise Irregular(str(error), place_of("assertion", pattern)) from None


def parse(pattern: str, flags: int = 0, *, plain_classes: bool = False, final_newline: bool = True) -> Tree:
    """Return the tree of a pattern, regular if the pattern has no assertions.  Raises `InvalidRegex`."""
    if len(pattern) > MAX_PATTERN:
        raise InvalidRegex(f"the pattern has {len(pattern)} characters, more than {MAX_PATTERN}", 0)
    try:
        items = _read(pattern, flags)
        return _Reader(pattern, plain_classes, final_newline).sequence(items, items.state.flags)
    except RecursionError:
        raise InvalidRegex("groups are nested too deep", 0) from None


#: Constructs of which ``re`` warns that they may become nested sets one day.
_NESTED = re.compile(r"\[\[|--|&&|~~|\|\|")
_quiet = threading.RLock()


@contextmanager
def no_nested_set_warnings(pattern: str) -> Iterator[None]:
    """Suppress the FutureWarning of ``re`` about nested sets: a client's pattern is no concern of the user's.

    Warning filters are process-wide: changed only for a pattern with such a construct, by one thread at a time.
    """
    if not _NESTED.search(pattern):
        yield
        return
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@lru_cache(maxsize=64)
def _read(pattern: str, flags: int) -> Any:
    try:
        with no_nested_set_warnings(pattern):
            re.compile(pattern, flags)
            return _parser.parse(pattern, flags)
    except re.error as error:
        at = place_of("assertion", pattern) if error.pos is None else error.pos
        raise InvalidRegex(error.msg, at) from None
    except (OverflowError, ValueError) as error:
        counts = ((found.start(), re.findall("[0-9]{10,}", found[0])) for found in _TOKENS.finditer(pattern))
        large = [at for at, numbers in counts if numbers and pattern[at] == "{"]
        message = f"a repeat of more than {MAX_COUNT} times" if large else str(error)
        raise InvalidRegex(message, *large[:1] or [0]) from None


def place_of(name: str, pattern: str) -> int:
    """The index of the first token of a kind."""
    return next((found.start() for found in _TOKENS.finditer(pattern) if found[name]), 0)


class _Reader:
    """Turns the tree of ``re`` into one of `grammars.regular.syntax.ecma_tree`."""

    def __init__(self, pattern: str, plain_classes: bool, final_newline: bool) -> None:
        self.pattern = pattern
        self.plain_classes = plain_classes
        self.final_newline = final_newline

    def sequence(self, items: Sequence[Any], flags: int) -> Tree:
        return tree_cat([self.item(str(op), argument, flags) for op, argument in items])

    def item(self, name: str, argument: Any, flags: int) -> Tree:
        match name:
            case "LITERAL" if argument < 0xD800 and not flags & re.IGNORECASE:
                return text(chr(argument))  # most of a long pattern
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                found = writable(_characters(name, argument, flags, self.plain_classes))
                return text(chr(argument)) if found == ((argument, argument),) else chars(found)
            case "AT":
                where = str(argument)
                if flags & re.MULTILINE and where in _OF_LINES:
                    return _OF_LINES[where]
                return END if where == "AT_END" and not self.final_newline else _ANCHORS[where]
            case "SUBPATTERN":
                _, added, removed, body = argument
                return self.sequence(body, (flags | added) & ~removed)
            case "BRANCH":
                return tree_alt([self.sequence(option, flags) for option in argument[1]])
            case "ASSERT" | "ASSERT_NOT":
                direction, items = argument
                before, negative = self.final_newline, name == "ASSERT_NOT"
                self.final_newline = before or negative  # the law of what is left out would turn around
                body = self.sequence(items, flags)
                self.final_newline = before
                return LookAround(direction > 0, negative, body)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, items = argument
                body = self.sequence(items, flags)
                limit = None if most is _constants.MAXREPEAT else int(most)
                return tree_rep(body, least, limit)
            case "FAILURE":
                return NONE
        raise Irregular(_REFUSED.get(name, name), place_of(name, self.pattern))


# -- characters


def _characters(name: str, argument: Any, flags: int, plain_classes: bool) -> Ranges:
    """The characters that one item of the tree matches."""
    if name == "ANY":
        return EVERY if flags & re.DOTALL else WIDE_DOT
    is_ascii = plain_classes or bool(flags & re.ASCII)
    items = argument if name == "IN" else [(_constants.LITERAL, argument)]
    negated = name == "NOT_LITERAL" or (name == "IN" and items[0][0] is _constants.NEGATE)
    items = [item for item in items if item[0] is not _constants.NEGATE]
    found: list[tuple[int, int]] = []
    for op, value in items:
        match str(op):
            case "LITERAL":
                found.append((value, value))
            case "RANGE":
                found.append(value)
            case _:
                kind = str(value).rpartition("_")[2]
                ranges = _class(kind, is_ascii)
                found += ranges_minus(EVERY, ranges) if "NOT" in str(value) else ranges
    if flags & re.IGNORECASE:
        every: Ranges = chars(found).args
        beyond = () if flags & re.ASCII else ranges_minus(every, _ASCII) if is_ascii else every
        found += [*_other_case(every, re.ASCII), *_other_case(beyond, re.UNICODE)]
    merged: Ranges = chars(found).args
    return ranges_minus(EVERY, merged) if negated else merged


@lru_cache(maxsize=1_000)
def _other_case(ranges: Ranges, flag: int) -> Ranges:
    """The characters that match one of ``ranges`` where case is ignored, among those that have another case."""
    state = _parser.State()
    state.flags = flag | re.IGNORECASE
    items = [(_constants.RANGE, bounds) for bounds in ranges]
    leaf = _compiler.compile(_parser.SubPattern(state, [(_constants.IN, items)]), state.flags)
    return tuple((ord(char), ord(char)) for char in cased_text() if leaf.match(char))


@lru_cache(maxsize=6)
def _class(kind: str, is_ascii: bool) -> Ranges:
    r"""``\d``, ``\s`` or ``\w``, as ``re`` reads them."""
    runs = re.compile(_CLASSES[kind] + "+", re.ASCII if is_ascii else 0)
    every = "".join(map(chr, range(128 if is_ascii else 0x110000)))
    return tuple((found.start(), found.end() - 1) for found in runs.finditer(every))
