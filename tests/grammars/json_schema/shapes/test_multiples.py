"""`multipleOf` with decimals and extreme bounds, judged by exact arithmetic and two validators."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from grammars.json_schema.build import build
from grammars.json_schema.shapes.numbers import decimal_text
from special_tokens.errors import SchemaError
from tests.grammars.json_schema.shapes.test_numbers import is_valid
from tests.judges.schema_masks import Judge


@pytest.mark.parametrize("step", [0.05, 0.5, 0.25, 0.001, 2, 5, 20, 25, 1_000])
def test_steps_that_the_last_digits_decide_are_enforced(judge: Judge, step: float) -> None:
    found = judge.compiled({"type": "number", "multipleOf": step}, "strict")
    for n in (0, 1, 2, 3, 5, 10, 50, 100, 137, 2_000, -7, -20):
        value = Fraction(str(step)) * n
        assert found.accepts(decimal_text(value)), n
        assert not found.accepts(decimal_text(value + Fraction(1, 1_000_000))), n


@pytest.mark.parametrize("step", [0.53, 0.07, 1.5, 3, 7, 60, 9_973])
def test_a_step_that_the_last_digits_do_not_decide_is_relaxed(judge: Judge, step: float) -> None:
    schema = {"type": "number", "multipleOf": step}
    rows = judge.compiled(schema).plan.schema_report.relaxed
    assert [(row.keyword, row.pointer) for row in rows] == [("multipleOf", "")]
    with pytest.raises(SchemaError, match="multipleOf"):
        judge.plan(schema, "strict")
    few = judge.compiled({**schema, "minimum": 0, "maximum": 100 * step}, "strict")  # all are listed
    assert [few.accepts(decimal_text(Fraction(str(step)) * n)) for n in (0, 1, 99, 100, 101)] == [True] * 4 + [False]
    assert not few.accepts(decimal_text(Fraction(str(step)) / 10))


# -- far out


FAR_OUT = list(
    product(
        ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"],
        [5, 10_000, 2.5, 10**14],
        [10**15, 1e15, 10**15 - 1, 10**16, 999_999_999_999_990],
    )
)


@pytest.mark.parametrize("case", FAR_OUT)
def test_a_step_next_to_a_bound_far_out_is_a_grammar(judge: Judge, case: tuple[str, float, float]) -> None:
    keyword, step, bound = case
    sign = 1 if "in" in keyword[-5:] and "Max" not in keyword and keyword != "maximum" else -1
    schema = {"type": "number", keyword: sign * bound, "multipleOf": step}
    found = judge.compiled(schema)
    unit = Fraction(str(step))
    for n in range(1, 30):
        value = sign * unit * (int(Fraction(bound) / unit) + n)
        if value.denominator == 1 and is_valid(schema, value) and not found.accepts(str(value)):
            assert abs(value) > 10**15
            assert any("15 digits" in row.reason for row in found.plan.schema_report.narrowed), value
    assert not found.accepts(str(sign * 7)), schema


@pytest.mark.parametrize("step", [1e16, 10**18, 2e15, 5 * 10**14])
def test_multiples_of_a_step_far_out_are_found(judge: Judge, step: float) -> None:
    found = judge.compiled({"type": "number", "minimum": 1_000, "multipleOf": step})
    assert found.accepts(str(int(step)))
    assert found.accepts(str(int(step) * 3))
    assert not found.accepts("0")


@pytest.mark.parametrize("kind", ["number", "integer"])
@pytest.mark.parametrize("step", [1e64, 1e70, 10**200])
def test_a_step_that_no_digits_reach_is_relaxed(judge: Judge, kind: str, step: float) -> None:
    found = judge.compiled({"type": kind, "minimum": 1_000, "multipleOf": step})
    assert found.accepts("1000")
    assert "multipleOf" in {row.keyword for row in found.plan.schema_report.relaxed}
    only = judge.compiled({"type": kind, "minimum": -5, "maximum": 5, "multipleOf": step}, "strict")
    assert [only.accepts(text) for text in ("0", "1")] == [True, False]


def test_what_no_text_writes_is_not_called_impossible(judge: Judge) -> None:
    schema = {"properties": {"a": {"minimum": 1e-300, "maximum": 2e-300, "multipleOf": 1e-301}}, "type": "object"}
    number = {"type": "number"} | schema["properties"]["a"]  # type: ignore[index]
    with pytest.raises(SchemaError, match="64 digits") as caught:
        build({"type": "object", "properties": {"a": number}, "required": ["a"]})
    assert caught.value.pointer == "/properties/a"
    assert "no value satisfies" not in str(caught.value)


def test_a_step_of_many_digits_takes_no_time() -> None:
    """They were looked for among all numbers up to their digits once, 457,763,671,875 of them."""
    for step in 3 / 65_536, 0.1234567890123, 7 / 2**40:
        rows = build({"type": "number", "multipleOf": step}, watch=True).report.relaxed
        assert [row.keyword for row in rows] == ["multipleOf"]
