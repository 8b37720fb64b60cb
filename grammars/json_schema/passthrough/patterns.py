"""Patterns and formats in words that the engine reads as ECMA-262 does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from grammars.regular.syntax.character_classes import has_disputed_classes
from grammars.json_schema.direct.refusal import NotDirect
from grammars.regular.syntax.ecma import has_borders, language
from grammars.regular.syntax.ecma_parser import Parser, has_disputed_case
from grammars.json_schema.document.string_formats import FORMATS
from grammars.json_schema.keywords.text import is_costly, written_out
from grammars.regular.languages import (
    ALL,
    ANY,
    EPS,
    Ranges,
    Regular,
    cat,
    chars,
    ranges_minus,
    remembered,
    rep,
    shortest,
    surely_empty,
    words,
)
from grammars.tree.quantifier import quantifier

__all__ = [
    "RARE",
    "EnginePattern",
    "engine_pattern",
    "format_pattern",
    "pattern_language",
    "trimmed",
    "written_pattern",
]

#: What needs an escape that is not a short one.
RARE = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")

_TOKEN = re.compile(r"\\(?:[dDwW/.^$*+?()\[\]{}|\\\-tnrfv_@:,#&%!<>=~\"' ])|\\s|\[\^?|\]|\(\?:|\(\?|\(|\)|.", re.DOTALL)
_SPACES = "\\t-\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}"


@dataclass(frozen=True, slots=True)
class EnginePattern:
    """A pattern for the engine: ``without_nul`` where it leaves strings with NUL out, ``rare`` where all may be rare.

    Rare are strings that need escapes that are not short.
    """

    regex: str
    without_nul: bool = False
    rare: bool = False


@remembered(4_096)
def engine_pattern(pattern: str) -> EnginePattern | None:
    """A pattern that the engine reads as ECMA-262 reads this one; None where it has none."""
    found = _same_words(pattern)
    try:
        if has_borders(pattern) or has_disputed_classes(pattern) or has_disputed_case(pattern):
            return None  # there is something to be said of it
        if found is not None:
            Parser(pattern).parse()  # what is no pattern is refused by our own compiler, at its place
            if _MAY_BE_ODD.search(pattern) is None:
                return EnginePattern(found)
            term = language(pattern)
            return None if surely_empty(term) else EnginePattern(found, rare=_is_rare(term))
        term = trimmed(language(pattern, False if "(?!" in pattern or "(?<!" in pattern else None))
    except ValueError:
        return None
    return written_pattern(term)


def written_pattern(term: Regular) -> EnginePattern | None:
    """A language as a pattern for the engine; None where it has none, or one that costs it much."""
    if not term.plain or written_out(term) >= 5_000 or is_costly(term) or surely_empty(term):
        return None  # a pattern that no string has leaves nothing: our own compiler says where
    return EnginePattern(f"^(?:{_regex(term)})$", without_nul=_loses_nul(term), rare=_is_rare(term))


#: What a pattern must have that no string has, or rare strings alone, when all its words mean the same to the engine.
_MAY_BE_ODD = re.compile(rf"\[\^|\\v|{RARE.pattern}")


def _is_rare(term: Regular) -> bool:
    """May rare strings be all that there is?  A short one that is not is looked for."""
    word = shortest(term)
    return not isinstance(word, str) or RARE.search(word) is not None


def trimmed(term: Regular) -> Regular:
    """The same language without what a repeat takes from the any text beside it.

    ``[a-z]{1,255}`` is found in a string where ``[a-z]`` is; counting to 255 from every place costs the engine much.
    """
    if term.op != "cat":
        return term
    parts = list(term.args)
    for first, at in ((0, 1), (-1, -2)):
        if len(parts) > 2 and parts[first] == ALL and parts[at].op == "rep":
            body, least, _ = parts[at].args
            parts[at] = rep(body, least, least) if least else EPS
            parts = [part for part in parts if part != EPS]
    return cat(*parts)


def _same_words(pattern: str) -> str | None:
    """The pattern almost as it stands, when all its words mean the same to the engine."""
    if len(pattern) > 500 or not pattern.isascii() or pattern.count("{") > 1:
        return None
    out: list[str] = []
    inside = False
    anchored = pattern[:1] == "^" or pattern[-1:] == "$"
    for found in _TOKEN.finditer(pattern):
        token, at = found.group(), found.start()
        if token == "\\s":
            out.append(_SPACES if inside else f"[{_SPACES}]")
            continue
        if token == "\\" or token == "(?" or (token in "^$" and not _is_edge(token, at, pattern, inside)):
            return None
        if inside:
            if token in ('"', "\\\\", '\\"'):
                return None  # see `_quotable`
            if token[0] == "[" or token in ("&", "~") or (token == "-" and _odd_hyphen(pattern, at)):
                return None
            inside = token != "]"
        elif token in ("[", "[^"):
            if pattern[found.end() : found.end() + 1] == "]":
                return None
            inside = True
        elif (
            (token == "|" and anchored)
            or (token in "*+?}" and pattern[at + 1 : at + 2] in ("+", "*"))
            or (token == "{" and re.match(r"\{\d{1,4}(?:,\d{0,4})?\}", pattern[at:]) is None)
            or (token in "]}" and token == "]")
        ):
            return None
        out.append(_DOT if token == "." and not inside else token)
    return "".join(out) if not inside else None


_DOT = "[^\\n\\r\\x{2028}\\x{2029}]"


def _is_edge(token: str, at: int, pattern: str, inside: bool) -> bool:
    if inside:
        return token == "$"
    return at == 0 if token == "^" else at == len(pattern) - 1


def _odd_hyphen(pattern: str, at: int) -> bool:
    """A hyphen in a class that is not plainly a range of two letters or digits, nor the last character."""
    if pattern[at + 1 : at + 2] == "]" or pattern[at - 1] in "[^":
        return False
    return not (pattern[at - 1].isalnum() and pattern[at + 1].isalnum() and pattern[at - 2] != "\\")


@lru_cache(maxsize=64)
def format_pattern(name: str) -> str | None:
    """The pattern of a format for the engine; None where it needs intersection."""
    found = FORMATS[name].language
    return f"^(?:{_regex(found)})$" if found.plain else None


def _regex(term: Regular) -> str:
    """Rust regex of a plain term, as an atom or a sequence of atoms."""
    args = term.args
    match term.op:
        case "chars":
            return "(?s:.)" if term == ANY else "[" + "".join(map(_range, _quotable(args))) + "]"
        case "words":
            spelled = ["".join(map(_char, map(ord, w))) for w in sorted(args)]
            return spelled[0] if len(spelled) == 1 else f"(?:{'|'.join(spelled)})"
        case "cat":
            return "".join(map(_regex, args))
        case "alt":
            return f"(?:{'|'.join(map(_regex, _merged(args)))})"
    body, least, most = args
    inner = _regex(body) if body.op in ("chars", "alt") else f"(?:{_regex(body)})"
    return inner + quantifier(least, most)


def _merged(options: tuple[Regular, ...]) -> tuple[Regular, ...]:
    """The options with NUL in the class beside it, as the engine reads them: `_quotable` must see it there."""
    one = next((o for o in options if o.op == "chars"), None)
    many = next((o for o in options if o.op == "words"), None)
    if one is None or many is None or "\0" not in many.args:
        return options
    short = {word for word in many.args if len(word) == 1}
    rest = [o for o in options if o not in (one, many)]
    longer = [words(many.args - short)] if many.args - short else []
    return (*rest, *longer, chars([*one.args, *((ord(word), ord(word)) for word in short)]))


def _loses_nul(term: Regular) -> bool:
    """Does a class of the term lose NUL on the way to the engine?"""
    if term.op in ("chars", "words"):
        return term.op == "chars" and _quotable(term.args) != term.args
    below = term.args[:1] if term.op == "rep" else _merged(term.args) if term.op == "alt" else term.args
    return any(map(_loses_nul, below))


def _quotable(ranges: Ranges) -> Ranges:
    """The class without NUL, where the engine would quote it wrongly.

    llguidance 1.9.1 lets a class that holds all control characters, but not the quote or the backslash, match those
    two all the same when it is written as JSON text.
    """
    if ranges[0][0] > 0 or ranges[0][1] < 0x1F:
        return ranges
    return ranges if all(any(a <= c <= b for a, b in ranges) for c in (0x22, 0x5C)) else ranges_minus(ranges, ((0, 0),))


def _range(bounds: tuple[int, int]) -> str:
    low, high = bounds
    return _char(low) if low == high else f"{_char(low)}-{_char(high)}"


def _char(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"


def pattern_language(pattern: str) -> Regular:
    """The strings in which the pattern is found; raises `NotDirect` where that is not known."""
    try:
        return language(pattern)
    except ValueError:
        raise NotDirect from None
