"""The watchers' JSON scanner: the same however the text is cut, and small however long a string is."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grammars.values.json_scanner import Mode, ScanState, feed
from grammars.values.watchers import UniqueNode

#: Nothing differs; everywhere arrays of different items; arrays of different items in an object's member alone.
NODES: tuple[tuple[UniqueNode, ...], ...] = (
    (),
    (UniqueNode(unique=True, others=0, items=0),),
    (UniqueNode(others=1), UniqueNode(unique=True)),
)


def made_up(draw: random.Random, depth: int = 0) -> Any:
    match draw.randrange(7 if depth < 3 else 4):
        case 0:
            return "".join(draw.choice('ab"\\/é\n{}[],:') for _ in range(draw.randrange(8)))
        case 1:
            return draw.choice([0, -1, 10, 2.5, 1e10])
        case 2:
            return draw.choice([True, False, None])
        case 3:
            return draw.choice(["", "a", "long " * 5])
        case 4 | 5:
            return [made_up(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {draw.choice("abc"): made_up(draw, depth + 1) for _ in range(draw.randrange(4))}


def _seen(scan: ScanState) -> Any:
    """A state as a value: what was seen is compared by what it holds."""
    frames = []
    frame = scan.frame
    while frame is not None:
        frames.append(
            (frame.is_object, frame.node, list(frame.written), frame.item_index, frame.child_node, frame.any_written)
        )
        frame = frame.parent
    return scan.mode, scan.text, scan.escaped, frames


@pytest.mark.parametrize("nodes", NODES)
def test_a_text_may_be_cut_anywhere(nodes: tuple[UniqueNode, ...]) -> None:
    draw = random.Random(str(nodes))
    for _ in range(300):
        text = json.dumps(made_up(draw), ensure_ascii=draw.random() < 0.5).encode()
        cut = draw.randrange(len(text) + 1)
        whole = feed(ScanState(), text, nodes)
        begun = feed(ScanState(), text[:cut], nodes)
        assert _seen(feed(begun, text[cut:], nodes)) == _seen(whole), (text, cut)
        bytewise = ScanState()
        for at, byte in enumerate(text):
            if at == cut:
                assert _seen(bytewise) == _seen(begun), (text, cut)
            bytewise = feed(bytewise, bytes((byte,)), nodes)
        assert _seen(bytewise) == _seen(whole), text


@pytest.mark.parametrize("before", [b'"', b'["', b'{"a": "', b'{"a": ["x", {"b": "'])
@pytest.mark.parametrize("nodes", NODES[:2])
def test_a_long_string_that_is_compared_with_nothing_keeps_nothing(
    before: bytes, nodes: tuple[UniqueNode, ...]
) -> None:
    if nodes and before.endswith(b'["'):
        pytest.skip("an item that must differ")
    begun = feed(ScanState(), before, nodes)
    assert begun.mode is Mode.STRING
    at = begun
    for _ in range(2_000):
        at = feed(at, b" word", nodes)
        assert at is begun
    at = feed(feed(at, b"\\", nodes), b'"', nodes)
    assert (at.mode, at.text, at.escaped) == (Mode.STRING, b"", False)
    assert feed(at, b'"', nodes).mode is Mode.AFTER


def test_an_item_that_must_differ_keeps_its_text() -> None:
    at = feed(ScanState(), b'["a", "', NODES[1])
    assert feed(at, b"a", NODES[1]).text == b"a"
    assert feed(at, b'a"', NODES[1]).is_duplicate
