"""Watchers enforce what no grammar can, no key and no item twice; grammars, that numbers end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grammars.json_schema.build import Outcome, build
from grammars.values.constraints import JsonSchema
from grammars.values.watchers import UniqueWatch
from guided.bitmask import allowed_ids, is_allowed
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from special_tokens.errors import TokenRefused
from tests.conftest import small_engine
from tests.judges.plans import plan_of, walk
from tests.judges.schema_laws import byte_judge
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens

STRINGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
NUMBERS = {"type": "array", "items": {"type": "number"}, "uniqueItems": True}
WORDS = {"type": "array", "items": {"type": "string", "pattern": "^[ab]{1,2}$"}, "uniqueItems": True, "maxItems": 6}
MOMENTS = {"type": "array", "items": {"type": "string", "format": "date-time"}, "uniqueItems": True}
LONG = {"type": "array", "items": {"type": "string", "maxLength": 60}, "uniqueItems": True}
FREE = {"type": "object", "additionalProperties": {"type": "integer"}}
INTEGERS = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
DEEP = {"type": "object", "properties": {"x": {"type": "array", "items": STRINGS}}, "additionalProperties": False}


def start(engine: Engine, schema: Any, entry: str = "after") -> GuidanceState:
    return GuidanceState(plan_of(engine, response_format=JsonSchema(schema)), engine, entry=entry)


def accepts(engine: Engine, schema: Any, text: str) -> bool:
    state = start(engine, schema)
    for token in engine.tokenize(text):
        if state.is_stopped or not is_allowed(state.mask(), token):
            return False
        state.commit([token])
    return state.is_accepting


@pytest.mark.parametrize("tokens", ["engine", "byte_engine"])
@pytest.mark.parametrize(
    ("schema", "text", "accepted"),
    [
        (MOMENTS, '["2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"]', False),
        (MOMENTS, '["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.0Z"]', True),
        (LONG, f'["{"a" * 60}", "{"a" * 60}"]', False),
        (LONG, f'["{"a" * 60}", "{"a" * 59}b"]', True),
        (STRINGS, '["a", "b"]', True),
        (STRINGS, '["a", "ab", "abc", "b"]', True),
        (STRINGS, '["a\\n", "an"]', True),
        (STRINGS, '["\\"", "\\""]', False),
        (STRINGS, '["é", "e"]', True),
        (NUMBERS, "[1, 10, 100]", True),
        (INTEGERS, "[0, 1, 10, 100]", True),
        (INTEGERS, "[-1, 0, -0]", False),
        (NUMBERS, "[1, 1.0]", False),
        (NUMBERS, "[10, 1e+1]", False),
        (NUMBERS, "[0, -0]", False),
        (NUMBERS, "[0, 0e7]", False),
        (NUMBERS, "[1e5, 1e7]", True),
        (NUMBERS, "[0.5, 5]", True),
        (NUMBERS, "[0.03, 0.03000000000000000000001]", False),
        (NUMBERS, "[0.3, 0.30000000000000004]", True),
        (NUMBERS, "[3e-2, 0.03]", False),
        (NUMBERS, "[3e300, 3e300]", False),
        (NUMBERS, f"[{'1' * 64}, {'1' * 64}]", False),
        (NUMBERS, f"[{'1' * 64}, {'1' * 63}2]", True),
        (INTEGERS, "[9007199254740992, 9007199254740993]", True),
        (WORDS, '["a", "aa", "ab", "b", "ba", "bb"]', True),
        (WORDS, '["a", "aa", "ab", "b", "ba", "ba"]', False),
        (FREE, '{"a": 1, "b": 1}', True),
        (FREE, '{"a": 1, "ab": 2, "abc": 3}', True),
        ({"type": "object", "additionalProperties": {"type": "string"}}, '{"a": "%s"}' % ("7" * 90), True),
        (DEEP, '{"x": [["a"], ["a"]]}', True),
    ],
)
def test_nothing_is_written_twice(
    request: pytest.FixtureRequest, tokens: str, schema: Any, text: str, accepted: bool
) -> None:
    assert accepts(request.getfixturevalue(tokens), schema, text) is accepted


def test_the_plan_says_what_must_be_watched_and_the_report_says_that_it_is(engine: Engine) -> None:
    plan = plan_of(engine, response_format=JsonSchema(STRINGS))
    (watcher,) = plan.watchers
    assert isinstance(watcher, UniqueWatch)
    assert watcher.nodes[0].unique
    (row,) = [row for row in plan.schema_report.rows if row.keyword == "uniqueItems"]
    assert (row.outcome, row.reason) == ("exact", "watched while it is written")


NUMBER = {"type": "number"}
NUMBER_SCHEMAS = [
    {"type": "array", "items": NUMBER},
    {"type": "array", "items": NUMBER, "contains": NUMBER},
    {"type": "array", "items": NUMBER, "uniqueItems": True},
]


@pytest.fixture(scope="module")
def digit_tokens() -> Engine:
    """Up to three digits are one token, and some tokens write an exponent at once."""
    words = [
        *(str(n) for n in range(1000)),
        "1e",
        "e30",
        "e400",
        "1e400",
        "E+",
        " 1e999",
        "000000",
        "-400",
        "e-9999",
        "e300",
    ]
    return small_engine(words=words)


@pytest.mark.parametrize("tokens", ["digit_tokens", "engine", "byte_engine"])
@pytest.mark.parametrize("schema", range(3))
@pytest.mark.parametrize(
    ("number", "accepted"),
    [
        ("1e308", True),
        ("1.7e+308", True),
        ("1.9e308", False),
        ("1e309", False),
        ("-1E+400", False),
        ("1e0400", False),
        ("5e-400", False),
        ("1E-300", True),
        ("0e5", True),
        ("1" * 64, True),
        ("1" * 65, False),
        ("1" * 64 + "e400", False),
        ("0." + "0" * 63 + "1e20", True),
        ("0." + "1" * 65, False),
    ],
)
def test_no_number_is_beyond_a_double(
    request: pytest.FixtureRequest, tokens: str, schema: int, number: str, accepted: bool
) -> None:
    assert accepts(request.getfixturevalue(tokens), NUMBER_SCHEMAS[schema], f"[{number}]") is accepted


@pytest.mark.parametrize("tokens", ["engine", "byte_engine", "digit_tokens", "plain_engine"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        NUMBER,
        {},
        {"type": "number", "minimum": 0},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": ["number", "string"]},
        {"anyOf": [{"type": "number"}, {"type": "array", "items": NUMBER}]},
    ],
)
def test_a_number_by_itself_has_as_few_digits_as_others(
    request: pytest.FixtureRequest, tokens: str, schema: Any
) -> None:
    """The end is a way to continue: where only digits are left otherwise, they are not restored."""
    engine = request.getfixturevalue(tokens)
    assert accepts(engine, schema, "1" * 40)
    for text in (
        "1" * 5000,
        "1" * 65,
        "0." + "0" * 500,
        "0." + "0" * 500 + "1",
        "1e" + "0" * 500 + "1",
        "1e999",
        "-1e309",
    ):
        assert not accepts(engine, schema, text), text[:20]


@pytest.mark.parametrize("tokens", ["engine", "byte_engine", "digit_tokens"])
@pytest.mark.parametrize("digit", "059")
@pytest.mark.parametrize("wrap", [False, True])
def test_zeros_that_wait_for_another_digit_end_in_time(
    request: pytest.FixtureRequest, tokens: str, digit: str, wrap: bool
) -> None:
    engine = request.getfixturevalue(tokens)
    schema: Any = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
    state = start(engine, {"type": "array", "items": schema} if wrap else schema)
    state.commit(engine.tokenize("[0." if wrap else "0."))
    one = engine.tokenize(digit)[0]
    written = 0
    while state.allows(one):
        state.commit([one])
        written += 1
        assert written <= 64
    assert written >= 12
    assert state.is_accepting or any(state.allows(i) for n in b"1]" for i in engine.tokenize(chr(n)))


@pytest.mark.parametrize(
    ("schema", "number", "accepted"),
    [
        ({"minimum": -5, "maximum": 5}, "1e-07", True),
        ({"minimum": -5, "maximum": 5}, "1E-000044", False),
        ({"minimum": 5}, "1e+07", True),
        ({"minimum": 5}, "1e+0007", False),
        ({"minimum": 5}, "1.5e308", True),
        ({"minimum": 5}, "1e400", False),
        ({"not": {"type": "integer"}}, "12.5", True),
        ({"not": {"type": "integer"}}, "-0.0000000000001", True),
        ({"not": {"type": "integer"}}, "99999999999999.9", True),
        ({"not": {"type": "integer"}}, "5542665544004266.439", False),
        ({"not": {"type": "integer"}}, "1.00000000000000000001", False),
        ({"not": {"type": "integer"}}, "0.99999999999999999999", False),
    ],
)
def test_numbers_stay_what_a_double_makes_of_them(engine: Engine, schema: Any, number: str, accepted: bool) -> None:
    items = {"type": "number", **schema}  # with ``contains`` our own numbers are written, not the engine's
    assert accepts(engine, {"type": "array", "items": items, "contains": items}, f"[{number}]") is accepted


ANYWHERE = [
    ({"type": "array"}, "[*]"),
    ({"type": "array", "items": True}, "[*]"),
    ({"anyOf": [{"type": "array"}, {"type": "null"}]}, "[*]"),
    ({"anyOf": [True, {"type": "null"}]}, "*"),
    ({"allOf": [{"type": "array"}, {"minItems": 1}]}, "[*]"),
    ({"type": "array", "items": {"type": "array"}}, "[[*]]"),
    ({"type": "object", "properties": {"k": True}, "additionalProperties": False}, '{"k": *}'),
    ({"type": "object", "patternProperties": {"^k$": True}, "additionalProperties": False}, '{"k": *}'),
    ({"type": "object", "additionalProperties": True}, '{"k": *}'),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}, "[*]"),
    ({"$ref": "#/$defs/a", "$defs": {"a": True}}, "*"),
    ({"not": {"type": "string"}}, "*"),
    ({"additionalProperties": False}, "[*]"),
    ({"properties": {"a": {"type": "string"}}, "additionalProperties": False}, "[*]"),
    ({"anyOf": [{"additionalProperties": False}, {"type": "null"}]}, "[*]"),
    (
        {"type": "object", "properties": {"k": {"additionalProperties": False}}, "additionalProperties": False},
        '{"k": [*]}',
    ),
    ({"type": "array", "prefixItems": [True]}, "[*]"),
    (True, "*"),
    ({}, "*"),
]


@pytest.mark.parametrize(("schema", "around"), ANYWHERE, ids=[json.dumps(schema) for schema, _ in ANYWHERE])
def test_no_key_twice_and_no_endless_number_where_a_schema_allows_any_value(
    byte_engine: Engine, schema: Any, around: str
) -> None:
    for value in (
        '{"a": 1, "a": 2}',
        '[{"a": {"b": 1, "b": 1}}]',
        "1" * 65,
        "-0." + "1" * 65,
        '[{"a": 1, "\\u0061": 2}]',
    ):
        assert not accepts(byte_engine, schema, around.replace("*", value))
    for value in ('{"a": 1, "b": 2}', '[{"a": {"b": 1}, "b": 1}]', "1" * 64, "-0." + "1" * 64):
        assert accepts(byte_engine, schema, around.replace("*", value))


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"allOf": [{"type": "string"}, {"type": "string", "minLength": 1}]},
        {"anyOf": [{"type": "string"}, {"type": "number"}]},
    ],
)
def test_branches_leave_no_more_open_than_each_of_them(engine: Engine, schema: Any) -> None:
    """Schemas of Python types (`str | None`) need no watcher."""
    whole = {"type": "object", "properties": {"a": schema}, "additionalProperties": False}
    assert plan_of(engine, response_format=JsonSchema(whole)).watchers == ()


def test_the_report_says_how_far_numbers_go(engine: Engine) -> None:
    for schema in NUMBER_SCHEMAS:
        rows = plan_of(engine, response_format=JsonSchema(schema)).schema_report.rows
        assert any(row.outcome == "narrowed" and "below 1.8e308" in row.reason for row in rows)


def test_committing_what_a_watcher_took_out_is_refused(byte_engine: Engine) -> None:
    state = start(byte_engine, STRINGS)
    state.commit(byte_engine.tokenize('["a", "a'))
    quote = byte_engine.tokenize('"')
    assert state.validate(quote) == 0
    with pytest.raises(TokenRefused, match="second time"):
        state.commit(quote)
    assert state.validate(byte_engine.tokenize('a", "b"]')) == 8
    state.commit(byte_engine.tokenize('a", "b"]'))
    assert state.is_accepting


def test_a_repeat_stays_legal_where_nothing_else_is_left(byte_engine: Engine) -> None:
    """The second item may only be what the first is: the mask is never empty, and the report says what comes of it."""
    items = [{"type": "string", "pattern": "^[ab]$"}, {"type": "string", "pattern": "^a$"}]
    schema = {"type": "array", "prefixItems": items, "items": False, "uniqueItems": True, "minItems": 2}
    plan = plan_of(byte_engine, response_format=JsonSchema(schema))
    assert [row.keyword for row in plan.schema_report.relaxed] == ["uniqueItems"]
    state = GuidanceState(plan, byte_engine, entry="after")
    state.commit(byte_engine.tokenize('["a", '))
    for _ in range(3):
        assert allowed_ids(state.mask())
        state.commit(allowed_ids(state.mask())[:1])


def test_the_value_begins_after_the_marker_that_a_token_completes(plain_engine: Engine) -> None:
    """Reasoning that ends by text: the watcher must not miss the bracket that the same token may write."""
    plan = plan_of(plain_engine, response_format=JsonSchema(STRINGS))
    for text, whole in (('<think>\nx\n</think>\n\n["a", "b"]', True), ('<think>\nx\n</think>\n\n["a", "a"]', False)):
        found = walk(plan, plain_engine, text)
        assert found.is_whole is whole, found


@pytest.mark.parametrize("text", ["[12e16, -12e3", "[12e16, -12e30", "[12e16, -12e", "[12e3, 1.5E2"])
def test_an_exponent_that_one_token_writes_is_not_worked_out(text: str) -> None:
    tokenizer = small_tokenizer(MARKERS, words=("00000000", "1111111111", "20439"))
    engine = Engine(tokenizer, small_tokens(tokenizer))
    state = start(engine, NUMBERS)
    state.commit(engine.tokenize(text))
    long = [i for i in range(engine.vocab_size) if engine.token_bytes(i) in (b"1111111111", b"20439")]
    assert not any(state.allows(i) for i in long)
    assert allowed_ids(state.mask())


def test_a_token_of_more_digits_than_a_number_may_have_is_never_allowed() -> None:
    tokenizer = small_tokenizer(MARKERS, words=("7" * 65, "7" * 64))
    engine = Engine(tokenizer, small_tokens(tokenizer))
    ids = {len(engine.token_bytes(i)): i for i in range(engine.vocab_size) if engine.token_bytes(i)[:9] == b"7" * 9}
    for schema, text in (({"type": "array", "items": {"type": "number"}}, "[1, "), (NUMBERS, "[1, "), ({}, "")):
        state = start(engine, schema)
        state.commit(engine.tokenize(text))
        assert state.allows(ids[64])
        assert not state.allows(ids[65])


_DISTINCT = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
_LISTED = {"type": "object", "properties": {"b": {"type": "integer"}, "c": _DISTINCT}, "required": ["b", "c"]}


@pytest.mark.parametrize(
    ("siblings", "is_free"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, True),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}, False),
        ({"type": "object", "patternProperties": {"^[a-c]$": True}, "additionalProperties": False}, True),
        ({"type": "object", "patternProperties": {"^[x-z]$": True}, "additionalProperties": False}, False),
    ],
)
def test_a_key_that_another_branch_takes_as_any_key_is_not_watched(siblings: Any, is_free: bool) -> None:
    """Its items may be equal there; the row said that they were watched, and a valid answer was stopped."""
    schema = {"anyOf": [siblings, _LISTED]}
    (row,) = [row for row in build(schema, watch=True).report.rows if row.keyword == "uniqueItems"]
    assert (row.outcome is Outcome.RELAXED) == is_free
    assert byte_judge(None).compiled(schema).accepts('{"c": [3, 3]}') == is_free
