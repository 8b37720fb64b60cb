"""Patterns that ECMA-262 and validators read differently, and finite languages for watchers."""

from __future__ import annotations

import json
import re
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.json_schema.build import Outcome, build
from grammars.regular.finite import finite_words
from grammars.regular.syntax.ecma import language
from grammars.regular.terms import chars, inter, neg, rep
from special_tokens.errors import SchemaError
from tests.guided.validation.validators import judge as verdicts
from tests.judges.schema_causes import unexcused, violated
from tests.judges.schema_masks import Judge

SEPARATED = ("a", "\r", "\n", "aa", "x\u2028", "foo", "\rfoo", "foo\u2029", "\r\nfoo", "fo\ro")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^.$"},
        {"type": "string", "pattern": "^(?!.*foo)"},
        {"type": "string", "pattern": "^(?!.*foo).*$"},
        {"type": "string", "pattern": "^(?!(?!.*foo)..)"},
        {"type": "string", "not": {"pattern": "^.$"}},
        {"type": "string", "not": {"pattern": "^(?!.*foo)"}},
        {"type": "string", "not": {"not": {"pattern": "^..$"}}},
        {"oneOf": [{"type": "string", "pattern": "^(?!.*foo).*$"}, {"type": "string"}]},
        {"type": "string", "if": {"pattern": "^.$"}, "then": {"enum": ["a"]}},
    ],
    ids=json.dumps,
)
def test_a_dot_is_the_one_of_validators(judge: Judge, schema: Any) -> None:
    found = judge.compiled(schema, "strict")
    assert "U+2028" in " ".join(row.reason for row in found.plan.schema_report.rows)
    for value in SEPARATED:
        said = {verdict.is_valid for verdict in verdicts(schema, value)}
        assert found.accepts(json.dumps(value, ensure_ascii=False)) == (False not in said), value


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^a.b$": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
        {"patternProperties": {"^a.b$": {"type": "integer"}}, "additionalProperties": False},
        {"patternProperties": {"^a.b$": {"type": "integer"}}, "unevaluatedProperties": {"type": "string"}},
        {"patternProperties": {"^a.b$": {"type": "integer"}, "^[aé]": {"type": ["integer", "null"]}}},
        {"patternProperties": {"^[aé]": {"type": ["integer", "null"]}, "^a.b$": {"type": "integer"}}},
        {"properties": {"a\rb": {"maximum": 9}}, "patternProperties": {"^a.b$": {"type": "integer"}}},
        {"patternProperties": {"^.*$": {"type": "integer"}}},
        {"patternProperties": {".": {"type": "integer"}}},
        {"not": {"patternProperties": {"^a.b$": {"type": "integer"}}, "additionalProperties": {"type": "string"}}},
        {"oneOf": [{"patternProperties": {"^a.b$": {"type": "integer"}}}, {"required": ["a\rb"]}]},
    ],
    ids=json.dumps,
)
def test_a_dot_of_keys_is_the_one_of_validators(judge: Judge, schema: Any) -> None:
    schema = {"type": "object", **schema}
    found = judge.compiled(schema, "strict")
    for key in ("a\rb", "a\nb", "axb", "a\u2028b", "\r", "\u2029", "a", "é", "", "\r\n"):
        for inner in (1, 10, "s", None):
            value = {key: inner}
            said = {verdict.is_valid for verdict in verdicts(schema, value)}
            if len(said) == 1:  # not whether $ is found before a final newline
                assert found.accepts(json.dumps(value, ensure_ascii=False)) == (True in said), value


@pytest.mark.parametrize("pattern", [".*", "^x-.*", "a.*b|^$", "^[.]$", "\\."])
def test_dots_that_no_reading_tells_apart_leave_all_keys(judge: Judge, pattern: str) -> None:
    found = judge.compiled({"type": "object", "patternProperties": {pattern: {"type": "integer"}}})
    assert found.accepts(json.dumps({"x-\r": 1, "\u2028": 2}, ensure_ascii=False))


