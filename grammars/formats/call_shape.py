"""The shape of one call, read off the sample calls: a pattern with holes, and what stands around it.

Three readings are tried in order: one JSON object that holds name and arguments; a name and somewhere behind it the
arguments as one JSON object; arguments one by one.  None of them knows a family; whether a reading is right is
shown afterwards by writing the same calls with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from grammars.formats import samples as s
from grammars.formats.call_texts import CallTexts
from grammars.formats.list_shape import ListShape, read_list
from grammars.formats.units import Units
from grammars.tool_calls.pattern import escape_literal, fill

__all__ = ["CallShape", "read_shape"]

_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class CallShape:
    """One call of ``both`` taken apart: ``before`` and ``after`` the pattern, and between two calls ``middle``.

    ``kind`` is ``object``, ``name`` or ``list``; ``middle`` is None where a second call is not written.
    """

    kind: str
    pattern: str
    before: str
    after: str
    middle: str | None = None
    index_base: int | None = None
    list: ListShape | None = None


def read_shape(texts: CallTexts, units: Units) -> CallShape | None:
    """The shape of a call; None where no reading fits."""
    whole = _object(texts) or _name_and_json(texts) or _list(texts, units)
    return None if whole is None else _with_second(whole, texts)


# -- arguments as one JSON object


def _object(texts: CallTexts) -> CallShape | None:
    arguments = next(_json_spans(texts.both, s.BOTH), None)
    if arguments is None:
        return None
    for begin, end, value in _objects(texts.both):
        if begin < arguments[0] and arguments[1] <= end and _holds_name(value):
            return CallShape(
                "object", _with_holes(texts.both, begin, end, arguments), texts.both[:begin], texts.both[end:]
            )
    return None


def _name_and_json(texts: CallTexts) -> CallShape | None:
    arguments = next(_json_spans(texts.both, s.BOTH), None)
    if arguments is None or s.NAME not in texts.both[: arguments[0]]:
        return None
    begin = _beginning(texts.both)
    pattern = _with_holes(texts.both, begin, arguments[1], arguments)
    return CallShape("name", pattern, texts.both[:begin], texts.both[arguments[1] :])


def _beginning(text: str) -> int:
    """Where the variable part of a call begins: at the name, or at an id in front of it."""
    places = [text.index(word) for word in (s.NAME, s.ID) if word in text]
    return min(places)


def _json_spans(text: str, value: Any) -> Iterator[tuple[int, int]]:
    return ((begin, end) for begin, end, found in _objects(text) if found == value)


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
    return f"{left}$arguments{right}"


def _named(literal: str) -> str:
    return escape_literal(literal).replace(s.NAME, "$name").replace(s.ID, "$id")


# -- a second call


def _with_second(shape: CallShape, texts: CallTexts) -> CallShape:
    """The shape with what stands between two calls, and with the hole of a call's number where it has one."""
    if texts.two is None or s.OTHER_NAME not in texts.two:
        return shape
    for pattern, base in _numbered(shape.pattern):
        first = _written(pattern, s.NAME, s.ID, base, shape, texts)
        second = _written(pattern, s.OTHER_NAME, s.OTHER_ID, None if base is None else base + 1, shape, None)
        begin = texts.two.find(first)
        middle = texts.two.find(second, begin + len(first)) if begin >= 0 else -1
        if middle >= 0:
            between = texts.two[begin + len(first) : middle]
            after = texts.two[middle + len(second) :]
            after = after if after.startswith(shape.after) else shape.after  # some close a section only behind more
            found = replace(shape, pattern=pattern, middle=between, index_base=base, after=after)
            return _with_number_in_front(found) if base is None else found
    return shape


def _with_number_in_front(shape: CallShape) -> CallShape:
    """The shape with a number that stands in front of the name, inside what opens a call."""
    for match in reversed(list(re.finditer(r"(?<!\w)[01](?!\w)", shape.before))):
        base, behind = int(match[0]), shape.before[match.end() :]
        opened = f"{base + 1}{behind}"
        if shape.middle is not None and shape.middle.endswith(opened):
            middle = shape.middle[: len(shape.middle) - len(opened)]
            pattern = f"$index{escape_literal(behind)}{shape.pattern}"
            return replace(shape, pattern=pattern, before=shape.before[: match.start()], middle=middle, index_base=base)
    return shape


def _numbered(pattern: str) -> Iterator[tuple[str, int | None]]:
    yield pattern, None
    for match in re.finditer(r"(?<![\w$])[01](?!\w)", pattern):
        yield pattern[: match.start()] + "$index" + pattern[match.end() :], int(match[0])


def _written(
    pattern: str, name: str, call_id: str, index: int | None, shape: CallShape, texts: CallTexts | None
) -> str:
    """A call as the pattern writes it: with the arguments of ``both``, or with none."""
    if shape.list is not None:
        arguments = shape.list.both if texts is not None else ""
    elif texts is not None:
        arguments = texts.both[slice(*next(_json_spans(texts.both, s.BOTH)))]
    else:
        arguments = "{}"
    values = {"name": name, "id": call_id, "index": str(index), "arguments": arguments, "parameters": arguments}
    return fill(pattern, values)


# -- arguments one by one


def _list(texts: CallTexts, units: Units) -> CallShape | None:
    found = read_list(texts, units)
    if found is None:
        return None
    begin, at = _beginning(texts.both), texts.both.index(s.NAME) + len(s.NAME)
    pattern = f"{_named(texts.both[begin:at])}{_named(found.head)}$parameters"
    closing = found.end[: found.end.rfind(s.NAME) + len(s.NAME)] if s.NAME in found.end else ""
    end = found.end[len(closing) :]
    return CallShape("list", pattern + _named(closing), texts.both[:begin], end, list=found)
