"""Numbers with bounds and `multipleOf`, alone and nested: what is accepted, and random answers.

The judge is exact arithmetic on the text, and on the double that a reader keeps of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from grammars.json_schema.build import build
from grammars.json_schema.shapes.numbers import Numbers, decimal_text, num_decimals, tightened
from special_tokens.errors import GuidedError, SchemaError
from tests.cases import seeds
from tests.guided.validation.validators import judge as verdicts
from tests.judges.schema_causes import violated
from tests.judges.schema_masks import Judge, walked


def _far_schema(dice: random.Random) -> dict[str, Any]:
    bound = dice.choice([-1, 1]) * dice.choice([10**13, 10**14, 10**15, 2**53, 2**53 + 2, 2**54, 10**17, 2**64])
    bound += dice.choice([0, 0, 1, -1, 3])  # some lie between two doubles
    schema: dict[str, Any] = {"type": dice.choice(["number", "number", "integer"])}
    for keyword in dice.sample(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], dice.randint(0, 2)):
        schema[keyword] = bound if "in" in keyword[-5:] else bound + dice.choice([0, 1, 2, 1000])
    if len(schema) == 1 or dice.random() < 0.3:
        schema["not"] = {"enum": [bound + n for n in dice.sample(range(-3, 4), dice.randint(1, 3))]}
    return schema


@pytest.mark.parametrize("seed", seeds(60, default=16))
def test_what_is_far_out_is_found_by_readers_of_doubles(judge: Judge, seed: int) -> None:
    """Unless a report row says otherwise.  Integers, which parsers keep exactly, are enforced to the last digit."""
    dice = random.Random(seed)
    schema = _far_schema(dice)
    try:
        found = judge.compiled(schema)
    except SchemaError:  # nothing is left
        return
    assert not build(schema, watch=True).report.relaxed
    near = [v for v in schema.values() if isinstance(v, int)] + schema.get("not", {}).get("enum", [])
    for _ in range(150):
        whole = dice.choice(near) + dice.randint(-4, 4)
        tail = dice.choice(["", "", ".0", ".5", ".99", ".000001", ".875", ".9999999", ".1"])
        text = f"{whole}{tail}"
        is_valid = not violated(schema, json.loads(text))
        if tail:
            assert is_valid or not found.accepts(text), text
        else:
            assert found.accepts(text) == is_valid, text


# -- random sets, alone and inside

_LIMITS = [0, 1, -1, 2.3, 0.01, 7.5, 10, 99.99, -3.25, 100, 33.3, 3.5, 1000, 1450, 14000, -100, 4.5, 12345.678, -0.5]
_STEPS = [1, 2, 3, 5, 7, 0.1, 0.5, 0.25, 1.5, 0.01, 2.5, 10, 0.3, 100, 1000, 8, 0.05]
_EXCEPTIONS: list[dict[str, Any]] = [
    {"type": "integer"},
    *({"multipleOf": step} for step in (10, 0.1, 1000, 0.25)),
    {"minimum": 5, "maximum": 7},
    *({"const": value} for value in (100, 1000, 0.5)),
]


def made_up(rng: random.Random) -> dict[str, Any]:
    """A step, often of some decimals, bounds of which some are multiples, and an exception; each of them perhaps."""
    schema: dict[str, Any] = {"type": rng.choice(["number", "number", "integer"])}
    step = rng.choice([rng.choice(_STEPS), rng.randint(1, rng.choice([40, 300, 9_999])) / 10 ** rng.randint(1, 4)])
    for keyword in rng.sample(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], rng.randint(0, 3)):
        multiple = float(Fraction(str(step)) * rng.randint(-5_000, 5_000))
        schema[keyword] = rng.choice([rng.choice(_LIMITS), rng.choice(_LIMITS), multiple])
    if rng.random() < 0.75:
        schema["multipleOf"] = step
    if rng.random() < 0.3:
        schema["not"] = rng.choice(_EXCEPTIONS)
    return schema


def is_valid(schema: dict[str, Any], value: Fraction) -> bool:
    checks: dict[str, Callable[[Any], bool]] = {
        "type": lambda kind: kind == "number" or value.denominator == 1,
        "minimum": lambda bound: value >= Fraction(str(bound)),
        "maximum": lambda bound: value <= Fraction(str(bound)),
        "exclusiveMinimum": lambda bound: value > Fraction(str(bound)),
        "exclusiveMaximum": lambda bound: value < Fraction(str(bound)),
        "multipleOf": lambda step: (value / Fraction(str(step))).denominator == 1,
        "const": lambda other: value == Fraction(str(other)),
        "not": lambda other: not is_valid(other, value),
    }
    return all(checks[keyword](asked) for keyword, asked in schema.items())


@pytest.mark.parametrize("seed", seeds(200, default=24))
def test_random_numbers_are_written_to_their_ends_and_valid(judge: Judge, seed: int) -> None:
    """No engine error, as where an intersection is finished and the engine does not see it; none out of bounds.

    Exact on texts that are as ``json.dumps`` has them, unless a row relaxes the step.
    """
    rng = random.Random(seed)
    schema = made_up(rng)
    inside = seed % 4 == 0
    step = Fraction(str(schema.get("multipleOf", 0.01)))
    unit = Fraction(1, 10 ** (num_decimals(step) or 0))
    sizes = [30, 6_000, 10**8]
    values = [step * rng.randint(-size, size) + unit * rng.choice([0, 0, 0, 1, -1]) for size in sizes * 40]
    try:
        found = judge.compiled({"type": "array", "items": schema, "minItems": 1, "maxItems": 1} if inside else schema)
    except GuidedError:
        assert not any(is_valid(schema, value) for value in (*values, *(step * n for n in range(-6_000, 6_000))))
        return
    is_relaxed = bool(found.plan.schema_report.relaxed)
    for value in values:
        text = f"[{decimal_text(value)}]" if inside else decimal_text(value)
        is_right = is_valid(schema, value)
        assert is_right or is_relaxed or not found.accepts(text), (schema, text)
        assert not is_right or found.accepts(text), (schema, text)
    for _ in range(0 if is_relaxed else 8):
        text = (walked(found, rng.getrandbits(32), most=90) or "").strip("[]")
        if text:
            assert is_valid(schema, Fraction(text)), (schema, text)
            kept = json.loads(text)  # as a reader has it
            assert is_valid(schema, Fraction(repr(kept))), (schema, text)
            assert any(v.is_valid for v in verdicts(schema, kept)), text  # one divides doubles, and may not see it


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "maximum": 3.5}, "3"),
        ({"type": "integer", "exclusiveMaximum": 4.5}, "4"),
        ({"maximum": 99.99, "multipleOf": 10}, "90"),
        ({"oneOf": [{"multipleOf": 0.01}, {"type": "integer"}]}, "0.12"),
        ({"type": "number", "maximum": 0.5, "not": {"type": "integer"}}, "0.5"),
        ({"type": "number", "multipleOf": 0.25, "not": {"type": "integer"}}, "0.5"),
        ({"type": "integer", "maximum": 1000, "not": {"const": 1000}}, "100"),
        ({"type": "integer", "maximum": 1000, "minimum": 1, "not": {"multipleOf": 1000}}, "100"),
        ({"type": "integer", "maximum": 100000, "not": {"multipleOf": 10}}, "9"),
    ],
)
def test_a_number_that_nothing_can_follow_ends(judge: Judge, schema: dict[str, Any], text: str) -> None:
    found = judge.compiled(schema)
    for _ in range(2):  # an engine that failed once would fail every time
        state = found.start.fork()
        for byte in text:
            state.commit(judge.engine.tokenize(byte))
            state.mask()
        assert state.is_accepting
        state.commit([min(found.plan.end_ids())])
        assert state.is_stopped


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "number", "exclusiveMaximum": 1}, "0.99999999999999999999"),
        ({"type": "number", "exclusiveMaximum": 1}, "9.9999999999999999999e-1"),
        ({"type": "number", "exclusiveMinimum": -1}, "-0.99999999999999999999"),
        ({"type": "number", "not": {"multipleOf": 0.1}}, "67910503726206560002450000031000400.0004"),
        ({"type": "number", "not": {"const": 0.5}}, "0.50000000000000000001"),
        ({"type": "number", "multipleOf": 2, "not": {"multipleOf": 10}}, "49190056550948638.0"),
    ],
)
def test_numbers_that_a_double_takes_for_others_are_not_written(
    judge: Judge, schema: dict[str, Any], text: str
) -> None:
    found = judge.compiled(schema)
    assert not found.accepts(text)
    assert any("15 digits" in row.reason for row in found.plan.schema_report.narrowed)


def test_a_step_that_is_not_enforced_takes_no_other_with_it(judge: Judge) -> None:
    schema = {"type": "number", "multipleOf": 2.5, "allOf": [{"multipleOf": 7}], "not": {"multipleOf": 4}}
    found = judge.compiled(schema)
    assert found.accepts("17.5")
    assert not found.accepts("17.6")
    assert ("/allOf/0", "multipleOf") in {(row.pointer, row.keyword) for row in found.plan.schema_report.relaxed}


def test_where_doubles_lose_what_counts_it_is_relaxed(judge: Judge) -> None:
    schema = {"type": "number", "exclusiveMinimum": 1e-20, "exclusiveMaximum": 1e-19}
    report = judge.plan(schema).schema_report
    assert [row.outcome.value for row in report.relaxed] == ["relaxed"]


def test_bounds_of_integers_are_members() -> None:
    found = tightened(Numbers(Fraction(-7, 2), True, Fraction(1000), False, True, not_steps=(Fraction(500),)))
    assert (found.low, found.high) == (Fraction(-3), Fraction(999))
    assert tightened(Numbers(integer=True, not_steps=(Fraction(1, 4),))).is_empty()
    assert tightened(Numbers(integer=True, steps=(Fraction(3, 2),))).steps == (Fraction(3),)


@pytest.mark.parametrize("schema", [
    {"type": "integer", "minimum": 9007199254740993, "multipleOf": 1.5},
    {"type": "number", "minimum": 1e20, "multipleOf": 7},
    {"type": "integer", "maximum": -(10**18), "multipleOf": 1.5},
])  # fmt: skip
def test_far_multiples_are_relaxed_and_not_called_impossible(judge: Judge, schema: dict[str, Any]) -> None:
    found = judge.compiled(schema)
    assert "multipleOf" in {row.keyword for row in found.plan.schema_report.relaxed}


@pytest.mark.parametrize(
    ("schema", "text", "keyword"),
    [
        ({"type": "integer"}, "1.0", "type"),
        ({"type": "integer", "minimum": 0, "maximum": 5}, "1.0", "type"),
        ({"type": "integer", "maximum": 5, "not": {"const": 3}}, "1.0", "type"),
        ({"multipleOf": 1e-8}, "1e-08", "multipleOf"),
        ({"type": "number", "minimum": 5, "maximum": 7}, "6e0", "minimum"),
        ({"type": "number", "not": {"const": 3}}, "5e0", "enum"),
    ],
)
def test_spellings_that_are_not_written_are_reported(
    judge: Judge, schema: dict[str, Any], text: str, keyword: str
) -> None:
    found = judge.compiled(schema)
    assert not found.accepts(text)
    said = [row for row in found.plan.schema_report.narrowed if "exponent" in row.reason]
    assert keyword in {row.keyword for row in said}


def test_a_bound_beyond_all_digits_is_an_error_that_says_so() -> None:
    for schema in ({"type": "number", "minimum": 1e300}, {"type": "integer", "maximum": -(10**80)}):
        with pytest.raises(SchemaError, match="with at most 64 digits"):
            build(schema)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_beyond_all_digits_are_kept(judge: Judge, seed: int) -> None:
    chance = random.Random(seed)
    keyword = chance.choice(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
    bound = chance.choice([1, -1]) * 10.0 ** chance.choice([64, 65, 70, 100, 250, 307])
    schema: dict[str, Any] = {"type": "number", keyword: bound}
    if chance.random() < 0.3:
        schema = {"type": "number", "not": schema}
    if chance.random() < 0.3:
        schema["minimum" if keyword.endswith("aximum") else "maximum"] = chance.choice([-5, 0, 7.5])
    try:
        found = judge.compiled(schema, "strict")
    except SchemaError:
        return  # nothing is left between the bounds
    texts = [
        f"{sign}{m}e{n}" for sign in ("", "-") for m in ("1", "7", "9.5") for n in (0, 5, 60, 63, 64, 70, 104, 300)
    ]
    for text in texts:
        if found.accepts(text):
            assert not violated(schema, float(text)), (schema, text)


def test_integers_cut_short_between_far_bounds_are_reported(judge: Judge) -> None:
    for schema in ({"minimum": 100, "maximum": 1e65}, {"exclusiveMinimum": 1, "maximum": 1e64}):
        found = judge.compiled({"type": "integer", **schema})
        assert not found.accepts("1" + "0" * 64)
        assert any("at most 64 digits" in row.reason for row in found.plan.schema_report.narrowed)


@pytest.mark.parametrize("seed", range(8))
def test_few_exceptions_among_multiples_are_kept(judge: Judge, seed: int) -> None:
    chance = random.Random(seed)
    step = chance.choice([2, 5, 2.5, 0.05])
    left_out = [step * chance.randint(-6, 6) for _ in range(chance.randint(1, 4))] + [1]
    schema: dict[str, Any] = {"type": "number", "multipleOf": step, "not": {"enum": [round(v, 2) for v in left_out]}}
    if chance.random() < 0.5:
        schema["minimum"] = chance.choice([-10, 0, step * 2])
    found = judge.compiled(schema, "strict")
    for times in range(-8, 9):
        value = Fraction(repr(step)) * times
        text = str(int(value)) if value.denominator == 1 else repr(float(value))
        least = schema.get("minimum", -99)
        excluded = [Fraction(repr(v)) for v in schema["not"]["enum"]]
        assert found.accepts(text) == (value >= Fraction(repr(least)) and value not in excluded), (schema, text)
