"""JSON values in text that is still arriving: found by their brackets and quotes, handed out as they are written.

Values are not validated here: an unguided model's ``{"a": oops}`` is handed out as it stands, and whoever reads the
arguments says that they are not JSON.  A marker token (a lone surrogate) is never part of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from typing import Any

from grammars.tool_calls.reader import Broken, Cut, Reader, Script

__all__ = ["is_inside_string", "read_key", "read_value", "stream_value"]

_OPEN, _CLOSE = "{[", "}]"
_OUTSIDE = re.compile('["{}\\[\\]\ud800-\udfff]')
_INSIDE = re.compile('["\\\\\ud800-\udfff]')
_SCALAR_END = re.compile("[,}\\]\\s\ud800-\udfff]")


def read_value(reader: Reader) -> Generator[None, None, str]:
    """Reads one whole value and returns its text."""
    pieces: list[str] = []
    yield from stream_value(reader, pieces.append)
    return "".join(pieces)


def is_inside_string(text: str) -> bool:
    """Does ``text`` begin an object or a list and break off inside one of its strings?"""
    begun = text.lstrip()
    return begun[:1] in ("{", "[") and _scan(begun, 0, False)[2]


def read_key(reader: Reader) -> Generator[None, None, str]:
    """Reads one JSON string and returns what it says; raises `Broken` for anything else."""
    yield from reader.space()
    if (yield from reader.peek()) != '"':
        raise Broken
    text = yield from read_value(reader)
    return str(_loads(text))


def _loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except ValueError:
        raise Broken from None


def stream_value(reader: Reader, sink: Callable[[str], None]) -> Script:
    """Reads one value and hands its text to ``sink``, in pieces that are certain to belong to it."""
    yield from reader.space()
    first = yield from reader.peek()
    if first in _OPEN or first == '"':
        yield from _nested(reader, sink)
    elif first in _CLOSE or first == "," or "\ud800" <= first <= "\udfff":
        raise Broken
    else:
        yield from _scalar(reader, sink)


def _nested(reader: Reader, sink: Callable[[str], None]) -> Script:
    depth, in_string = 0, False
    while True:
        text = reader.ahead_all()
        end, depth, in_string, complete = _scan(text, depth, in_string)
        if end:
            sink(reader.take(end))
        if complete:
            return
        if end < len(text) and text[end] != "\\":  # a marker token: the value breaks off
            raise Broken
        yield from reader.more()


def _scan(text: str, depth: int, in_string: bool) -> tuple[int, int, bool, bool]:
    """How far the value goes in ``text``, the state there, and whether it is complete."""
    at = 0
    while True:
        found = (_INSIDE if in_string else _OUTSIDE).search(text, at)
        if found is None:
            return len(text), depth, in_string, False
        at, char = found.end(), found[0]
        if char == "\\":
            if at == len(text):
                return at - 1, depth, in_string, False  # wait for what it escapes
            at += 1
        elif char == '"':
            in_string = not in_string
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        else:
            return found.start(), depth, in_string, False
        if depth <= 0 and not in_string:
            return at, depth, in_string, True


def _scalar(reader: Reader, sink: Callable[[str], None]) -> Script:
    while True:
        text = reader.ahead_all()
        found = _SCALAR_END.search(text)
        end = found.start() if found else len(text)
        if end:
            sink(reader.take(end))
        if found:
            return
        try:
            yield from reader.more()
        except Cut:
            return  # a scalar ends where the output does
