"""`oneOf` of overlapping patterns: exact while the engine can follow, reported where it could not."""

from __future__ import annotations

import re

import llguidance
import pytest

from grammars.json_schema.build import build
from grammars.limits.deadline import deadline
from grammars.tree.render import render
from guided.engine.engine import compile_grammar

BYTES = llguidance.LLTokenizer("byte")


def accepts(grammar: str, text: str) -> bool:
    matcher = compile_grammar(BYTES, grammar)
    for byte in text.encode():
        mask = matcher.compute_bitmask()
        assert not matcher.is_error(), matcher.get_error()
        if not (mask[byte >> 3] >> (byte & 7)) & 1:
            return False
        assert matcher.consume_token(byte)
    return bool(matcher.is_accepting())


@pytest.mark.parametrize("size", [2, 4, 6])
def test_exactly_one_of_several_patterns(size: int) -> None:
    patterns = [f"a.*{i}" for i in range(size)]
    built = build({"oneOf": [{"type": "string", "pattern": pattern} for pattern in patterns]})
    assert not built.report.relaxed
    grammar = render(built.node).engine_text()
    for word in ("a1", "a12", "b", "a", "xa0y", "0a", "a00", "a10x"):
        exactly_one = sum(re.search(pattern, word) is not None for pattern in patterns) == 1
        assert accepts(grammar, f'"{word}"') == exactly_one, word


@pytest.mark.parametrize("size", [7, 8, 60])
def test_more_than_the_engine_can_follow_are_reported(size: int) -> None:
    with deadline(60.0):  # what is reported, on a machine of any speed
        built = build({"oneOf": [{"type": "string", "pattern": f"a.*{i}"} for i in range(size)]})
    assert [(row.keyword, row.pointer) for row in built.report.relaxed] == [("oneOf", "")]
    assert accepts(render(built.node).engine_text(), '"a12"')
