"""Tokens that span several JSON tokens: those that repeat a key or item are found without trying all."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from grammars.values.json_scanner import Mode, ScanState, feed
from grammars.values.watchers import UniqueNode, UniqueWatch
from guided.bitmask import from_ids, is_allowed
from guided.engine.engine import Engine
from guided.watchers.lookahead_duplicates import LookaheadDuplicates
from guided.watchers.vocabulary_index import VocabularyIndex
from tests.cases import seeds

#: Everywhere arrays of different items, whatever they hold.
UNIQUE = (UniqueNode(unique=True, others=0, items=0),)


def made_up(draw: random.Random, depth: int = 0) -> Any:
    """A value of few words and numbers, so that much of it comes twice."""
    kinds = ["word", "number", "literal", "list", "dict"] if depth < 3 else ["word", "number", "literal"]
    match draw.choice(kinds):
        case "word":
            return draw.choice(["", "a", "b", "ab", 'a"', "\\", ",", ":"])
        case "number":
            return draw.choice([0, 1, 10, 1.0, -1, 2.5])
        case "literal":
            return draw.choice([True, False, None])
        case "list":
            return [made_up(draw, depth + 1) for _ in range(draw.randrange(5))]
    return Twice([(draw.choice(["a", "b", "ab", 'a"']), made_up(draw, depth + 1)) for _ in range(draw.randrange(5))])


class Twice(dict[str, Any]):
    """An object whose keys come as they are given, the same one more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> Any:
        return self._pairs


def _is_decided(scan: ScanState) -> bool:
    """Whether a literal is being written that was there before; its first letter was the token to take."""
    written = scan.frame.written if scan.frame is not None else ()
    return any(
        item == (Mode.LITERAL, word)
        for item in written
        for word in (b"true", b"false", b"null")
        if scan.mode is Mode.LITERAL and word.startswith(scan.text)
    )


@pytest.mark.parametrize("nodes", [(), UNIQUE], ids=["keys", "keys and items"])
@pytest.mark.parametrize("seed", seeds(15, default=1))
def test_a_token_that_repeats_is_taken_wherever_it_stands(
    engine: Engine, nodes: tuple[UniqueNode, ...], seed: int
) -> None:
    """Judge: each token followed by itself through the scanner."""
    draw = random.Random(4 + seed)
    texts = []
    for _ in range(10):
        separators = draw.choice([(", ", ": "), (",", ":")])
        written = Twice([(draw.choice("ab"), made_up(draw, 1)) for _ in range(4)])  # one of them at least comes twice
        texts.append(json.dumps(written, separators=separators).encode())
    pieces = {bytes([byte]) for byte in range(32, 127)}
    cuts = [(text, at, draw.randrange(1, 14)) for text in texts for at in range(len(text))]
    pieces |= {text[at : at + size] for text, at, size in cuts}
    tokens = VocabularyIndex(engine)
    tokens.token_bytes = [b"", *sorted(pieces)]
    every = from_ids(range(1, len(tokens.token_bytes)), len(tokens.token_bytes))
    watch = LookaheadDuplicates([UniqueWatch(nodes)], tokens)
    repeats = taken = 0
    for text, at, size in cuts:
        scan = feed(ScanState(), text[:at], nodes)
        if scan.is_duplicate or scan.frame is None or not scan.frame.any_written or _is_decided(scan):
            continue
        after = feed(scan, text[at : at + size], nodes)
        if not after.is_duplicate and draw.random() > 0.1:  # most repeat nothing
            continue
        literal = after.mode is Mode.LITERAL and nodes
        (token,) = tokens.ids[text[at : at + size]]
        words: np.ndarray = every.copy()
        watch.restrict(words, scan, None)
        assert watch.may_restrict(scan) or np.array_equal(words, every)
        if after.is_duplicate:
            repeats += 1
            assert not is_allowed(words, token), (text[:at], text[at : at + size])
        elif not is_allowed(words, token):
            taken += 1
            assert literal, (text[:at], text[at : at + size])
    assert repeats > 3
    assert taken == 0 or nodes