@pytest.mark.parametrize(
    "pattern",
    [
        *("\\bfoo", "foo\\B", "a\\b.", "(\\b|x)[^a]", "^[一-龥]+\\B[。！]$", "^(?=日\\B。)[^a]+$", "^[क-ह]\\B[ा-ौ]$"),
        # which no letter beyond ASCII decides, but which are not of ASCII alone
        *("^a\\Bb", "^(a\\b )?[é]$", "x\\b\\.", "^[à-ö]\\B[一-龥é]$", "^[×÷]\\B[。！]$"),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_borders_of_words_next_to_other_letters_are_said(pattern: str, negated: bool) -> None:
    schema: Any = {"type": "string", "pattern": pattern}
    rows = build({"not": schema} if negated else schema, watch=True).report.relaxed
    assert ("/not" if negated else "", "pattern") in {(row.pointer, row.keyword) for row in rows}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "string", "pattern": "^\\b[a-zé]+\\b$"}, ["é", "a", "éa", "aé"]),
        ({"type": "string", "not": {"pattern": "\\bfoo\\b"}}, ["fooé", "foo", "x", "éfoo"]),
        ({"type": "string", "pattern": "\\Bfoo"}, ["éfoo", "foo", "afoo"]),
        ({"type": "string", "pattern": "^(?!\\bé)[aé]*$"}, ["é", "aé", ""]),
        ({"type": "string", "pattern": "^(a|[^\\x20-\\x7e]\\b)$"}, ["a", "é"]),
        ({"patternProperties": {"\\bx\\b": {"type": "integer"}}}, [{"éx": "s"}, {"éx": 1}, {"x": "s"}, {"x": 1}]),
        ({"patternProperties": {"\\bx\\b": {}}, "additionalProperties": False}, [{"éx": 1}, {"x": 1}, {"a": 1}]),
        ({"patternProperties": {"\\bx\\b": {}}, "unevaluatedProperties": False}, [{"éx": 1}, {"x": 1}, {"a": 1}]),
    ],
    ids=json.dumps,
)
def test_borders_of_words_are_said_both_ways(judge: Judge, schema: Any, values: list[Any]) -> None:
    found = judge.compiled({"type": "object", **schema}, "warn")
    report = found.plan.schema_report
    relaxed = {(row.pointer, row.keyword) for row in report.relaxed}
    for value in values:
        said = {verdict.is_valid for verdict in verdicts(schema, value)}
        if not found.accepts(json.dumps(value, ensure_ascii=False)):
            assert False in said or any("word boundaries" in row.reason for row in report.narrowed), value
        elif True not in said:
            assert violated(schema, value) & relaxed, value


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]+\\b-[0-9]+$",
        "^\\bfoo\\b$",
        "^(foo|bar)\\b[ -.]*$",
        "^[a-z]+\\b \\b[0-9]+$",
        "^(?!.*\\b(ao|foo)\\b)[ -~]{1,255}$",
    ],
)
@pytest.mark.parametrize("letters", ["ao-é 1", pytest.param("ao-b.é 1日。", marks=pytest.mark.slow)])
def test_borders_of_words_that_ascii_letters_decide_are_kept(judge: Judge, pattern: str, letters: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    found = judge.compiled(schema, "strict")
    for value in map("".join, chain(*(product(letters, repeat=n) for n in range(4)), product(["foo"], "- é", "1é"))):
        said = {verdict.is_valid for verdict in verdicts(schema, value)}
        assert found.accepts(json.dumps(value, ensure_ascii=False)) == (said == {True}), value


def test_what_borders_of_words_make_impossible_is_told() -> None:
    with pytest.raises(SchemaError, match="no value satisfies") as refused:
        build({"type": "string", "pattern": "^[^\\x20-\\x7e]\\b$"}, watch=True)
    assert "some readings" in str(refused.value)
    with pytest.raises(SchemaError, match="no value satisfies") as refused:
        build({"type": "string", "pattern": "^ \\b$"}, watch=True)
    assert "word boundaries" not in str(refused.value)


def test_what_is_not_ecma_is_remarked() -> None:
    rows = build({"type": "string", "pattern": "^\\S$"}, watch=True).report.rows
    assert [row.outcome for row in rows if row.keyword == "pattern"] == [Outcome.EXACT]


SMALL = ("^a", "b$", "^(ab)*$", "aa", "^.{2,3}$", "^(a|b{2})+$", "^[^a]*$", "^a?b?$")


@given(st.lists(st.tuples(st.sampled_from(SMALL), st.booleans()), max_size=4))
def test_words_in_several_languages_are_those_that_all_patterns_match(chosen: list[tuple[str, bool]]) -> None:
    every = {"".join(letters) for length in range(5) for letters in product("ab", repeat=length)}
    expected = {word for word in every if all((re.search(p, word) is None) is denied for p, denied in chosen)}
    terms = [neg(language(pattern)) if denied else language(pattern) for pattern, denied in chosen]
    assert finite_words(inter(language("^[ab]{0,4}$"), *terms), 31) == expected


@pytest.mark.parametrize("year", ["2019-09", "2020-12"])
def test_items_next_to_contains_may_be_evaluated(year: str) -> None:
    schema = {"type": "array", "contains": {"type": "integer"}, "minContains": 0, "unevaluatedItems": False}
    rows = build({"$schema": f"https://json-schema.org/draft/{year}/schema", **schema}, watch=True).report.relaxed
    assert [(row.pointer, row.keyword) for row in rows] == [("", "unevaluatedItems")]


@pytest.mark.parametrize(
    ("keyword", "broken", "others"),
    [("unevaluatedItems", [1], [{}, 1]), ("unevaluatedProperties", {"a": 1}, [[], 1])],
)
def test_a_negation_that_is_not_worked_out_widens_its_own_type(
    judge: Judge, keyword: str, broken: Any, others: list[Any]
) -> None:
    found = judge.compiled({"not": {keyword: False}})
    assert ("/not", keyword) in {(row.pointer, row.keyword) for row in found.plan.schema_report.relaxed}
    assert found.accepts(json.dumps(broken))
    assert not any(found.accepts(json.dumps(value)) for value in others)


@pytest.mark.parametrize("braces", ["{,2}", "{,}", "{,2}?"])
@pytest.mark.parametrize("shape", ['{"type": "string", "pattern": "^aB$"}', '{"patternProperties": {"^aB$": false}}'])
def test_a_repeat_without_a_least_is_text_to_some(judge: Judge, braces: str, shape: str) -> None:
    """ECMA-262 reads text, Python's validators a repeat: nothing is enforced, and the report says so."""
    schema = json.loads(shape.replace("B", braces))
    report = build(schema, watch=True).report
    assert [row.outcome for row in report.rows if "attern" in row.keyword] == [Outcome.RELAXED]
    found = judge.compiled(schema)
    for text in ("a", "aa", f"a{braces}"):
        assert found.accepts(json.dumps(text if "type" in schema else {text: 1})), text
    with pytest.raises(SchemaError, match="a repeat to Python's validators"):
        build(schema, policy="strict")


@pytest.mark.parametrize(
    "pattern", ["^[.]$", "a\\.b", "[^.]+\\.", "[\\].]", "^[{,2}]$", r"^a\{,2}$", "^{a,2}$", "^a{2,}$", "^a{,b}$"]
)
def test_signs_that_all_readers_take_for_themselves_have_no_row(pattern: str) -> None:
    rows = build({"type": "string", "pattern": pattern}, watch=True).report.rows
    assert not [row for row in rows if row.keyword == "pattern"]


_BY_UNICODE = (
    "éab",
    "-ab",
    "é-b",
    "a\u0085b",
    "a\ufeffb",
    "٣ab",
    "a٣!",
    "😀ab",
    "a b",
    "ab\x1c",
    "_é_",
    "ab1",
    "a–b",
    "abc",
    "1",
)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?=.*\W).{3}$",
        r"^(?=.*[^\w\s]).{3}$",
        r"^(?!\w)...$",
        r"^(?!.*\W)...$",
        r"^(?!.*[^\w]).{3}$",
        r"^(?=.*\d)\S{3}$",
        r"^(?!.*\s).{3}$",
        r"^(?!.*\S\S).{3}$",
        r"^(?=.*\D)[^\d]..$",
        r"(?<!\w)b",
        r"^(?=[\w-]{3}$)[^-]",
        r"^(?!(?!\w)).{3}$",
    ],
)
@pytest.mark.parametrize("form", ["pattern", "not", "key", "no key"])
def test_what_validators_read_otherwise_next_to_look_around_is_said(judge: Judge, pattern: str, form: str) -> None:
    """Both read classes by Unicode then, ECMA-262 by ASCII."""
    schemas: dict[str, Any] = {
        "pattern": {"type": "string", "pattern": pattern},
        "not": {"type": "string", "not": {"pattern": pattern}},
        "key": {"patternProperties": {pattern: {"const": 1}}, "additionalProperties": False},
        "no key": {"patternProperties": {pattern: False}},
    }
    schema = schemas[form]
    found, num_accepted = judge.compiled(schema), 0
    for text in _BY_UNICODE:
        value = {text: 1} if "key" in form else text
        if found.accepts(json.dumps(value, ensure_ascii=False)):
            num_accepted += 1
            if any(verdict.is_valid is False for verdict in verdicts(schema, value)):
                assert not unexcused(schema, value, None, found.plan.schema_report.relaxed), text
    assert num_accepted
    rows = build(schema, watch=True).report.narrowed
    assert any("next to look-around" in row.reason for row in rows)


