"""An incremental JSON scanner whose states are values: feed bytes, get the next state; go back by keeping the old one.

It follows text that a grammar has already made sure is JSON, so it only remembers what the watchers ask for: where
the text stands, and which keys and items were written before.  A state never changes; a repeat is reported by the
state that ends it (``repeated``).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import NamedTuple

from grammars.values.watchers import UniqueNode
from guided.watchers.persistent_set import Mode, Seen
from guided.watchers.json_escapes import canonical, decoded

__all__ = [
    "NUMBER_BYTES",
    "Frame",
    "Mode",
    "ScanState",
    "Seen",
    "feed",
    "is_compared",
    "item_value",
    "number_value",
    "read_value",
]


_NOTHING = Seen()


class Frame(NamedTuple):
    """An open array or object.

    ``seen`` are the keys, or the items that must differ, written so far (texts `canonical`); ``node`` is the number
    of its `UniqueNode` (-1: none); ``armed`` says that this frame or one around it has seen something.
    """

    is_object: bool
    node: int
    parent: Frame | None
    seen: Seen = _NOTHING
    at: int = 0
    below: int = -1  #: node of the value that is being written
    armed: bool = False


class ScanState(NamedTuple):
    """Where the text stands; ``text`` is what was written of the current key or scalar, quotes left out.

    Of a string that nothing is compared with it stays empty: it may be long, and every token keeps its state.
    """

    mode: Mode = Mode.VALUE
    frame: Frame | None = None
    text: bytes = b""
    escaped: bool = False
    repeated: bool = False

    @property
    def is_whole(self) -> bool:
        """Is the value complete?  Then nothing is read any more."""
        return self.mode is Mode.AFTER and self.frame is None


NUMBER_BYTES = b"-+.0123456789eE"
_SPACE = b" \n\r\t"
_EXPONENT_DIGITS = 4
_IN_STRING = re.compile(rb'["\\]')


def item_value(mode: Mode, text: bytes) -> object:
    """What an item is compared by: a string by its text, a number by its value, a literal by its word."""
    if mode is Mode.NUMBER:
        try:
            return number_value(text)
        except (ValueError, ZeroDivisionError):
            return (mode, text)
    return (mode, canonical(text))


def number_value(text: bytes) -> Fraction:
    """A number as readers of JSON hold it: of fractions and exponents what a double does, of integers all digits.

    Raises `ValueError` for what is no number yet, or has an exponent that nobody works out.
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
    """The state after ``data``; ``repeated`` when it ends a key or an item for the second time."""
    return read_value(state, data, nodes)[0]


def read_value(state: ScanState, data: bytes, nodes: tuple[UniqueNode, ...]) -> tuple[ScanState, int]:
    """The state after ``data``, and how much of it belongs to the value."""
    at, size = 0, len(data)
    repeated = False
    while at < size and not (state.mode is Mode.AFTER and state.frame is None):
        if state.mode is Mode.STRING or state.mode is Mode.IN_KEY:
            state, at = _in_string(state, data, at, nodes)
        elif state.mode is Mode.NUMBER or state.mode is Mode.LITERAL:
            state, at = _in_word(state, data, at, nodes)
        else:
            state = _structure(state, data[at], nodes)
            at += 1
        repeated = repeated or state.repeated
    if repeated and not state.repeated:
        state = state._replace(repeated=True)
    return state, at


def is_compared(frame: Frame | None, nodes: tuple[UniqueNode, ...]) -> bool:
    """Is ``frame`` an array whose items must differ?"""
    return frame is not None and not frame.is_object and frame.node >= 0 and nodes[frame.node].unique


