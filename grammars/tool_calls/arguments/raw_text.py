"""The lexemes of raw values: text without quotes or escapes that ends at a marker.

The first occurrence of the marker ends the text, so the text cannot contain it, wherever it stands: the white space
that a format writes around it (``\\n</parameter>\\n``) makes it no other marker.
"""

from __future__ import annotations

from grammars.regular.languages import surely_empty
from grammars.regular.syntax.write import ANY_TEXT, raw_node
from grammars.regular.terms import ALL, ANY, NONE, Regular, cat, inter, neg, text, words
from grammars.regular.terms import alt as alternatives
from grammars.tree.markers import Markers
from grammars.tree.nodes import Lexeme, Node, Text, Until, seq

__all__ = ["bare", "contains_end", "is_writable", "text_until", "without_end"]


def bare(end: str) -> str:
    """The marker in ``end``, without the white space around it; ``end`` itself where there is nothing else."""
    return end.strip() or end


def text_until(language: Regular, end: str, markers: Markers, *, name: str = "value") -> Node:
    """The node of a text of ``language`` and of ``end``, which ends the text.

    If ``end`` begins with a token, text cannot contain it; if it begins with characters, these are part of the
    text's lexeme, which would otherwise swallow them.
    """
    language = without_end(language, end, markers)
    pieces = markers.pieces(end)
    head = pieces[0] if pieces and isinstance(pieces[0], str) else ""
    tail = markers.node(end[len(head) :])
    if not head:
        return seq(markers.any_text() if language == ALL else Lexeme(name, raw_node(language)), tail)
    if len(pieces) > 1:  # a token follows and ends the text, so the text may contain the head
        return seq(Lexeme(name, seq(raw_node(language), Text(head))), tail)
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
    """Whether `text_until` can write some word of the language; also True if the search for one is too large."""
    language, head = without_end(language, end, markers), _text_that_ends(end, markers)
    if language == ALL or not head:
        return language != NONE
    return not surely_empty(_ended_once(cat(language, text(end[: end.index(head)])), head), _MAX_STATES)


#: At most this many states are searched for a word that can be written.
_MAX_STATES = 3_000


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
