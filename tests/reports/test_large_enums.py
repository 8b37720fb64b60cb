"""Kind: different items of a long list of texts cost little, and none is written twice.

Source: a report on an enum of 257 texts and 220 items that took 42 s; no thread of its own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.engine.engine import Engine
from guided.watchers.lookahead_duplicates import LookaheadDuplicates
from tests.judges.plans import END, PLAIN, plan_of, walk

WORDS = [f"item{number:03d}" for number in range(257)]


@pytest.mark.parametrize("step", [1, 100])  # neighbours share their beginnings, others do not
@pytest.mark.parametrize("count", [60, pytest.param(220, marks=pytest.mark.slow)])
def test_items_of_a_long_enum_differ_at_little_cost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, count: int, step: int
) -> None:
    """The engine is asked for a few masks a token, whatever has been written."""
    asked, original = 0, LookaheadDuplicates._duplicates_after

    def counted(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return original(*args)

    monkeypatch.setattr(LookaheadDuplicates, "_duplicates_after", counted)
    schema = {"type": "array", "items": {"enum": WORDS}, "uniqueItems": True}
    plan = plan_of(engine, PLAIN, response_format=schema)
    items = [WORDS[number * step % len(WORDS)] for number in range(count)]
    text = json.dumps(items) + END
    assert walk(plan, engine, text).is_whole
    assert asked < 20 * len(engine.tokenize(text))
    again = json.dumps([*items, items[count // 2]])
    refused = walk(plan, engine, again)
    assert refused.refused_at is not None
    assert refused.text.decode().startswith(json.dumps(items)[:-1])
