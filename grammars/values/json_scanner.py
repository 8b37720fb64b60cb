"""An incremental JSON scanner with immutable states: `feed` bytes to a state to get the next; an old one still works.

It validates nothing: a grammar guarantees that the text is JSON, and where none does, brackets and quotes alone tell
where a value ends.  A state is the position and the keys and items written before it; the state that ends a duplicate
key or item says so (``is_duplicate``).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import NamedTuple

from grammars.values.json_escapes import canonical, decoded
from grammars.values.persistent_set import Mode, PersistentSet
from grammars.values.watchers import UniqueNode

__all__ = [
    "NUMBER_BYTES",
    "ScanFrame",
    "ScanState",
    "feed",
    "is_compared",
    "item_value",
    "read_value",
    "string_end",
]

_NOTHING = PersistentSet()


class ScanFrame(NamedTuple):
    """An open array or object.

    ``written`` are the keys, or the items that must differ, written so far (texts `canonical`); ``node`` is the number
    of its `UniqueNode` (-1: none); ``any_written``: this frame or one around it holds a key or an item; ``depth``: the
    number of frames that are open.
    """

    is_object: bool
    node: int
    parent: ScanFrame | None
    written: PersistentSet = _NOTHING
    item_index: int = 0  #: of the current item of an array
    child_node: int = -1  #: node of the value being written
    any_written: bool = False
    depth: int = 1


class ScanState(NamedTuple):
    """The position in the text; ``text`` is the current key or scalar so far, without quotes.

    For a string that is compared with nothing ``text`` stays empty: it may be long, and one state is kept per token.
    """

    mode: Mode = Mode.VALUE
    frame: ScanFrame | None = None
    text: bytes = b""
    escaped: bool = False
    is_duplicate: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the value is complete; then nothing more is read."""
        return self.mode is Mode.AFTER and self.frame is None


NUMBER_BYTES = b"-+.0123456789eE"
_SPACE = b" \n\r\t"
_EXPONENT_DIGITS = 4
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


def item_value(mode: Mode, text: bytes) -> object:
    """Return what items are compared by: of a string its text, of a number its value, of a literal its word.

    Of what is no number, or too large to compute with, the text.
    """
    if mode is Mode.NUMBER:
        try:
            return _number_value(text)
        except ValueError:
            return (mode, text)
    return (mode, canonical(text))


def _number_value(text: bytes) -> Fraction:
    """Return a number as JSON parsers read it: as a double if it has a fraction or exponent, else with all digits.

    Raises `ValueError` for an incomplete number, and for an exponent too large to compute with.
    """
    digits = text.decode("ascii")
    if b"." in text or b"e" in text or b"E" in text:
        value = float(digits)
        if not math.isinf(value):
            return Fraction(value)
        exponent = digits.lower().partition("e")[2].lstrip("+0")
        if len(exponent) > _EXPONENT_DIGITS:
            raise ValueError("the exponent is too large")
    return Fraction(digits)


def feed(state: ScanState, data: bytes, nodes: tuple[UniqueNode, ...]) -> ScanState:
    """Return the state after ``data``, with ``is_duplicate`` set if a key or an item ended for the second time."""
    return read_value(state, data, nodes)[0]


def read_value(state: ScanState, data: bytes, nodes: tuple[UniqueNode, ...]) -> tuple[ScanState, int]:
    """Return the state after ``data``, and how many of its bytes belong to the value."""
    at, size = 0, len(data)
    is_duplicate = False
    while at < size and not (state.mode is Mode.AFTER and state.frame is None):
        if state.mode is Mode.STRING or state.mode is Mode.IN_KEY:
            state, at = _in_string(state, data, at, nodes)
        elif state.mode is Mode.NUMBER or state.mode is Mode.LITERAL:
            state, at = _in_word(state, data, at, nodes)
        else:
            state = _structure(state, data[at], nodes)
            at += 1
        is_duplicate = is_duplicate or state.is_duplicate
    if is_duplicate and not state.is_duplicate:
        state = state._replace(is_duplicate=True)
    return state, at


def is_compared(frame: ScanFrame | None, nodes: tuple[UniqueNode, ...]) -> bool:
    """Whether ``frame`` is an array whose items must differ."""
    return frame is not None and not frame.is_object and frame.node >= 0 and nodes[frame.node].unique


