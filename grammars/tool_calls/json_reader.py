"""Read JSON values from text that is still arriving, delimited by their brackets and quotes.

Values are passed on unvalidated: an unguided model's ``{"a": oops}`` comes out unchanged, and the reader of the
arguments reports that they are not JSON.  A marker token (a lone surrogate in marked text) is never part of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator

from grammars.tool_calls.reader import OutputEnded, Reader, ReadStep, UnexpectedText
from grammars.values.json_scanner import ScanState
from grammars.values.json_scanner import read_value as scan_value
from grammars.values.persistent_set import Mode

__all__ = ["is_inside_string", "read_key", "read_value", "stream_value"]

_OPEN, _CLOSE = "{[", "}]"
_MARKER = re.compile("[\ud800-\udfff]")
_SCALAR_END = re.compile("[,}\\]\\s\ud800-\udfff]")


def read_value(reader: Reader) -> Generator[None, None, str]:
    """Read one complete value and return its text."""
    pieces: list[str] = []
    yield from stream_value(reader, pieces.append)
    return "".join(pieces)


def is_inside_string(text: str) -> bool:
    """Whether ``text`` begins an object or an array and ends inside one of its strings."""
    begun = text.lstrip()
    return begun[:1] in ("{", "[") and _scanned(ScanState(), begun)[0].mode in (Mode.STRING, Mode.IN_KEY)


def read_key(reader: Reader) -> Generator[None, None, str]:
    """Read one JSON string and return its decoded text; raises `UnexpectedText` for anything else."""
    yield from reader.space()
    if (yield from reader.peek()) != '"':
        raise UnexpectedText
    text = yield from read_value(reader)
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        raise UnexpectedText from None


def stream_value(reader: Reader, sink: Callable[[str], None]) -> ReadStep:
    """Read one value and pass its text to ``sink`` piece by piece."""
    yield from reader.space()
    first = yield from reader.peek()
    if first in _OPEN or first == '"':
        yield from _nested(reader, sink)
    elif first in _CLOSE or first == "," or "\ud800" <= first <= "\udfff":
        raise UnexpectedText
    else:
        yield from _scalar(reader, sink)


def _nested(reader: Reader, sink: Callable[[str], None]) -> ReadStep:
    scan = ScanState()
    while True:
        text = reader.ahead()
        scan, end = _scanned(scan, text)
        if end:
            sink(reader.take(end))
        if scan.is_complete:
            return
        if end < len(text):  # a marker token cuts the value off
            raise UnexpectedText
        yield from reader.more()


def _scanned(scan: ScanState, text: str) -> tuple[ScanState, int]:
    """Return the state where the value or the text ends, or a marker token comes, and the place."""
    marker = _MARKER.search(text)
    value = text[: marker.start()] if marker else text
    return scan_value(scan, value.encode("latin-1", "replace"), ())  # one byte a character


def _scalar(reader: Reader, sink: Callable[[str], None]) -> ReadStep:
    while True:
        text = reader.ahead()
        match = _SCALAR_END.search(text)
        end = match.start() if match else len(text)
        if end:
            sink(reader.take(end))
        if match:
            return
        try:
            yield from reader.more()
        except OutputEnded:
            return  # a scalar ends where the output does
