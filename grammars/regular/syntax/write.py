"""Write a regular language as a pattern that ECMA-262, the engine (Rust) and Python's ``re`` read alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial

from grammars.regular.printing import NodePrinter, PatternPrinter
from grammars.regular.syntax.character_classes import CATEGORIES, EVERY, SURROGATES, category
from grammars.regular.terms import ALL, Ranges, Regular, ranges_minus
from grammars.tree.nodes import Node, Pattern, Text, alt, seq

__all__ = ["ANY_TEXT", "containing", "raw_node", "written"]

_SYNTAX = frozenset("\\.+*?()[]{}|^$")
_CLASS_SYNTAX = frozenset("\\[]^-")
_OPERATORS = frozenset("&~")  # two of them in a class are an operator in Rust
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ONE_NAME = re.compile(r"\\p\{[A-Za-z]+\}")
_MANY_RANGES = 5


def written(term: Regular, *, named: bool = False) -> str:
    r"""Return the pattern of a plain term, without anchors.

    ``named``: large classes are written with names such as ``\p{Nd}``, which Python's ``re`` does not know.
    """
    return (_NAMED if named else _PLAIN).pattern(term)


@lru_cache(maxsize=1_000)
def _class(ranges: Ranges, named: bool) -> str:
    kept = ranges_minus(ranges, SURROGATES)
    others = ranges_minus(ranges_minus(EVERY, SURROGATES), kept)
    if not others:
        return r"[\s\S]"
    if not kept:
        return r"[^\s\S]"
    if kept[-1][1] == EVERY[-1][1]:
        members = _members(others, named)
        return members.replace("p", "P", 1) if _ONE_NAME.fullmatch(members) else f"[^{members}]"
    if len(kept) == 1 and kept[0][0] == kept[0][1]:
        return _spelled(chr(kept[0][0]), _SYNTAX)
    members = _members(kept, named)
    return members if _ONE_NAME.fullmatch(members) else f"[{members}]"


def _members(ranges: Ranges, named: bool) -> str:
    names = ""
    if named and len(ranges) > _MANY_RANGES:
        for name in CATEGORIES:
            if not ranges_minus(category(name), ranges):
                names += f"\\p{{{name}}}"
                ranges = ranges_minus(ranges, category(name))
    letters_first = sorted(ranges, key=lambda bounds: not chr(bounds[0]).isalnum())
    both = [(_spelled(chr(low), _CLASS_SYNTAX), _spelled(chr(high), _CLASS_SYNTAX)) for low, high in letters_first]
    return names + "".join(low if low == high else f"{low}-{high}" for low, high in both)


def _spelled(char: str, syntax: frozenset[str]) -> str:
    if char in syntax:
        return f"\\{char}"
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code > 0xFFFF or (char.isprintable() and not (char in _OPERATORS and syntax is _CLASS_SYNTAX)):
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _word(word: str) -> str:
    return "".join(_spelled(char, _SYNTAX) for char in word)


_PLAIN, _NAMED = (PatternPrinter(partial(_class, named=named), _word, "(") for named in (False, True))


#: Any text, line breaks included.
ANY_TEXT = Pattern("(?s:.*)")


def containing(texts: Sequence[str]) -> Node:
    """Return any text that contains one of ``texts``."""
    return Pattern(f"(?s:.*)(?:{'|'.join(map(re.escape, texts))})(?s:.*)")


def _leaf(term: Regular, lead: str, end: str) -> Node:
    if term == ALL:
        return ANY_TEXT
    return seq(lead, Pattern(written(term)) if term.op != "words" else alt(*map(Text, sorted(term.args))), end)


_NODES = NodePrinter(_leaf, ANY_TEXT)


def raw_node(term: Regular) -> Node:
    """Return the terminal node of exactly the words of ``term``."""
    return _NODES.node(term)