def string_end(data: bytes, at: int, *, escaped: bool) -> int:
    """Return the place of the quote that ends the string in which ``at`` is, or of a backslash at the end of ``data``.

    The size of ``data`` if there is neither.  ``escaped``: a backslash comes before.
    """
    match = _IN_STRING.match(data, at + escaped)
    assert match is not None
    return match.end()


def _in_string(state: ScanState, data: bytes, at: int, nodes: tuple[UniqueNode, ...]) -> tuple[ScanState, int]:
    mode, frame, size = state.mode, state.frame, len(data)
    end = string_end(data, at, escaped=state.escaped)
    if data[end : end + 1] == b'"':
        text = state.text + data[at:end]
        ended = _key_ended(state, text, nodes) if mode is Mode.IN_KEY else _scalar_ended(state, mode, text, nodes)
        return ended, end + 1
    escaped = end < size
    if mode is Mode.IN_KEY or is_compared(frame, nodes):
        return ScanState(mode, frame, state.text + data[at:], escaped), size
    if escaped is state.escaped and not state.is_duplicate:
        return state, size
    return ScanState(mode, frame, b"", escaped), size


def _in_word(state: ScanState, data: bytes, at: int, nodes: tuple[UniqueNode, ...]) -> tuple[ScanState, int]:
    start, inside = at, NUMBER_BYTES if state.mode is Mode.NUMBER else b"abcdefghijklmnopqrstuvwxyz"
    while at < len(data) and data[at] in inside:
        at += 1
    text = state.text + data[start:at]
    if at == len(data):
        return ScanState(state.mode, state.frame, text), at
    return _scalar_ended(state, state.mode, text, nodes), at


def _key_ended(state: ScanState, text: bytes, nodes: tuple[UniqueNode, ...]) -> ScanState:
    frame = state.frame
    assert frame is not None
    child_node = -1
    text = canonical(text)
    if frame.node >= 0:
        node = nodes[frame.node]
        name = decoded(text)
        child_node = next((n for key, n in node.keys if key == name), node.others)
    after = frame._replace(written=frame.written.with_value(text), child_node=child_node, any_written=True)
    return ScanState(Mode.AFTER_KEY, after, is_duplicate=text in frame.written)


def _scalar_ended(state: ScanState, mode: Mode, text: bytes, nodes: tuple[UniqueNode, ...]) -> ScanState:
    frame = state.frame
    if frame is None or not is_compared(frame, nodes):
        return ScanState(Mode.AFTER, frame)
    value = item_value(mode, text)
    after = frame._replace(written=frame.written.with_value(value), any_written=True)
    return ScanState(Mode.AFTER, after, is_duplicate=value in frame.written)


def _structure(state: ScanState, byte: int, nodes: tuple[UniqueNode, ...]) -> ScanState:
    frame = state.frame
    if byte in _SPACE:
        return state
    if byte == 0x22:
        return ScanState(Mode.IN_KEY if state.mode is Mode.KEY else Mode.STRING, frame)
    if byte == 0x3A:
        return ScanState(Mode.VALUE, frame)
    if byte in b"{[":
        node = _node_below(frame, nodes)
        is_object = byte == 0x7B
        child_node = -1 if is_object else _item_node(node, 0, nodes)
        any_written, depth = (False, 0) if frame is None else (frame.any_written, frame.depth)
        opened = ScanFrame(is_object, node, frame, _NOTHING, 0, child_node, any_written, depth + 1)
        return ScanState(Mode.KEY if is_object else Mode.VALUE, opened)
    if byte in b"}]":
        return ScanState(Mode.AFTER, frame.parent if frame is not None else None)
    if byte == 0x2C:
        if frame is None:
            return state
        if frame.is_object:
            return ScanState(Mode.KEY, frame)
        index = frame.item_index + 1
        return ScanState(Mode.VALUE, frame._replace(item_index=index, child_node=_item_node(frame.node, index, nodes)))
    mode = Mode.NUMBER if byte in NUMBER_BYTES else Mode.LITERAL
    return ScanState(mode, frame, bytes((byte,)))


def _node_below(frame: ScanFrame | None, nodes: tuple[UniqueNode, ...]) -> int:
    if frame is None:
        return 0 if nodes else -1
    return frame.child_node


def _item_node(node: int, index: int, nodes: tuple[UniqueNode, ...]) -> int:
    if node < 0:
        return -1
    number = nodes[node]
    return number.prefix[index] if index < len(number.prefix) else number.items
