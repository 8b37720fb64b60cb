"""The lexemes of raw values: text without quotes or escapes that ends at a marker.

The first occurrence of the marker ends the text, so the text cannot contain it, wherever it stands: the white space
that a format writes around it (``\\n</parameter>\\n``) makes it no other marker.
"""

from __future__ import annotations

from grammars.regular.json_strings import ANYTHING
from grammars.regular.languages import (
    ALL,
    ANY,
    NONE,
    Ranges,
    Regular,
    cat,
    inter,
    neg,
    ranges_minus,
    surely_empty,
    text,
    words,
)
from grammars.regular.languages import alt as alternatives
from grammars.tree.markers import Markers
from grammars.tree.nodes import And, Lexeme, Node, Not, Pattern, Seq, Text, Until, alt, repeat, seq
from grammars.tree.quantifier import quantifier

__all__ = ["ANY_TEXT", "bare", "contains_end", "ended", "is_writable", "raw_node", "without_end"]

#: Any text, line breaks included.
ANY_TEXT = Pattern("(?s:.*)")


def bare(end: str) -> str:
    """The marker in ``end``, without the white space around it; ``end`` itself where there is nothing else."""
    return end.strip() or end


def ended(language: Regular, end: str, markers: Markers, *, name: str = "value") -> Node:
    """The node of a text of ``language`` followed by ``end``.

    If ``end`` begins with a token, text cannot contain it anyway; if it begins with characters, these are part of the
    text's lexeme, which would otherwise swallow them.
    """
    language = without_end(language, end, markers)
    pieces = markers.pieces(end)
    head = pieces[0] if pieces and isinstance(pieces[0], str) else ""
    rest = markers.node(end[len(head) :])
    if not head:
        return seq(markers.any_text() if language == ALL else Lexeme(name, raw_node(language)), rest)
    if len(pieces) > 1:  # a token follows and ends the text, so the text may contain the head
        return seq(Lexeme(name, seq(raw_node(language), Text(head))), rest)
    if language.op == "words":
        return Lexeme(name, seq(raw_node(language), Text(head)))
    marker = bare(head)
    lead, more = head[: head.index(marker)], head[head.index(marker) + len(marker) :]
    # No lexeme with a complement: the engine does not see that none goes on after `head`, and fails before a token.
    body = ANY_TEXT if language == ALL else raw_node(_before(cat(language, text(lead)), marker))
    return seq(Until(name, body, Text(marker)), markers.node(more))


def without_end(language: Regular, end: str, markers: Markers) -> Regular:
    """The language without those of its listed words that cannot be written before ``end`` because they contain it."""
    head = _text_that_ends(end, markers)
    if not head:
        return language
    if language.op == "words":
        return words(word for word in language.args if not contains_end(word, end))
    return alternatives(*(without_end(p, end, markers) for p in language.args)) if language.op == "alt" else language


def contains_end(text: str, end: str) -> bool:
    """Whether ``text``, written before ``end``, would end earlier: where it contains the marker, or begins it."""
    lead = end[: -len(end.lstrip())] if end.strip() else ""
    return (text + end).find(bare(end)) < len(text + lead)


def is_writable(language: Regular, end: str, markers: Markers) -> bool:
    """Whether `ended` can write some word of the language; also True if the search for one is too large."""
    language, head = without_end(language, end, markers), _text_that_ends(end, markers)
    if language == ALL or not head:
        return language != NONE
    return not surely_empty(_ended_once(cat(language, text(end[: end.index(head)])), head), _MOST_STATES)


#: At most this many states are searched for a word that can be written.
_MOST_STATES = 3_000


def _text_that_ends(end: str, markers: Markers) -> str:
    """The text that raw text cannot contain; "" if a token ends it, which text can only spell in pieces."""
    pieces = markers.pieces(end)
    return bare(pieces[0]) if len(pieces) == 1 and isinstance(pieces[0], str) else ""


def _ended_once(language: Regular, head: str) -> Regular:
    return inter(cat(language, text(head)), neg(cat(ALL, text(head), ANY, ALL)))


def _before(language: Regular, head: str) -> Regular:
    """The words of the language that ``head`` ends where it is first written."""
    borders = (size for size in range(1, len(head)) if head.startswith(head[-size:]))
    begun = [neg(cat(ALL, text(head[:-size]))) for size in borders]
    return inter(language, neg(cat(ALL, text(head), ALL)), *begun)


def raw_node(term: Regular) -> Node:
    """The terminal node of exactly the words of ``term``."""
    if term == ALL:
        return ANY_TEXT
    if term.plain:
        return Pattern(_regex(term)) if term.op != "words" else alt(*map(Text, sorted(term.args)))
    args = term.args
    match term.op:
        case "cat":
            return Seq(tuple(map(raw_node, args)))
        case "alt":
            return alt(*map(raw_node, args))
        case "and":
            wanted = [raw_node(part) for part in args if part.op != "not"] or [ANY_TEXT]
            return And((*wanted, *(Not(_begun(part.args[0])) for part in args if part.op == "not")))
        case "not":
            return And((ANY_TEXT, Not(_begun(args[0]))))
    body, least, most = args
    return repeat(raw_node(body), least, most)


def _begun(term: Regular) -> Node:
    """A node over bytes whose valid UTF-8 texts are the words of ``term``, as in `grammars.regular.json_strings`."""
    if term.op == "alt" and term.args:
        return alt(*map(_begun, term.args))
    if term.op == "cat" and term.args and term.args[-1] == ALL:
        return seq(raw_node(cat(*term.args[:-1])), ANYTHING)
    return raw_node(term)


def _regex(term: Regular) -> str:
    args = term.args
    match term.op:
        case "chars":
            return _class(args)
        case "words":
            return "(?:" + "|".join("".join(map(_escaped, word)) for word in sorted(args)) + ")"
        case "cat":
            return "".join(map(_regex, args))
        case "alt":
            return f"(?:{'|'.join(map(_regex, args))})" if args else _NOTHING
    body, least, most = args
    if (least, most) == (0, 0):
        return ""
    inner = _regex(body)
    if body.op != "chars":
        inner = f"(?:{inner})"
    return inner + quantifier(least, most)


_NOTHING = r"[^\s\S]"
_SURROGATES: Ranges = ((0xD800, 0xDFFF),)


def _class(ranges: Ranges) -> str:
    if ranges == ANY.args:
        return "(?s:.)"
    kept = ranges_minus(ranges, _SURROGATES)
    return "[" + "".join(_escaped(chr(a)) if a == b else f"{_code(a)}-{_code(b)}" for a, b in kept) + "]"


def _code(code: int) -> str:
    return f"\\x{{{code:X}}}"


def _escaped(char: str) -> str:
    return char if char.isalnum() else _code(ord(char))
