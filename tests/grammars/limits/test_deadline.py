"""A late request is an error, never another plan; costly errors are cached."""

from __future__ import annotations

import math
from typing import Any

import pytest

import grammars.json_schema.build as schemas
import grammars.limits.deadline as deadlines
import guided.engine.engine as compiling
from grammars.json_schema.build import build
from grammars.limits.bounded_cache import BoundedCache, digest
from grammars.limits.deadline import deadline, is_late, time_left
from grammars.limits.schema_limits import with_deadline
from guided.engine.engine import Engine
from guided.inspect.check import check_request
from special_tokens.errors import SchemaError
from tests.judges.plans import FORMAT

COSTLY: dict[str, Any] = {
    "type": "object",
    "properties": {f"k{i}": {"type": "integer"} for i in range(60)},
    "oneOf": [{"required": [f"k{i}"]} for i in range(60)],
}


def test_the_outermost_deadline_counts() -> None:
    assert time_left() == math.inf
    assert not is_late()
    with deadline(100):
        for inner in (1_000, None):
            with deadline(inner):
                assert 90 < time_left() <= 100
        with deadline(-1):
            assert is_late()
        assert not is_late()
    assert time_left() == math.inf


def test_a_schema_that_is_late_is_an_error_and_not_a_coarser_plan() -> None:
    with deadline(0), pytest.raises(SchemaError, match=r"^schema.*: the schema was not translated before the deadline"):
        build(COSTLY, watch=True)
    assert not build({"type": "object", "minProperties": 1}, watch=True).report.relaxed


def test_many_values_are_gone_through_with_an_eye_on_the_clock() -> None:
    assert list(with_deadline(range(5_000))) == list(range(5_000))
    with deadline(0), pytest.raises(SchemaError, match="before the deadline"):
        list(with_deadline(range(5_000)))


def test_one_deadline_is_around_all_of_a_request(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[float] = []

    def seen(function: Any) -> Any:
        return lambda *a, **k: ends.append(deadlines._end.at) or function(*a, **k)

    monkeypatch.setattr(schemas, "_compiled", seen(schemas._compiled))
    monkeypatch.setattr(compiling, "is_late", seen(compiling.is_late))
    schema = {"type": "object", "properties": {"one_deadline": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in ("f", "g")]
    body = {"tools": tools, "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": schema}}}
    check_request(body, tokens=engine.tokens, format=FORMAT, engine=engine)
    assert len(ends) >= 3
    assert len(set(ends)) == 1
    assert ends[0] < math.inf


def test_what_is_remembered_is_bounded_and_leaves_in_the_order_of_use() -> None:
    kept: BoundedCache[int] = BoundedCache(2)
    for name, value in (("a", 1), ("b", 2)):
        kept.put(digest(name), value)
    assert kept.get(digest("a")) == 1
    kept.put(digest("c"), 3)
    assert [kept.get(digest(name)) for name in "abc"] == [1, None, 3]
    assert len(kept) == 2


def test_parts_of_a_digest_do_not_run_together() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("1") == digest("1") != digest("1", "")
