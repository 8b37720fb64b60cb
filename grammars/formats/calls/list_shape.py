"""The shape of arguments that are written one by one: what opens a key, leads to a value, and closes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammars.formats.probe import samples as s
from grammars.formats.probe.sample_calls import CallTexts
from grammars.formats.probe.text_units import Units

__all__ = ["KEY_AGAIN", "ListShape", "read_list"]

#: Stands in `ListShape` where what closes a value names its key again.
KEY_AGAIN = "\ue000"


@dataclass(frozen=True, slots=True)
class ListShape:
    """``name head (opening KEY value VALUE value_end separator)* end``, for a string and for a number.

    ``both`` is the whole list of ``CallTexts.both``, ``end`` everything behind it.
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
class _Cut:
    """``NAME lead KEY0 word_value WORD word_key KEY1 number_value NUMBER tail``."""

    lead: str
    word_value: str
    word_key: str
    number_value: str
    tail: str


def read_list(texts: CallTexts, units: Units) -> ListShape | None:
    """The list's shape; None where key, value, key, value do not follow each other behind the name."""
    cut = _cut(texts.both)
    if cut is None:
        return None
    for head, end in _frames(cut, texts, units):
        opening = cut.lead[len(head) :]
        number_end = cut.tail[: len(cut.tail) - len(end)]
        word_end = _word_end(texts, cut, end)
        used = len(word_end) + len(opening)
        if cut.word_key.startswith(word_end) and cut.word_key.endswith(opening) and used <= len(cut.word_key):
            return ListShape(
                head=head,
                opening=opening,
                word_value=cut.word_value,
                word_end=word_end,
                number_value=cut.number_value,
                number_end=number_end,
                separator=cut.word_key[len(word_end) : len(cut.word_key) - len(opening)],
                end=end,
                both=_between(texts.both, head, end),
                is_sorted=_is_sorted(texts.turned),
            )
    return None


def _cut(text: str) -> _Cut | None:
    pieces, at = [], 0
    for word in (s.NAME, s.KEYS[0], s.WORD, s.KEYS[1], str(s.NUMBER)):
        found = text.find(word, at)
        if found < 0:
            return None
        pieces.append(text[at:found])
        at = found + len(word)
    lead, word_value, word_key, number_value = pieces[1:]
    word_key, tail = word_key.replace(s.KEYS[0], KEY_AGAIN), text[at:].replace(s.KEYS[1], KEY_AGAIN)
    return _Cut(lead, word_value, word_key, number_value, tail)


def _frames(cut: _Cut, texts: CallTexts, units: Units) -> Iterator[tuple[str, str]]:
    """Pairs of what stands between name and list, and what stands behind it.

    A call without arguments shows both; where the family writes that in a way of its own, what the beginning of
    the list shares with its middle belongs to the keys.
    """
    if texts.none is not None:
        empty = texts.none[texts.none.index(s.NAME) + len(s.NAME) :]
        head = units.common_prefix(cut.lead, empty)
        yield head, units.common_suffix(empty[len(head) :], cut.tail)
    opening = units.common_suffix(cut.lead, cut.word_key)
    closing = units.common_prefix(cut.word_key, cut.tail)
    yield cut.lead[: len(cut.lead) - len(opening)], cut.tail[len(closing) :]


def _word_end(texts: CallTexts, cut: _Cut, end: str) -> str:
    """What closes a string: in a call with nothing but a string it stands right in front of the call's end."""
    if texts.word is None or s.WORD not in texts.word:
        return cut.tail[: len(cut.tail) - len(end)]
    alone = texts.word[texts.word.index(s.WORD) + len(s.WORD) :]
    return alone.removesuffix(end).replace(s.KEYS[0], KEY_AGAIN)


def _between(text: str, head: str, end: str) -> str:
    at = text.index(s.NAME) + len(s.NAME) + len(head)
    return text[at : len(text) - len(end)]


def _is_sorted(turned: str | None) -> bool:
    """Did the template bring keys into order that were given in another one?"""
    return turned is not None and 0 <= turned.find(s.KEYS[0]) < turned.find(s.KEYS[1])
