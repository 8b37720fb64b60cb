"""Patterns and formats in a syntax that the engine reads as ECMA-262 does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from grammars.json_schema.document.string_formats import FORMATS
from grammars.json_schema.keywords.text import expanded_size, is_costly
from grammars.json_schema.passthrough.refusal import NotPassedThrough
from grammars.regular.languages import (
    ALL,
    ANY,
    EPS,
    Ranges,
    Regular,
    cat,
    chars,
    lru_cache_in_budget,
    ranges_minus,
    rep,
    shortest,
    surely_empty,
    words,
)
from grammars.regular.syntax.character_classes import has_disputed_classes
from grammars.regular.syntax.ecma import has_disputed_boundaries, language
from grammars.regular.syntax.ecma_parser import EcmaParser, has_disputed_case
from grammars.tree.quantifier import quantifier

__all__ = [
    "NEEDS_LONG_ESCAPE",
    "EnginePattern",
    "engine_pattern",
    "format_pattern",
    "pattern_language",
    "pattern_of_language",
    "regex_of",
    "without_padded_repeats",
]

#: Characters that need an escape other than a short one.
NEEDS_LONG_ESCAPE = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")

_TOKEN = re.compile(r"\\(?:[dDwW/.^$*+?()\[\]{}|\\\-tnrfv_@:,#&%!<>=~\"' ])|\\s|\[\^?|\]|\(\?:|\(\?|\(|\)|.", re.DOTALL)
_SPACES = "\\t-\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}"


@dataclass(frozen=True, slots=True)
class EnginePattern:
    """A pattern for the engine.

    ``without_nul``: it excludes strings with NUL; ``needs_long_escapes``: all its strings may need escapes that are
    not short ones.
    """

    regex: str
    without_nul: bool = False
    needs_long_escapes: bool = False


@lru_cache_in_budget(4_096)
def engine_pattern(pattern: str) -> EnginePattern | None:
    """Return a pattern that the engine reads as ECMA-262 reads this one; None if there is none."""
    found = _same_words(pattern)
    try:
        if has_disputed_boundaries(pattern) or has_disputed_classes(pattern) or has_disputed_case(pattern):
            return None  # our own compiler reports the dispute
        if found is not None:
            EcmaParser(pattern).parse()  # what is no pattern is refused by our own compiler, at its place
            if _MAY_BE_ODD.search(pattern) is None:
                return EnginePattern(found)
            term = language(pattern)
            return None if surely_empty(term) else EnginePattern(found, needs_long_escapes=_needs_long_escapes(term))
        term = without_padded_repeats(language(pattern, False if "(?!" in pattern or "(?<!" in pattern else None))
    except ValueError:
        return None
    return pattern_of_language(term)


def pattern_of_language(term: Regular) -> EnginePattern | None:
    """Return a language as a pattern for the engine; None if there is none, or only one that costs the engine much."""
    if not term.plain or expanded_size(term) >= 5_000 or is_costly(term) or surely_empty(term):
        return None  # a pattern that no string has leaves nothing: our own compiler says where
    return EnginePattern(
        f"^(?:{regex_of(term)})$", without_nul=_loses_nul(term), needs_long_escapes=_needs_long_escapes(term)
    )


#: A pattern whose tokens all mean the same to the engine needs one of these to be empty or to need long escapes.
_MAY_BE_ODD = re.compile(rf"\[\^|\\v|{NEEDS_LONG_ESCAPE.pattern}")


def _needs_long_escapes(term: Regular) -> bool:
    """Whether all strings may need long escapes: no short one that does not was found."""
    word = shortest(term)
    return not isinstance(word, str) or NEEDS_LONG_ESCAPE.search(word) is not None


def without_padded_repeats(term: Regular) -> Regular:
    """Return the same language with repeats next to arbitrary text reduced to their minimum.

    ``[a-z]{1,255}`` is found in a string where ``[a-z]`` is; counting to 255 from every position costs the engine
    much.
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
    """The pattern almost unchanged, if all its tokens mean the same to the engine."""
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
    """Whether a hyphen in a class is neither a plain range of two letters or digits nor the last character."""
    if pattern[at + 1 : at + 2] == "]" or pattern[at - 1] in "[^":
        return False
    return not (pattern[at - 1].isalnum() and pattern[at + 1].isalnum() and pattern[at - 2] != "\\")


@lru_cache(maxsize=64)
def format_pattern(name: str) -> str | None:
    """Return the pattern of a format for the engine; None if it needs intersection."""
    found = FORMATS[name].language
    return f"^(?:{regex_of(found)})$" if found.plain else None


def regex_of(term: Regular) -> str:
    """Return the Rust regex of a plain term, as an atom or a sequence of atoms."""
    args = term.args
    match term.op:
        case "chars":
            return "(?s:.)" if term == ANY else "[" + "".join(map(_range, _quotable(args))) + "]"
        case "words":
            spelled = ["".join(map(_char, map(ord, w))) for w in sorted(args)]
            return spelled[0] if len(spelled) == 1 else f"(?:{'|'.join(spelled)})"
        case "cat":
            return "".join(map(regex_of, args))
        case "alt":
            return f"(?:{'|'.join(map(regex_of, _merged(args)))})"
    body, least, most = args
    inner = regex_of(body) if body.op in ("chars", "alt") else f"(?:{regex_of(body)})"
    return inner + quantifier(least, most)


def _merged(options: tuple[Regular, ...]) -> tuple[Regular, ...]:
    """The options with a NUL merged into the class next to it, as the engine reads them: `_quotable` must see it
    there.
    """
    one = next((o for o in options if o.op == "chars"), None)
    many = next((o for o in options if o.op == "words"), None)
    if one is None or many is None or "\0" not in many.args:
        return options
    short = {word for word in many.args if len(word) == 1}
    rest = [o for o in options if o not in (one, many)]
    longer = [words(many.args - short)] if many.args - short else []
    return (*rest, *longer, chars([*one.args, *((ord(word), ord(word)) for word in short)]))


def _loses_nul(term: Regular) -> bool:
    """Whether a class of the term loses NUL on the way to the engine."""
    if term.op in ("chars", "words"):
        return term.op == "chars" and _quotable(term.args) != term.args
    below = term.args[:1] if term.op == "rep" else _merged(term.args) if term.op == "alt" else term.args
    return any(map(_loses_nul, below))


def _quotable(ranges: Ranges) -> Ranges:
    """The class without NUL, where the engine would quote it wrongly.

    llguidance 1.9.1 lets a class that holds all control characters, but not the quote or the backslash, match those
    two nevertheless when it is written as JSON text.
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
    """Return the strings in which the pattern is found; raises `NotPassedThrough` if that is unknown."""
    try:
        return language(pattern)
    except ValueError:
        raise NotPassedThrough from None
