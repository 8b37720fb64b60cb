"""Pattern flags: case folding, the scope of a flag, and flags that few validators know."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from grammars.json_schema.build import Outcome, build
from grammars.regular.syntax.case_folding import _classes
from grammars.regular.syntax.ecma import InvalidPattern, NotRegular, language
from special_tokens.errors import SchemaError
from tests.guided.validation.validators import judge as verdicts
from tests.judges.schema_causes import unexcused
from tests.judges.schema_laws import honest
from tests.judges.schema_masks import Judge


def _with_case() -> list[str]:
    """All characters that have case, or are alike to others."""
    every = map(chr, (*range(0xD800), *range(0xE000, 0x110000)))
    return [char for char in every if {char.lower(), char.upper(), char.casefold()} != {char}]


def test_letters_are_alike_where_both_validators_have_them_alike() -> None:
    """Over all of Unicode: all that we do."""
    rust = pytest.importorskip("jsonschema_rs")
    for char in _with_case():
        code = ord(char)
        ours = re.compile(re.escape(char), re.IGNORECASE)
        theirs = rust.Draft202012Validator({"pattern": f"(?i)^\\x{{{code:X}}}$"})
        for other in map(chr, _classes().get(code, (code,))):
            assert ours.fullmatch(other), (char, other)
            assert theirs.is_valid(other), (char, other)


@pytest.mark.parametrize(
    ("pattern", "values"),
    [
        ("(?i)[é]", ["é", "É", "e"]),
        ("(?i)^[à-ü]+$", ["é", "É", "Ü", "a"]),
        ("(?i)sk", ["sk", "SK", "\u017fK", "s\u212a", "xk"]),
        ("(?i)σ", ["σ", "ς", "Σ", "s"]),
        ("(?i)^[a-z]$", ["q", "Q", "\u212a", "\u017f", "ı", "İ"]),
        ("(?i)^[^a-z]$", ["q", "Q", "\u212a", "ı", "İ", "1"]),
        ("(?i)^i$", ["i", "I", "ı", "İ"]),
        ("(?i)^ß$", ["ß", "ẞ", "ss"]),
        ("(?i)^\\p{Lu}$", ["a", "A", "1"]),
        ("(?i)^\\P{Lu}$", ["a", "A", "1"]),
        ("^a(?i:b)c$", ["abc", "aBc", "ABc", "abC"]),
        ("^(?i:a(?-i:b)c)$", ["abc", "AbC", "aBc"]),
        ("^(?:a(?i)b|c)d$", ["abd", "aBd", "Cd", "cD", "Abd"]),
        ("^(?!(?i)(stop|help)$).*$", ["STOP", "stop", "Helped"]),
        ("(?s)^.$", ["a", "\n", "\r", "\u2028", "ab"]),
        ("^(?s).+$", ["a\nb", ""]),
        ("^(?s:.)(?-s:.)$", ["\na", "a\n"]),
        ("(?is)^a.b$", ["A\nB", "a\nc"]),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_flags_mean_what_all_readers_take_them_for(
    judge: Judge, pattern: str, values: list[str], negated: bool
) -> None:
    own: Any = {"type": "string", "pattern": pattern}
    schema = {"type": "string", "not": own} if negated else own
    found = judge.compiled(schema)
    for value in values:
        said = {verdict.is_valid for verdict in verdicts(schema, value)} - {None}
        if found.accepts(json.dumps(value, ensure_ascii=False)):
            assert said == {True} or not unexcused(schema, value, None, found.plan.schema_report.relaxed), value
        else:
            assert False in said, value


def test_letters_that_readers_fold_differently_are_said() -> None:
    for schema in ({"type": "string", "pattern": "(?i)^i$"}, {"not": {"pattern": "(?i)^i$"}}):
        rows = build(schema, watch=True).report.narrowed
        assert "fold alike" in " ".join(row.reason for row in rows)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        *((pattern, "") for pattern in ("(?m)^a$", "(?x) a", "a(?#b)c", "(a)?(?(1)b|c)", "(?u:a)", "a{2}+")),
        ("(?P<n>a)(?P=n)", ""),
        (r"^(a)x\1$", "a back-reference, column 6"),
        (r"^a(?>b|bc)$", "an atomic group, column 3"),
        (r"^0++0$", "a possessive repeat, column 3"),
    ],
)
def test_what_one_reader_knows_is_relaxed(pattern: str, reason: str) -> None:
    with pytest.raises(NotRegular):
        language(pattern)
    (row,) = build({"type": "string", "pattern": pattern}, watch=True).report.rows
    assert (row.keyword, row.outcome) == ("pattern", Outcome.RELAXED)
    assert row.reason.startswith("not enforced: ")
    assert row.reason.endswith(reason)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?<n>a)(?<n>b)", "(?P<n>a)|(?P<n>b)", "(?i", "(?~a)", "(?)", "(?-)", "a**", "(?i:a", "(a", "a)", "[a"),
        *("a{2,1}", "\\u{411", "[\\u{411", "a\\u{4", "(\\u{1F600"),
    ],
)
def test_what_no_one_reads_is_no_pattern(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        language(pattern)
    with pytest.raises(SchemaError, match="not a regular expression"):
        build({"type": "string", "pattern": pattern}, watch=True)


_UNICODE_WORD = r"^(?=\w)"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"x": {"type": "string", "pattern": _UNICODE_WORD}}}, {"x": "é"}),
        ({"type": "array", "items": {"type": "string", "pattern": _UNICODE_WORD}}, ["é"]),
        ({"type": "object", "propertyNames": {"pattern": _UNICODE_WORD}}, {"é": 1}),
        ({"type": "object", "patternProperties": {_UNICODE_WORD: {}}, "additionalProperties": False}, {"é": 1}),
        ({"type": "object", "patternProperties": {"^x": {"pattern": "(?i)^i$", "type": "string"}}}, {"x": "İ"}),
    ],
    ids=json.dumps,
)
def test_a_pattern_that_readers_differ_on_is_said_where_it_stands(judge: Judge, schema: Any, value: Any) -> None:
    found, text = judge.compiled(schema), json.dumps(value, ensure_ascii=False)
    assert not found.accepts(text)
    assert not list(honest(found, found, schema, {"data": value, "valid": True}, [text], None))
    assert all(row.pointer or "properties" in row.keyword.lower() for row in found.plan.schema_report.narrowed
               if "alike" in row.reason or "look-around" in row.reason)  # fmt: skip


@pytest.mark.parametrize(
    "pattern", [r"^C:\\bin\\[a-z]+$", r"^[\b]$", r"^\(?in [^)]*\)?$", r"^\(?item [a-z]+\)?$", r"^\(?=\w+$"]
)
def test_signs_that_are_escaped_or_in_a_class_are_no_operators(pattern: str) -> None:
    report = build({"type": "string", "pattern": pattern}, watch=True).report
    assert not [row for row in report.rows if "validators" in row.reason and row.outcome is not Outcome.EXACT]
    assert not report.relaxed
