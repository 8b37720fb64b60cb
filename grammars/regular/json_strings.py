"""JSON strings as lexemes: from a language over code points to one lexeme, quotes included.

Where texts are compared (keys, patterns, listed texts) every code point has exactly one spelling: itself, a short
escape, or ``\\u00xx`` for the other control characters.  So a key cannot be written twice with different escapes: two
different texts are two different keys.  A free string may be written with any escape, see `written`.

An escape is whole or is not begun: where a class holds other characters as well, ``\\u00xx`` is left out of it, since a
model that begins ``\\u00e3`` could only go on as a control character.
"""

from __future__ import annotations

import json
from functools import lru_cache, partial

from grammars.regular.languages import surely_empty
from grammars.regular.printing import NodePrinter, PatternPrinter
from grammars.regular.terms import ALL, ANY, MAX_CODE_POINT, Ranges, Regular, chars, inter, ranges_minus, rep
from grammars.tree.nodes import And, Lexeme, Node, Pattern, Text, alt, quantifier

__all__ = [
    "STRING",
    "content_regex",
    "is_free",
    "lexeme",
    "loses_escapes",
    "may_hold_text",
    "spell",
    "without_surrogates",
    "written",
]

_ESCAPES = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}
_LONG_ESCAPES = tuple(c for c in (*range(0x20), 0x7F) if c not in _ESCAPES)
_NOT_RAW: Ranges = ((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F), (0xD800, 0xDFFF))
_RAW_ANY = '[^"\\\\\\x00-\\x1F\\x7F]'
_CHAR = f'(?:{_RAW_ANY}|\\\\["\\\\bfnrt])'
_CONTROLS = "u00(?:0[0-7bef]|1[0-9a-f]|7f)"
_PAIR = "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPED = f'["\\\\/bfnrt]|u(?:[0-9a-cefA-CEF][0-9a-fA-F]{{3}}|[dD][0-7][0-9a-fA-F]{{2}}|{_PAIR})'
_WRITTEN = f"(?:{_RAW_ANY}|\\\\(?:{_ESCAPED}))"

#: Any string.  The class of raw characters is the engine's own, so that its precomputed slices apply.
STRING = Lexeme("string", Pattern(f'"{_CHAR}*"'))

_MAX_CACHED_WORD = 200  # characters of a word whose spelling is remembered: keys are asked for again and again


def spell(word: str) -> str:
    """Return ``word`` as JSON text, quotes included, in the only spelling that this module uses."""
    return _spelled(word) if len(word) <= _MAX_CACHED_WORD else _spelled.__wrapped__(word)


@lru_cache(maxsize=16_384)
def _spelled(word: str) -> str:
    return json.dumps(word, ensure_ascii=False).replace("\x7f", "\\u007f")


@lru_cache(maxsize=256)
def written(term: Regular) -> Lexeme:
    """Return the lexeme of the strings in ``term``, with any escapes where only their length is limited.

    For strings that nothing compares while they are written.
    """
    if is_free(term):
        return Lexeme("string", Pattern(f'"{_WRITTEN}{quantifier(*term.args[1:])}"'))
    if term.op == "words" and any("\\u" in spell(word) for word in term.args):  # what begins so may be any letter
        return Lexeme("word", alt(*(Pattern(f'"{"".join(map(_with_escape, word))}"') for word in sorted(term.args))))
    return lexeme(term)


def _with_escape(char: str) -> str:
    units = char.encode("utf-16-be")
    escape = "".join(f"\\\\u(?i:{units[i : i + 2].hex()})" for i in range(0, len(units), 2))
    return f"(?:{_escaped(char)}|{escape})" if char > "\x7f" else _escaped(char)


def is_free(term: Regular) -> bool:
    """Whether only the length of the strings in ``term`` is limited."""
    return term.op == "rep" and term.args[0] == ANY


def loses_escapes(term: Regular) -> bool:
    """Whether strings in ``term`` have letters beyond ASCII, slashes or control characters that could be escaped."""
    match term.op:
        case "chars":
            is_escapable = (bool(term.args) and term.args[-1][1] > 0x7F) or _within(ord("/"), term.args)
            return is_escapable or (_is_mixed(term.args) and any(_within(c, term.args) for c in _LONG_ESCAPES))
        case "words":
            return any(char == "/" or char > "\x7f" for word in term.args for char in word)
        case "cat" | "alt" | "and":
            return any(map(loses_escapes, term.args))
        case "rep":
            return loses_escapes(term.args[0])
    return True


