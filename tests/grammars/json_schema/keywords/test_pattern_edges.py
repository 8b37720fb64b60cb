"""Edge cases of patterns: unsatisfiable ones, empty parts, surrogates, control characters."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

import guided
from grammars.json_schema.build import build
from guided.bitmask import is_allowed
from guided.engine.engine import Engine
from special_tokens.errors import SchemaError
from tests.cases import seeds
from tests.guided.validation.validators import judge as verdicts
from tests.judges.plans import accepts, plan_of
from tests.judges.schema_masks import Compiled, Judge

#: Patterns that are found in no string.
NOWHERE = (
    "a^b", "a$b", "x^", "$x", "a$\\n", "(?!a)a", "(?!)", "[]", "a(?<!a)", "^foo$\\s*^bar$", "[^\\s\\S]", "[^\\w\\W]"
)  # fmt: skip


@pytest.mark.parametrize("pattern", NOWHERE)
@pytest.mark.parametrize("siblings", [{}, {"maxLength": 3}], ids=json.dumps)
def test_a_pattern_that_no_string_has_leaves_no_string(judge: Judge, pattern: str, siblings: Any) -> None:
    text = {"type": "string", "pattern": pattern, **siblings}
    for schema in (text, {"type": "object", "properties": {"a": text}, "required": ["a"]}):
        with pytest.raises(SchemaError, match="no value satisfies"):
            build(schema, watch=True)
    nulls = judge.compiled({**text, "type": ["string", "null"]})
    assert (nulls.accepts("null"), nulls.accepts('""')) == (True, False)
    keys = judge.compiled({"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False})
    assert (keys.accepts("{}"), keys.accepts('{"": 1}')) == (True, False)


#: Strings that there are none of, by their characters.
_NONE_LEFT: list[dict[str, Any]] = [
    {"allOf": [{"pattern": "^[a-z0-9:]+$"}, {"pattern": "[0-9]{4}-[1-2]{1}-[0-9]{1}"}]},
    {"pattern": "^[0-9]+$", "format": "date", "not": {"pattern": "x{9}"}},
    {"pattern": "^[a-f]{1,60}$", "allOf": [{"pattern": "[e-z]{3}"}, {"pattern": "^[a-dg-z]*$"}]},
]


@pytest.mark.parametrize("strings", _NONE_LEFT, ids=json.dumps)
def test_a_key_without_values_is_not_offered(judge: Judge, strings: dict[str, Any]) -> None:
    inner = {"type": "string", **strings}
    schema = {"type": "object", "properties": {"b": inner}, "additionalProperties": False}
    found = judge.compiled(schema, "strict")
    assert found.accepts("{}")
    assert not found.accepts('{"b": "a"}')
    state = found.start.fork()
    state.commit(state.engine.tokenize("{"))
    assert not state.allows(state.engine.tokenize('"')[0])
    for wanted, pointer in ((inner, "schema"), ({**schema, "required": ["b"]}, "properties/b")):
        with pytest.raises(SchemaError, match="no value satisfies") as refused:
            judge.compiled(wanted)
        assert pointer in str(refused.value)


#: Patterns with parts that may be empty, assertions inside.
OPTIONAL = {
    r"^\d{5}(-(?!0000)\d{4})?$": ("12345", "12345-0000", "12345-0001", "12345-"),
    r"^a(?:b(?!c).)?$": ("a", "ab", "abc", "abd"),
    r"^[a-z]+(?:-(?!x)[a-z])?$": ("a", "ab-c", "ab-x", "ab-"),
    r"^\S+(?:\b.*)?$": ("a", "a b", " a", ""),
    r"\bfoo\b(?:\sbar\b)?$": ("foo", "foo bar", "foo baz", "a foo"),
    r"(|a\b.)$": ("", "a", "a-", "ab"),
    r"^(?:-$\w|$(?=b)){0,2}$": ("", "a", "-", "b"),  # no text but the empty one
}


@pytest.mark.parametrize("pattern", OPTIONAL)
def test_parts_that_may_be_empty_are_written(judge: Judge, pattern: str) -> None:
    alone = judge.compiled({"type": "string", "pattern": pattern})
    inside = judge.compiled({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})
    keys = judge.compiled(
        {"type": "object", "patternProperties": {pattern: {"type": "null"}}, "additionalProperties": {"type": "null"}}
    )
    for word in OPTIONAL[pattern]:
        has = re.search(pattern, word) is not None
        assert alone.accepts(json.dumps(word)) is has, word
        assert inside.accepts(json.dumps({"a": word})) is has, word
        assert keys.accepts(json.dumps({word: None})), word
        assert not (has and keys.accepts(json.dumps({word: 1}))), word


def _random_pattern(rng: random.Random, depth: int = 3) -> str:
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(("a", "b", "-", "[ab]", "[^a]", "\\w", "\\b", "\\B", "^", "$", "(?!a)", "(?=b)", "", "\\d"))
    parts = [_random_pattern(rng, depth - 1) for _ in range(rng.choice((1, 2, 2, 3)))]
    if rng.random() < 0.4:
        return f"(?:{'|'.join(parts)}){rng.choice(('', '?', '?', '{0,2}'))}"
    return "".join(parts)


@pytest.mark.parametrize("seed", seeds(3, default=1))
def test_random_patterns_compile_and_find_what_re_finds(judge: Judge, seed: int) -> None:
    rng = random.Random(1811 + seed)
    # without the empty string, where Python finds no \\B and ECMA-262 does
    words = ["".join(rng.choice("ab-c1") for _ in range(rng.randrange(1, 6))) for _ in range(60)]
    built = 0
    for _ in range(40):
        pattern = _random_pattern(rng)
        anchored = f"^{pattern}$" if rng.random() < 0.5 else pattern
        expected = [re.search(anchored.replace("$", "\\Z"), word) is not None for word in words]
        try:
            found = judge.compiled({"type": "string", "pattern": anchored})
        except SchemaError as error:
            assert "no value satisfies" in str(error), anchored
            assert not any(expected), anchored
            continue
        if any(row.keyword == "pattern" and "not enforced" in row.reason for row in found.plan.schema_report.relaxed):
            continue
        built += 1
        assert [found.accepts(json.dumps(word)) for word in words] == expected, anchored
    assert built > 15


#: Patterns that name surrogates, and whether they are found in each of ``TEXTS``.
TEXTS = ("", "a", "\u00e9", "\U0001f600", "\U0001f600a")
SURROGATES = {
    "^(?:[^\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$": (True, True, True, True, True),
    "^[a\\ud800]$": (False, True, False, False, False),
    "^[^\\ud800]$": (False, True, True, True, False),
    "^(?:\\ud800|\\u00e9)$": (False, False, True, False, False),
    "^[^\\ud800-\\udbff]$": (False, True, True, True, False),
    "^[^\\p{Cs}a]$": (False, False, True, True, False),
    "\\ud83d\\ude00": (False, False, False, True, True),
}


@pytest.mark.parametrize("pattern", SURROGATES)
@pytest.mark.parametrize("in_full", [False, True])
def test_surrogates_are_cut_out_of_classes(judge: Judge, pattern: str, in_full: bool) -> None:
    schema: Any = {"type": "string", "pattern": pattern}
    if in_full:
        schema["not"] = {"enum": ["no"]}
    found = judge.compiled(schema)
    assert tuple(found.accepts(json.dumps(text, ensure_ascii=False)) for text in TEXTS) == SURROGATES[pattern]


@pytest.mark.parametrize(
    "pattern", ["[\\ud83c-\\udbff][\\udc00-\\udfff]", "^\\ud83d$", "^[\\ud800-\\udfff]+$", "\\p{Cs}"]
)
def test_surrogates_alone_are_no_text(judge: Judge, pattern: str) -> None:
    with pytest.raises(SchemaError, match="no value satisfies"):
        build({"type": "string", "pattern": pattern}, watch=True)
    keys = judge.compiled({"type": "object", "patternProperties": {pattern: {"type": "null"}}})
    assert keys.accepts('{"a": 1}')
    assert keys.accepts('{"\U0001f600": 1}')


#: Control characters in patterns, and in which of ``CONTROLS`` they are found.
CONTROLS = ("\0", "\x01", "\x7f", "\n", "a", "\\", '"')
CONTROLLED = {
    '^[^"]$': "\0\x01\x7f\na\\",
    "^[\\x00-\\x1f]$": "\0\x01\n",
    "^(\\x00|[\\x01-\\x1f])$": "\0\x01\n",
    '^(?:[^"\\x00]|\\x00|ab)$': "\0\x01\x7f\na\\",
    "^(?:[^\\\\\\\\]|\\x00?)$": '\0\x01\x7f\na"',
    "^\\x00$": "\0",
    "^\\v?\\x7f$": "\x7f",
    "^[^a]$": '\0\x01\x7f\n\\"',
}


@pytest.mark.parametrize("pattern", CONTROLLED)
@pytest.mark.parametrize("place", ["alone", "next to open keys", "key"])
def test_control_characters_are_kept_or_said_not_to_be(judge: Judge, pattern: str, place: str) -> None:
    text: Any = {"type": "string", "pattern": pattern}
    schema = {
        "alone": text,
        "next to open keys": {"type": "object", "properties": {"a": text}, "required": ["a"]},
        "key": {"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False},
    }[place]
    found = judge.compiled(schema)
    narrowed = {row.keyword for row in found.plan.schema_report.narrowed if "control" in row.reason}
    for char in CONTROLS:
        value: Any = {"alone": char, "next to open keys": {"a": char}, "key": {char: None}}[place]
        written = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        takes, has = found.accepts(written), char in CONTROLLED[pattern]
        assert not (takes and not has), repr(char)
        assert takes or not has or (narrowed and ord(char) in (*range(0x20), 0x7F)), repr(char)


_NEGATED_COUNTS = (
    "a.{13}b",
    "a.{25}b",
    "a.{0,30}b",
    "[ab].{25,}b",
    "a[^b]{20}b",
    "a.{1,12}b.{1,12}c",
    "a.{13}b|b.{13}a",
    r"\s(?:\d?|a[^ab]|\s){1,13}[ab]",
    r"\s(?:\d?|a[^ab]|\s){1,20}[ab]",
    r"\P{L}{1,20}",
)


def _drive(found: Compiled, letters: str, rng: random.Random) -> str:
    """A text of these letters, at random as far as the masks take them."""
    state, text = found.start.fork(), ""
    state.commit(state.engine.tokenize('"'))
    while len(text) < 60:
        ids = {char: state.engine.tokenize(char)[0] for char in letters}
        mask = state.mask()
        char = rng.choice([char for char in letters if is_allowed(mask, ids[char])] or [""])
        if not char:
            break
        state.commit([ids[char]])
        text += char
    return text


@pytest.mark.parametrize("forms", ["not", "look-ahead", "all", "object key"])
def test_negated_counts_that_begin_anywhere_are_kept(judge: Judge, forms: str) -> None:
    """Some of the last characters began a surrogate: the engine tried all strings to see that none is left."""
    rng = random.Random(forms)
    for pattern in _NEGATED_COUNTS:
        schema: dict[str, Any] = {
            "not": {"type": "string", "not": {"pattern": pattern}},
            "look-ahead": {"type": "string", "pattern": f"^(?!.*(?:{pattern}))"},
            "all": {"type": "string", "allOf": [{"not": {"pattern": p}} for p in (pattern, "b.{12}a", "c.{6}a")]},
            "object key": {"propertyNames": {"not": {"pattern": pattern}}, "type": "object", "minProperties": 1},
        }[forms]
        found = judge.compiled(
            schema, "warn" if forms == "look-ahead" else "strict"
        )  # validators' classes differ there
        is_key = forms == "object key"
        for _ in range(0 if is_key else 2):
            text = _drive(found, "aabbc ", rng)
            assert all(verdict.is_valid is not False for verdict in verdicts(schema, text)), text
        text = "".join(rng.choice("abc ") for _ in range(60))
        value: Any = {text: 1} if is_key else text
        assert found.accepts(json.dumps(value)) in {verdict.is_valid for verdict in verdicts(schema, value)}


@pytest.mark.parametrize("pattern", ["^(?!.*a.{9}b).*$", "^(?!.{25}b).*$", "^(?!.*a{25})", "^(?!.*ab{25})", "a.{25}b"])
def test_other_counts_are_kept(pattern: str) -> None:
    assert not build({"type": "string", "pattern": pattern}, watch=True).report.relaxed


@pytest.mark.parametrize("pattern", [r"^\<a\>$", r"\<a\>", r"^(\w+)\<\>$"])
def test_an_escaped_angle_bracket_is_itself_wherever_a_schema_stands(engine: Engine, pattern: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    call = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}, "required": ["x"]}}
    for text in ("<a>", "a", "a<>"):
        is_right = bool(re.search(pattern, text))
        assert [verdict.is_valid for verdict in verdicts(schema, text)] == [is_right] * 2
        keys = {"patternProperties": {pattern: False}}
        assert [verdict.is_valid for verdict in verdicts(keys, {text: 1})] == [not is_right] * 2
        written = json.dumps(text)
        assert accepts(plan_of(engine, response_format=schema), engine, written, "after") == is_right
        lark = guided.Lark(f"start: v\nv: %json {json.dumps(schema)}")
        assert accepts(plan_of(engine, response_format=lark), engine, written, "after") == is_right
        tools = plan_of(engine, tools=[{"type": "function", "function": call}], tool_choice="required")
        answer = f'<tool_call>\n{{"name": "f", "arguments": {{"x": {written}}}}}\n</tool_call>'
        assert accepts(tools, engine, answer, "after") == is_right


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "patternProperties": {"^a+$": {}}}])
def test_an_open_object_loses_control_characters_in_keys_only(judge: Judge, schema: Any) -> None:
    found = judge.compiled(schema)
    assert found.accepts('{"a": "\\u0000"}')
    assert not found.accepts('{"\\u0000": 1}')
    [reason] = [row.reason for row in found.plan.schema_report.rows if "control characters" in row.reason]
    assert reason.endswith("are not written in keys")
