"""Infer the shape of one call from the sample calls: a pattern with holes, and the text around it.

Three shapes are tried in order: one JSON object with name and arguments; a name followed by the arguments as one JSON
object; arguments one by one.  None is specific to a family.  Whether a shape is right is checked later, by writing the
sample calls with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from grammars.formats.calls.list_shape import ListShape, read_list
from grammars.formats.probe import samples as s
from grammars.formats.probe.json_spelling import json_spans
from grammars.formats.probe.sample_calls import CallTexts
from grammars.formats.probe.text_units import Units
from grammars.tool_calls.pattern import CallPattern, Hole, parse_pattern, pattern_text

__all__ = ["CallShape", "read_shape"]

_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class CallShape:
    """A rendered call: its pattern, the text ``before`` and ``after`` it, and the text between two calls (``middle``).

    ``kind`` is ``object``, ``name`` or ``list``; ``middle`` is None if the template writes no second call.
    """

    kind: str
    pattern: str
    before: str
    after: str
    middle: str | None = None
    index_base: int | None = None
    list: ListShape | None = None
    is_unread: bool = False  #: the template writes further calls, but not in this shape


def read_shape(texts: CallTexts, units: Units) -> CallShape | None:
    """The shape of a call; None if none fits.

    If the template writes several calls, each of them must have the shape; otherwise ``is_unread`` is set.
    """
    unread: CallShape | None = None
    for shape in _shapes(texts, units):
        extended = _with_more(shape, texts)
        if extended is not None:
            return extended
        unread = unread or replace(shape, is_unread=True)
    return unread


def _shapes(texts: CallTexts, units: Units) -> Iterator[CallShape]:
    yield from _objects_of_calls(texts)
    for shape in (_name_and_json(texts), _list(texts, units)):
        if shape is not None:
            yield shape


# -- arguments as one JSON object


def _objects_of_calls(texts: CallTexts) -> Iterator[CallShape]:
    """The shapes with a JSON object that contains both name and arguments, the outermost object first."""
    arguments = next(json_spans(texts.both, s.BOTH), None)
    if arguments is None:
        return
    for begin, end, value in _objects(texts.both):
        if begin < arguments[0] and arguments[1] <= end and _holds_name(value):
            pattern = _with_holes(texts.both, begin, end, arguments)
            yield CallShape("object", pattern, texts.both[:begin], texts.both[end:])


def _name_and_json(texts: CallTexts) -> CallShape | None:
    arguments = next(json_spans(texts.both, s.BOTH), None)
    if arguments is None or s.NAME not in texts.both[: arguments[0]]:
        return None
    begin = _beginning(texts.both)
    pattern = _with_holes(texts.both, begin, arguments[1], arguments)
    return CallShape("name", pattern, texts.both[:begin], texts.both[arguments[1] :])


def _beginning(text: str) -> int:
    """The position where the variable part of a call begins: at the name, or at an id before it."""
    places = [text.index(word) for word in (s.NAME, s.ID) if word in text]
    return min(places)


def _objects(text: str) -> Iterator[tuple[int, int, Any]]:
    for match in re.finditer(r"\{", text):
        try:
            value, end = _DECODER.raw_decode(text, match.start())
        except ValueError:
            continue
        yield match.start(), end, value


def _holds_name(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key == s.NAME or _holds_name(inner) for key, inner in value.items())
    return bool(value == s.NAME)


def _with_holes(text: str, begin: int, end: int, arguments: tuple[int, int]) -> str:
    left, right = (_named(part) for part in (text[begin : arguments[0]], text[arguments[1] : end]))
    return pattern_text((*left, Hole("arguments"), *right))


def _named(literal: str) -> list[str | Hole]:
    """The text with holes for the sample name and the sample id."""
    holes = {s.NAME: Hole("name"), s.ID: Hole("id")}
    return [holes.get(part, part) for part in re.split(f"({s.NAME}|{s.ID})", literal) if part]


# -- more calls


def _with_more(shape: CallShape, texts: CallTexts) -> CallShape | None:
    """The shape with the text between two calls and, if calls are numbered, with the hole for the number.

    None if the template writes further calls, but not in this shape.
    """
    if texts.two is None or s.OTHER_NAME not in texts.two:
        return shape  # one call only
    several = texts.three if texts.three is not None and s.OTHER_NAME in texts.three else texts.two
    number = 2 if several is texts.two else 3
    series = _read_series(several, parse_pattern(shape.pattern), _values(shape, texts, number), shape.before)
    if series is None:
        return None
    taken = pattern_text((*series.left, *series.pattern, *series.right))
    kind = "name" if shape.kind == "object" and (series.left or series.right) else shape.kind
    if shape.list is not None and series.right:
        return None  # no syntax has a number after arguments that are written one by one
    before, after = (
        _without(shape.before, series.left, series.base),
        _without(shape.after, series.right, series.base, 1),
    )
    ends_alike = series.after.startswith(after)  # some templates close a section only after several calls
    return replace(
        shape,
        kind=kind,
        pattern=taken,
        before=before,
        after=series.after if ends_alike else after,
        middle=series.between,
        index_base=series.base,
    )


def _without(text: str, taken: CallPattern, index: int | None, side: int = 0) -> str:
    """``text`` without the part at its end, or at its beginning (``side`` 1), that the pattern has taken over."""
    length = sum(len(str(index)) if isinstance(part, Hole) else len(part) for part in taken)
    return text[length:] if side else text[: len(text) - length]


def _values(shape: CallShape, texts: CallTexts, number: int) -> list[dict[str, str]]:
    """The values of the holes in each sample call: one with arguments, one without, and one like the first."""
    if shape.list is not None:
        given = (shape.list.both, "")
    else:
        given = (texts.both[slice(*next(json_spans(texts.both, s.BOTH)))], "{}")
    return [
        {"name": name, "id": call_id, "arguments": arguments, "parameters": arguments}
        for name, call_id, arguments in (
            (s.NAME, s.ID, given[0]),
            (s.OTHER_NAME, s.OTHER_ID, given[1]),
            (s.NAME, s.THIRD_ID, given[0]),
        )
    ][:number]


# -- arguments one by one


def _list(texts: CallTexts, units: Units) -> CallShape | None:
    listed = read_list(texts, units)
    if listed is None:
        return None
    begin, at = _beginning(texts.both), texts.both.index(s.NAME) + len(s.NAME)
    lead = [*_named(texts.both[begin:at]), *_named(listed.head), Hole("parameters")]
    closing = listed.end[: listed.end.rfind(s.NAME) + len(s.NAME)] if s.NAME in listed.end else ""
    end = listed.end[len(closing) :]
    return CallShape("list", pattern_text((*lead, *_named(closing))), texts.both[:begin], end, list=listed)


_NUMBER = re.compile(r"(?<![0-9.])([0-9]+)(?![0-9])")
_INDEX = Hole("index")


@dataclass(frozen=True, slots=True)
class _CallSeries:
    """Consecutive calls in one rendering.

    ``left`` and ``right`` are the parts by which the pattern grows so that it includes the outermost numbers around it;
    ``between`` is the text between two calls, ``after`` the text after the last.  ``base`` is the number of the first
    call, None if calls are not numbered.
    """

    pattern: CallPattern
    left: CallPattern
    right: CallPattern
    between: str
    after: str
    base: int | None


def _read_series(text: str, pattern: CallPattern, values: Sequence[dict[str, str]], before: str) -> _CallSeries | None:
    """The calls in ``text``, each written by ``pattern`` with its own ``values`` of holes.

    ``before`` is the text before a single call.  None if the text has other calls or differing texts between them.
    """
    parts = tuple(_cut(pattern))
    spans: list[tuple[int, int]] = []
    numbers: list[tuple[str, ...]] = []
    for of_call in values:
        match = re.compile("".join(_regex(part, of_call) for part in parts)).search(text, spans[-1][1] if spans else 0)
        if match is None:
            return None
        spans.append(match.span())
        numbers.append(match.groups())
    counted = _counted(numbers)
    if counted is None:
        return None
    read, base = _with_index(parts, counted), next((base for base in counted if base is not None), None)
    gaps = [text[one[1] : other[0]] for one, other in pairwise(spans)]
    last = text[spans[-1][1] :]
    left, base = _grown([before[::-1], *(gap[::-1] for gap in gaps)], base, backwards=True)
    right, base = _grown([*gaps, last], base)
    begins = [_written(right, base, i) for i in range(len(spans))]
    ends = [len(gap) - _written(left, base, i + 1) for i, gap in enumerate(gaps)]
    between = {gap[begin:end] for gap, begin, end in zip(gaps, begins, ends, strict=False)}
    if len(between) > 1:
        return None
    return _CallSeries(read, left, right, between.pop(), last[begins[-1] :], base)


def _cut(pattern: CallPattern) -> Iterator[str | Hole]:
    """The pattern split so that each number, which may count calls, is a part of its own."""
    for part in pattern:
        if isinstance(part, Hole):
            yield part
        else:
            yield from (piece for piece in _NUMBER.split(part) if piece)


def _regex(part: str | Hole, values: dict[str, str]) -> str:
    if isinstance(part, Hole):
        return re.escape(values[part.name])
    return "([0-9]+)" if part.isdigit() else re.escape(part)


def _counted(numbers: Sequence[tuple[str, ...]]) -> list[int | None] | None:
    """For each number of the pattern its value in the first call, or None if it is the same in all calls.

    None altogether if a number neither counts nor stays the same, or if two of them count from different values.
    """
    out: list[int | None] = []
    for column in zip(*numbers, strict=True):
        if len(set(column)) == 1:
            out.append(None)
        elif _counts(column):
            out.append(int(column[0]))
        else:
            return None
    return out if len({base for base in out if base is not None}) <= 1 else None


def _counts(column: Sequence[str]) -> bool:
    """Whether the first number is 0 or 1 and each other one is greater by one than the previous."""
    return column[0] in ("0", "1") and all(number == str(int(column[0]) + i) for i, number in enumerate(column))


def _with_index(parts: Sequence[str | Hole], counted: Sequence[int | None]) -> CallPattern:
    out: list[str | Hole] = []
    bases = iter(counted)
    for part in parts:
        is_number = not isinstance(part, Hole) and part.isdigit()
        out.append(_INDEX if is_number and next(bases) is not None else part)
    return tuple(out)


def _grown(texts: Sequence[str], base: int | None, *, backwards: bool = False) -> tuple[CallPattern, int | None]:
    """The common prefix of all texts up to the last number that counts, as a pattern; and the base of the numbers."""
    units = [re.findall(r"[0-9]+|[^0-9]", text) for text in texts]
    out: list[str | Hole] = []
    kept = 0
    for column in zip(*units, strict=False):
        column = tuple(unit[::-1] for unit in column) if backwards else column
        if len(set(column)) == 1:
            out.append(column[0])
        elif column[0].isdigit() and _counts(column) and base in (None, int(column[0])):
            base = int(column[0])
            out.append(_INDEX)
            kept = len(out)
        else:
            break
    out = out[:kept]
    return tuple(reversed(out) if backwards else out), base


def _written(pattern: CallPattern, base: int | None, call: int) -> int:
    """The length of the pattern's text in the ``call``-th call, counted from 0."""
    return sum(len(str((base or 0) + call)) if isinstance(part, Hole) else len(part) for part in pattern)