@lru_cache(maxsize=4_096)
def lexeme(term: Regular) -> Lexeme:
    """Return the lexeme of the strings in ``term``; equal terms give the very same node."""
    if term == ALL:
        return STRING
    if term.op == "words" and len(term.args) <= 200_000:
        return Lexeme("word", alt(*(Text(spell(w)) for w in sorted(term.args))))
    return Lexeme("string", _quoted(term))


def _quoted(term: Regular) -> Node:
    """The JSON texts of the strings in ``term``."""
    if term.plain:
        return Pattern(f'"{content_regex(term)}"')
    if term.op == "alt":
        return alt(*map(_quoted, term.args))
    parts = term.args if term.op == "and" else (term,)
    closed: list[Node] = [_quoted(part) for part in parts if part.plain] or [STRING.body]
    return And((*closed, *(_NODES.begun(part, '"', '"') for part in parts if not part.plain)))


@lru_cache(maxsize=8_192)
def content_regex(term: Regular, *, whole: bool = False) -> str:
    """The Rust regex of the JSON text between the quotes, for a plain term.

    ``whole``: with all control characters, for a language that others are compared with.
    """
    return (_WHOLE if whole else _WRITTEN_RAW).pattern(term)


def _class_of_all(*, whole: bool) -> str:
    return f"(?:{_CHAR}|\\\\{_CONTROLS})" if whole else _CHAR


def _is_mixed(ranges: Ranges) -> bool:
    """Whether a class holds characters that need no ``\\u``."""
    return bool(ranges_minus(ranges, _NOT_RAW)) or any(_within(code, ranges) for code in _ESCAPES)


@lru_cache(maxsize=4_096)
def _class(ranges: Ranges, *, whole: bool) -> str:
    if ranges == ANY.args:
        return _class_of_all(whole=whole)
    raw = ranges_minus(ranges, _NOT_RAW)
    short = "".join(e for code, e in _ESCAPES.items() if _within(code, ranges))
    long = [f"{code:02x}" for code in _LONG_ESCAPES if _within(code, ranges)] if whole or not _is_mixed(ranges) else []
    escapes = ["[" + short.replace("\\", "\\\\") + "]"] if short else []
    escapes += [f"u00(?:{'|'.join(long)})"] if long else []
    options = ["[" + "".join(map(_range, raw)) + "]"] if raw else []
    options += [f"\\\\(?:{'|'.join(escapes)})"] if escapes else []
    if not options:
        return "[^\\s\\S]"
    return options[0] if len(options) == 1 and raw else f"(?:{'|'.join(options)})"


def _within(code: int, ranges: Ranges) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _range(bounds: tuple[int, int]) -> str:
    low, high = (_class_char(code) for code in bounds)
    return low if low == high else f"{low}-{high}"


def _class_char(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"


def _escaped(word: str) -> str:
    literal = spell(word)[1:-1]
    return "".join(c if c.isalnum() or c in ' "' or ord(c) > 0x7F else f"\\x{{{ord(c):X}}}" for c in literal)


_WRITTEN_RAW, _WHOLE = (PatternPrinter(partial(_class, whole=whole), _escaped) for whole in (False, True))


def _between(term: Regular, lead: str, end: str) -> Node:
    return Pattern(f"{lead}{content_regex(term, whole=True)}{end}")


_NODES = NodePrinter(_between, Pattern(_class_of_all(whole=True) + "*"))

_UNWRITABLE: Ranges = ((0xD800, 0xDFFF),)
_WRITABLE = rep(chars(ranges_minus(((0, MAX_CODE_POINT),), _UNWRITABLE)), 0, None)


def without_surrogates(term: Regular) -> Regular:
    """Return ``term`` without words that contain lone surrogates, which no text can contain."""
    return term if term.op == "words" else inter(term, _WRITABLE)


def may_hold_text(term: Regular, budget: int = 400) -> bool:
    """False only when surely no text can spell a word of the language; ``budget``: see `surely_empty`."""
    return term == ALL or not surely_empty(without_surrogates(term), budget)