def test_look_around_that_asks_for_a_digit_is_enforced(judge: Judge) -> None:
    found = judge.compiled({"type": "string", "pattern": r"^(?=.*\d)(?=.*[a-z]).{3,8}$"}, "strict")
    assert found.accepts('"a1b"')
    assert not found.accepts('"abc"')


@pytest.mark.parametrize(
    ("schema", "text", "others"),
    [
        ({"not": {"pattern": "^(yes|no)$"}}, "yes\n", ["y", "yes\n\n"]),
        ({"pattern": "^(?!admin$)[^x]*$"}, "admin\n", ["admina", "admin\n\n"]),
        ({"not": {"pattern": "a$|b"}}, "a\n", ["c\n"]),
        ({"not": {"pattern": "^a{2}$"}}, "aa\n", ["a\n", "aa\n\n"]),
        ({"not": {"pattern": "^\\{a}$"}}, "{a}\n", ["a\n"]),
        ({"not": {"pattern": "^\\p{L}{1,64}$"}}, "é\n", ["9\n"]),
        ({"pattern": "^(?![0-9]{4}-[0-9]{2}$)"}, "2020-10\n", ["2020-100\n"]),
    ],
)
def test_an_end_that_is_negated_is_found_before_a_final_newline_too(
    judge: Judge, schema: dict[str, Any], text: str, others: list[str]
) -> None:
    """One validator has it so, the other does not: what they do not agree on is not written, and that is said."""
    schema = {"type": "object", "properties": {"a": {"type": "string", **schema}}, "required": ["a"]}
    found = judge.compiled(schema, "strict")
    pointer = "/properties/a/not" if "not" in schema["properties"]["a"] else "/properties/a"
    rows = [row for row in found.plan.schema_report.narrowed if row.pointer == pointer]
    assert any("newline" in row.reason for row in rows)
    assert not found.accepts(json.dumps({"a": text}))
    assert all(found.accepts(json.dumps({"a": other})) for other in others)