def _in_string(state: ScanState, data: bytes, at: int, nodes: tuple[UniqueNode, ...]) -> tuple[ScanState, int]:
    start, size = at, len(data)
    mode, frame = state.mode, state.frame
    if state.escaped:
        at += 1
    while at < size:
        found = _IN_STRING.search(data, at)
        if found is None:
            break
        at = found.end()
        if data[at - 1] == 0x22:
            text = state.text + data[start : at - 1]
            if mode is Mode.IN_KEY:
                return _key_ended(state, text, nodes), at
            return _scalar_ended(state, Mode.STRING, text, nodes), at
        at += 1  # what a backslash takes with it
    escaped = at > size
    if mode is Mode.IN_KEY or is_compared(frame, nodes):
        return ScanState(mode, frame, state.text + data[start:], escaped), size
    if escaped is state.escaped and not state.repeated:
        return state, size
    return ScanState(mode, frame, b"", escaped), size


def _in_word(state: ScanState, data: bytes, at: int, nodes: tuple[UniqueNode, ...]) -> tuple[ScanState, int]:
    start = at
    inside = NUMBER_BYTES if state.mode is Mode.NUMBER else b"abcdefghijklmnopqrstuvwxyz"
    while at < len(data) and data[at] in inside:
        at += 1
    text = state.text + data[start:at]
    if at == len(data):
        return ScanState(state.mode, state.frame, text), at
    return _scalar_ended(state, state.mode, text, nodes), at


def _key_ended(state: ScanState, text: bytes, nodes: tuple[UniqueNode, ...]) -> ScanState:
    frame = state.frame
    assert frame is not None
    below = -1
    text = canonical(text)
    if frame.node >= 0:
        node = nodes[frame.node]
        name = decoded(text)
        below = next((n for key, n in node.keys if key == name), node.others)
    after = Frame(True, frame.node, frame.parent, frame.seen.with_value(text), frame.at, below, True)
    return ScanState(Mode.AFTER_KEY, after, repeated=text in frame.seen)


def _scalar_ended(state: ScanState, mode: Mode, text: bytes, nodes: tuple[UniqueNode, ...]) -> ScanState:
    frame = state.frame
    if frame is None or not is_compared(frame, nodes):
        return ScanState(Mode.AFTER, frame)
    value = item_value(mode, text)
    after = Frame(False, frame.node, frame.parent, frame.seen.with_value(value), frame.at, frame.below, True)
    return ScanState(Mode.AFTER, after, repeated=value in frame.seen)


def _structure(state: ScanState, byte: int, nodes: tuple[UniqueNode, ...]) -> ScanState:
    frame = state.frame
    if byte in _SPACE:
        return state
    match chr(byte):
        case '"' if state.mode is Mode.KEY:
            return ScanState(Mode.IN_KEY, frame)
        case '"':
            return ScanState(Mode.STRING, frame)
        case "{" | "[" as bracket:
            node = _node_below(frame, nodes)
            is_object = bracket == "{"
            below = -1 if is_object else _item_node(node, 0, nodes)
            opened = Frame(is_object, node, frame, below=below, armed=frame is not None and frame.armed)
            return ScanState(Mode.KEY if is_object else Mode.VALUE, opened)
        case "}" | "]":
            return ScanState(Mode.AFTER, frame.parent if frame is not None else None)
        case ":":
            return ScanState(Mode.VALUE, frame)
        case "," if frame is not None and frame.is_object:
            return ScanState(Mode.KEY, frame)
        case "," if frame is not None:
            index = frame.at + 1
            return ScanState(Mode.VALUE, frame._replace(at=index, below=_item_node(frame.node, index, nodes)))
        case ",":
            return state
    mode = Mode.NUMBER if byte in NUMBER_BYTES else Mode.LITERAL
    return ScanState(mode, frame, bytes((byte,)))


def _node_below(frame: Frame | None, nodes: tuple[UniqueNode, ...]) -> int:
    if frame is None:
        return 0 if nodes else -1
    return frame.below


def _item_node(node: int, index: int, nodes: tuple[UniqueNode, ...]) -> int:
    if node < 0:
        return -1
    found = nodes[node]
    return found.prefix[index] if index < len(found.prefix) else found.items
