"""Infer the shape of arguments written one by one: the texts before a key, between key and value, after a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from grammars.formats.probe import samples as s
from grammars.formats.probe.sample_calls import CallTexts
from grammars.formats.probe.text_units import Units

__all__ = ["KEY_AGAIN", "ListShape", "mark_around", "read_list"]

#: In `ListShape`: placeholder for the key if the text after a value repeats it.
KEY_AGAIN = "\ue000"


@dataclass(frozen=True, slots=True)
class ListShape:
    """``name head (opening KEY value VALUE value_end separator)* end``, for a string and for a number.

    ``both`` is the text of the list in ``CallTexts.both``, ``end`` everything after it.
    """

    head: str
    opening: str
    word_value: str
    word_end: str
    number_value: str
    number_end: str
    separator: str
    end: str
    both: str
    is_sorted: bool


@dataclass(frozen=True, slots=True)
class _Pieces:
    """``NAME lead KEY0 word_value WORD word_key KEY1 number_value NUMBER tail``."""

    lead: str
    word_value: str
    word_key: str
    number_value: str
    tail: str


def read_list(texts: CallTexts, units: Units) -> ListShape | None:
    """The shape of the list; None if key, value, key and value do not follow the name in this order."""
    cut = _cut(texts.both)
    if cut is None:
        return None
    for head, end in _surroundings(cut, texts, units):
        opening = cut.lead[len(head) :]
        number_end = cut.tail[: len(cut.tail) - len(end)]
        word_end = _word_end(texts, cut, end)
        used = len(word_end) + len(opening)
        if cut.word_key.startswith(word_end) and cut.word_key.endswith(opening) and used <= len(cut.word_key):
            shape = ListShape(
                head=head,
                opening=opening,
                word_value=cut.word_value,
                word_end=word_end,
                number_value=cut.number_value,
                number_end=number_end,
                separator=cut.word_key[len(word_end) : len(cut.word_key) - len(opening)],
                end=end,
                both=_between(texts.both, head, end),
                is_sorted=_is_sorted(texts.reversed_keys),
            )
            return _with_mark(shape, mark_around(number_end))
    return None


def mark_around(text: str) -> str:
    """The text with which ``text`` both begins and ends, unless it is white space: a mark in front of every tag."""
    return next((text[:n] for n in range(len(text) // 2, 0, -1) if text[:n].strip() and text.endswith(text[:n])), "")


def _with_mark(shape: ListShape, mark: str) -> ListShape:
    """The shape with the mark in front of its own tags, not after the tags before them."""
    if not mark or not all(text.endswith(mark) for text in (shape.head, shape.word_end)):
        return shape
    return replace(
        shape,
        head=shape.head.removesuffix(mark),
        opening=mark + shape.opening,
        word_end=shape.word_end.removesuffix(mark),
        number_end=shape.number_end.removesuffix(mark),
        end=mark + shape.end,
        both=mark + shape.both.removesuffix(mark),
    )


def _cut(text: str) -> _Pieces | None:
    pieces, at = [], 0
    for word in (s.NAME, s.KEYS[0], s.WORD, s.KEYS[1], str(s.NUMBER)):
        begin = text.find(word, at)
        if begin < 0:
            return None
        pieces.append(text[at:begin])
        at = begin + len(word)
    lead, word_value, word_key, number_value = pieces[1:]
    word_key, tail = word_key.replace(s.KEYS[0], KEY_AGAIN), text[at:].replace(s.KEYS[1], KEY_AGAIN)
    return _Pieces(lead, word_value, word_key, number_value, tail)


def _surroundings(cut: _Pieces, texts: CallTexts, units: Units) -> Iterator[tuple[str, str]]:
    """Candidates for the pair of texts between name and list and after the list.

    A call without arguments shows both.  If the family writes such a call differently, the text that the beginning of
    the list shares with its middle belongs to the keys.
    """
    if texts.none is not None:
        empty = texts.none[texts.none.index(s.NAME) + len(s.NAME) :]
        head = units.common_prefix(cut.lead, empty)
        yield head, units.common_suffix(empty[len(head) :], cut.tail)
    opening = units.common_suffix(cut.lead, cut.word_key)
    closing = units.common_prefix(cut.word_key, cut.tail)
    yield cut.lead[: len(cut.lead) - len(opening)], cut.tail[len(closing) :]


def _word_end(texts: CallTexts, cut: _Pieces, end: str) -> str:
    """The text that closes a string: in a call with only a string it directly precedes the end of the call."""
    if texts.word is None or s.WORD not in texts.word:
        return cut.tail[: len(cut.tail) - len(end)]
    alone = texts.word[texts.word.index(s.WORD) + len(s.WORD) :]
    return alone.removesuffix(end).replace(s.KEYS[0], KEY_AGAIN)


def _between(text: str, head: str, end: str) -> str:
    at = text.index(s.NAME) + len(s.NAME) + len(head)
    return text[at : len(text) - len(end)]


def _is_sorted(turned: str | None) -> bool:
    """Whether the template sorted keys that were passed in another order."""
    return turned is not None and 0 <= turned.find(s.KEYS[0]) < turned.find(s.KEYS[1])