def test_an_end_after_counts_that_may_begin_anywhere_has_a_row(judge: Judge) -> None:
    found = judge.compiled({"type": "string", "not": {"pattern": "[a-z]+[0-9]{5,9}$"}}, "strict")
    rows = [row for row in found.plan.schema_report.rows if row.pointer == "/not"]
    assert [row.outcome for row in rows] == [Outcome.NARROWED]
    assert "newline" in rows[0].reason
    assert not found.accepts('"a12345"')


def test_two_counts_that_a_negation_looks_at_are_enforced(judge: Judge) -> None:
    pattern = "^(?![a-f0-9]{12,}(?:ba+){0,50}.{5}$)[^b]{10,20}[ab]{25,50}$"
    found = judge.compiled({"type": "string", "pattern": pattern}, "strict")
    assert found.accepts(json.dumps("x" * 10 + "ab" * 13))
    others = ('""', '"abc"', json.dumps("x" * 40), json.dumps("a" * 20 + "ba" * 12 + "aaaaaa"))
    assert not any(map(found.accepts, others))


@pytest.mark.parametrize(
    ("schema", "value", "accepted"),
    [
        # as validators read it, a newline may follow the place where a negated $ matches
        (
            {
                "type": "array",
                "items": {"type": "string", "oneOf": [{"pattern": "^a$"}, {"const": "a\n"}]},
                "contains": {"pattern": "^a$"},
            },
            ["a\n"],
            False,
        ),
        ({"type": "array", "items": {"pattern": "^[ab]$"}, "contains": {"pattern": "^[ab]$"}}, ["b"], True),
        ({"type": "array", "contains": {"pattern": "^(?:[^a]|a)*$"}}, [1], True),
        ({"type": "array", "items": True, "contains": {"pattern": "a*$"}, "minContains": 2}, ["b"], False),
        (
            {
                "type": "array",
                "items": {"properties": {"k": {"enum": ["a", "a\n"]}}, "required": ["k"], "type": "object"},
                "contains": {"properties": {"k": {"pattern": "^a$"}}, "allOf": [{"required": ["k"]}]},
            },
            [{"k": "a\n"}],
            False,
        ),
        # a dot takes line separators where a validator has it so
        ({"oneOf": [{"type": "string", "pattern": "^.$"}, {"const": "\r"}]}, "x", True),
        ({"oneOf": [{"type": "string", "pattern": "^.$"}, {"const": "long"}]}, "long", True),
        # in a key that a pattern forbids, too
        ({"patternProperties": {"^(?!x$)": {"type": "integer"}}, "additionalProperties": False}, {"x\n": 1}, False),
        ({"patternProperties": {"^(?!x$)": {"type": "integer"}}, "additionalProperties": False}, {"x": 1}, False),
    ],
)
def test_what_readings_decide_is_enforced_as_validators_read_it(
    judge: Judge, schema: dict[str, Any], value: Any, accepted: bool
) -> None:
    found = judge.compiled(schema, "strict")
    assert found.accepts(json.dumps(value)) is accepted
    assert accepted in {verdict.is_valid for verdict in verdicts(schema, value)}


def test_many_words_that_are_long_are_not_all_spelled() -> None:
    assert finite_words(rep(chars([(0x1F600, 0x1F600)]), 0, 29_999), 100) is None


@pytest.mark.parametrize(("pattern", "text"), [("^a{5", "a{5"), ("^x{2,", "x{2,"), ("^a{", "a{")])
def test_braces_that_are_not_closed_are_text(judge: Judge, pattern: str, text: str) -> None:
    found = judge.compiled({"type": "string", "pattern": pattern}, "strict")
    assert found.accepts(json.dumps(text))
    assert not found.accepts(json.dumps("aaaaa"))
