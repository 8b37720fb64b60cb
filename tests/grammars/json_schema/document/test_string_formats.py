"""Negated formats: what any checker may accept as the format is not written there.

Each schema is judged by both validators, and a value that they call invalid must not be accepted, ``strict`` or not,
unless the report says so.
"""

from __future__ import annotations

import datetime
import json
import random
import re
import string
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.json_schema.document.string_formats import FORMATS
from grammars.regular.terms import matches
from special_tokens.errors import GuidedError
from tests.cases import seeds
from tests.guided.validation.validators import judge as verdicts
from tests.judges.schema_masks import Judge

#: Strings of each format that its own pattern leaves out or that checkers take besides, and some that it writes.
STRINGS = {
    "date": ["2020-01-01", "0000-01-01", "*020-01-01", "2020-0,-01"],
    "time": ["12:00:00Z", "23:59:60Z", "12:00:00.1234567890123456789Z", "0*:00:00Z"],
    "date-time": ["2020-01-01T00:00:00Z", "1998-12-31T23:59:60Z", "*020-01-01T00:00:00Z"],
    "duration": ["P1D", "P1234567890123Y", "PT36H", "P2W"],
    "email": [
        "a@b.co",
        "a.b.c.d.e@b.co",
        "a.b.c.d.e.f.abcdef@b.co",
        "joe@[IPv6:2001:db8::1]",
        "a@xn--nxasmq6b.co",
        "a b@c",
        '"a \\b"@c',
    ],
    "idn-email": ["a@b.co", "실례@실례.테스트", "a.b.c.d@example.com"],
    "hostname": ["abc", "xn--nxasmq6b", ".".join(["abcdefghijklmnopqrstuvwxyz"] * 9), "a\n", "٣", "\u212a"],
    "idn-hostname": ["abc", "실례.테스트", "xn--nxasmq6b", "bücher.example", "〡〢"],
    "ipv4": ["127.0.0.1"],
    "ipv6": ["::1", "2001:db8::1"],
    "uri": ["http://a.b/c", "a:\n"],
    "uri-reference": ["a/b", "", "a\n"],
    "iri": ["http://a.b/ü", "http://a.b/\U00030000", "a:\n"],
    "iri-reference": ["a/ü", "", "a\n"],
    "uri-template": ["a'/{b}", " ", "{=a}", "{a..b}", "{!a}", "%", "{%41}", "{a:1234}", "{a:123}"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "json-pointer": ["/a", ""],
    "relative-json-pointer": ["0#", "12345678901/a", "102/b", "1٣", "1²/a"],
    "regex": ["a+", "(?=a)b", "((((a))))", "(?<n>a)\\k<n>"],
}

NEGATIONS: dict[str, Any] = {
    "not": lambda f: {"type": "string", "not": {"format": f}},
    "not of a type": lambda f: {"not": {"type": "string", "format": f}},
    "one of": lambda f: {"oneOf": [{"type": "string", "format": f}, {"type": "string"}]},
    "if": lambda f: {"if": {"type": "string", "format": f}, "then": {"enum": ["x"]}},
    "names": lambda f: {"type": "object", "not": {"propertyNames": {"format": f}}, "maxProperties": 1},
}


@pytest.mark.parametrize("way", list(NEGATIONS))
@pytest.mark.parametrize("name", list(STRINGS))
def test_what_may_be_of_a_format_is_not_written_where_it_is_negated(judge: Judge, name: str, way: str) -> None:
    schema = NEGATIONS[way](name)
    found = judge.compiled(schema, "strict")
    for text in STRINGS[name]:
        value = {text: 1} if way == "names" else text
        if any(verdict.is_valid is False for verdict in verdicts(schema, value)):
            assert not found.accepts(json.dumps(value, ensure_ascii=False)), value
    other = "*{" if way != "names" else {"*{": 1}
    if way != "if" and all(verdict.is_valid for verdict in verdicts(schema, other)):
        assert found.accepts(json.dumps(other))


@pytest.mark.parametrize("schema", [
    {"type": "array", "contains": {"type": "string", "format": "email"}, "maxContains": 1},
    {"type": "array", "unevaluatedItems": False, "contains": {"type": "string", "format": "email"}, "maxContains": 1},
])  # fmt: skip
def test_items_that_may_be_of_a_format_are_counted(judge: Judge, schema: Any) -> None:
    for policy in ("warn", "strict"):
        try:
            found = judge.compiled(schema, policy)
        except GuidedError:
            continue
        assert found.accepts('["a@b.co"]')
        assert not found.accepts('["a@b.co", "a.b.c.d.e@b.co"]')
        assert not found.accepts('["a@b.co", "a.b.c.d.e.f.abcdef@b.co"]')


@pytest.mark.parametrize("schema", [
    {"oneOf": [{"type": "string", "format": "idn-hostname"}, {"type": "string", "pattern": "^.n--"}]},
    {"oneOf": [{"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "format": "hostname"}}},
               {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^xn--"}}}]},
])  # fmt: skip
def test_branches_that_only_seem_to_exclude_each_other_are_told_apart(judge: Judge, schema: Any) -> None:
    found = judge.compiled(schema)
    text = "xn--nxasmq6b"
    value = text if "pattern" in schema["oneOf"][1] else {"a": text}
    assert all(verdict.is_valid is False for verdict in verdicts(schema, value))
    assert not found.accepts(json.dumps(value))


#: What is put into strings of a format: ends, digits and letters that some checker takes for others, and every sign.
PIECES = [
    *"\n\r\t \0\x7f\x80\xa0\u2028\u0663\u00b2\u212a\u017f\u3002\uff0e\uff11\u00ad\u200dü\U0001f600\ufffe",
    *"_%+-.,09aAzZtTPWYDSHM{}[]()*?|\\^$~/#@:;'\"<>`=!&",
    *("%41", "%zz", "--", "..", "::", "::ffff", "%eth0", "/64", "+24:00", "60", "urn:uuid:", "xn--", "{1}", "\\d"),
]


@pytest.mark.parametrize("seed", seeds(10, default=1))
@pytest.mark.parametrize("name", list(STRINGS))
def test_what_is_written_and_what_is_left_out_are_so_for_every_checker(name: str, seed: int) -> None:
    """Both know all that we write for one of the format, and none takes what surely is none."""
    rs = pytest.importorskip("jsonschema_rs").Draft202012Validator({"format": name}, validate_formats=True)
    python: Any = jsonschema.Draft202012Validator
    row, rng, written = FORMATS[name], random.Random(f"{name} {seed}"), 0
    for _ in range(200):
        text = rng.choice(STRINGS[name])
        for _ in range(rng.randrange(3)):
            at, piece = rng.randrange(len(text) + 1), rng.choice([*PIECES, ""])
            text = text[:at] + piece + text[at + rng.randrange(2) :]
        taken = {rs.is_valid(text)}
        with suppress(ValueError):  # jsonschema's own fault: it takes a digit such as ² for a number
            taken.add(python.FORMAT_CHECKER.conforms(text, name))
        if matches(row.language, text):
            written += 1
            assert taken == {True}, text
        if True in taken:
            assert matches(row.outer_language, text), text
    assert written > 5


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (datetime.datetime, "2020-01-01T12:00:00Z"),
        (datetime.time, "12:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2020-01-01T12:00:00Z"),
        ({"type": "string", "format": "time"}, "12:00:00Z"),
    ],
)
def test_times_are_written_in_capital_letters(judge: Judge, given: Any, text: str) -> None:
    """``fromisoformat`` of Python 3.11 refuses a ``z``."""
    found = judge.compiled(given)
    assert found.accepts(json.dumps(text))
    for letter in {"T", "Z"} & set(text):
        assert not found.accepts(json.dumps(text.replace(letter, letter.lower())))


def _parts(rng: random.Random, letters: str, edges: str, most: int, longest: int) -> list[str]:
    """Up to ``most`` parts of up to ``longest`` letters, those at their ends out of ``edges``."""
    parts = []
    for _ in range(rng.randint(1, rng.choice([2, 4, most]))):
        size = rng.randint(1, rng.choice([3, 12, longest]))
        inner = "".join(rng.choices(letters, k=max(0, size - 2)))
        parts.append(rng.choice(edges) + inner + (rng.choice(edges) if size > 1 else ""))
    return parts


def _fits(parts: list[str], pairs: dict[int, int]) -> bool:
    """Whether some pair of number and length bounds the parts."""
    return any(len(parts) <= most and max(map(len, parts)) <= longest for most, longest in pairs.items())


@pytest.mark.parametrize("seed", seeds(20, default=2))
@pytest.mark.parametrize("name", ["email", "idn-email", "hostname", "idn-hostname"])
def test_addresses_of_the_rfc_are_written_except_what_the_report_names(name: str, seed: int) -> None:
    """RFC 5321, 4.1.2 and 4.5.3.1: names of 64, labels of 63, hosts of 253 characters, drawn by its grammar."""
    rs = pytest.importorskip("jsonschema_rs").Draft202012Validator({"format": name}, validate_formats=True)
    rng, row = random.Random(f"{name} {seed}"), FORMATS[name]
    letters = string.ascii_letters + string.digits
    written = left_out = 0
    while written < 60:
        host = _parts(rng, letters + "-", letters, 20, 63)
        local = _parts(rng, letters + "!#$%&'*+-/=?^_`{|}~", letters + "+-_", 20, 48)
        if len(".".join(host)) > 253 or len(".".join(local)) > 64:
            continue
        text = ".".join(host) if "host" in name else ".".join(local) + "@" + ".".join(host)
        left = any(label[2:4] == "--" for label in host) or not _fits(host, {3: 63, 9: 27})
        if "email" in name:
            initials = len(local) <= 5 and max(map(len, local[:-1]), default=0) <= 3
            left = left or not (initials or _fits(local, {1: 64, 2: 31, 3: 20, 5: 12, 10: 5, 32: 1}))
        if left:
            left_out += 1
            continue
        written += 1
        assert matches(row.language, text), text
        assert rs.is_valid(text), text
        assert jsonschema.Draft202012Validator.FORMAT_CHECKER.conforms(text, name), text
    assert left_out < 3 * written


def test_an_unknown_format_can_not_be_broken(judge: Judge) -> None:
    schema = {"type": ["string", "null"], "not": {"type": "string", "format": "colour"}}
    found = judge.compiled(schema)
    assert found.accepts("null")
    assert not found.accepts('"red"')


_SEVEN = {"$schema": "http://json-schema.org/draft-07/schema#"}


def test_a_format_of_a_later_draft_is_enforced_and_said_to_be_narrowed(judge: Judge) -> None:
    for schema in (
        {**_SEVEN, "type": "string", "format": "uuid"},
        {**_SEVEN, "type": "string", "allOf": [{"format": "uuid"}]},
    ):
        found = judge.compiled(schema, "strict")
        assert found.accepts('"123e4567-e89b-12d3-a456-426614174000"')
        assert not found.accepts('"x"')
        assert any(row.keyword == "format" and "draft 7" in row.reason for row in found.plan.schema_report.narrowed)


def test_a_format_of_a_later_draft_can_not_be_broken(judge: Judge) -> None:
    found = judge.compiled({**_SEVEN, "oneOf": [{"type": "string", "format": "uuid"}, {"type": ["string", "null"]}]})
    assert found.accepts("null")
    assert not found.accepts('"x"')  # valid in both, for a validator of draft 7


ONE = {"enum": ["a_b", "-x"]}  # no names of hosts, and yet not surely none for every checker


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": ONE, "contains": {"format": "hostname"}}, ["a_b"]),
        ({"type": "array", "items": ONE, "contains": {"$ref": "#/$defs/x"}, "$defs": {"x": {"format": "hostname"}}},
         ["a_b"]),
        ({"type": "array", "contains": {"properties": {"a": {"format": "hostname"}}, "required": ["a"]},
          "items": {"type": "object", "properties": {"a": ONE}, "required": ["a"]}}, [{"a": "-x"}]),
        ({"type": "object", "properties": {"a": ONE}, "required": ["a"],
          "anyOf": [{"properties": {"a": {"format": "hostname"}}}, {"required": ["b"]}]}, {"a": "a_b"}),
    ],
    ids=["items", "by a reference", "inside objects", "keys"],
)  # fmt: skip
def test_that_nothing_would_be_written_against_a_format_is_no_proof_of_it(
    judge: Judge, schema: Any, value: Any
) -> None:
    assert not any(verdict.is_valid for verdict in verdicts(schema, value))
    try:
        assert not judge.compiled(schema).accepts(json.dumps(value))
    except GuidedError as error:
        assert "no value satisfies" in str(error)


@pytest.mark.parametrize(
    "pattern", ["[']", "[-]", r"[\w.-]", "[^'\"]+", "[-a-z]", "[(){}|$*+?]", r"^[\w.+-]+@[a-z.-]+$"]
)
def test_the_format_regex_writes_everyday_classes(judge: Judge, pattern: str) -> None:
    assert re.compile(pattern)
    assert judge.compiled({"type": "string", "format": "regex"}).accepts(json.dumps(pattern))


@given(st.text("-[]^'a.\\w&(|z{$", max_size=7))
def test_what_the_format_regex_writes_is_a_regular_expression(text: str) -> None:
    if matches(FORMATS["regex"].language, text):
        re.compile(text)
