"""String languages that are empty or too large for the engine's lexer: neither leads to a dead row."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grammars.json_schema.document.string_formats import FORMATS
from grammars.regular.languages import ALL, inter, neg, rep
from grammars.regular.lexer_cost import affordable_superset
from grammars.regular.syntax.ecma import language
from grammars.regular.terms import ANY
from special_tokens.errors import SchemaError
from tests.guided.validation.validators import judge as verdicts
from tests.judges.schema_laws import byte_judge, honest
from tests.judges.schema_masks import Judge


@pytest.fixture(scope="module")
def judge() -> Judge:
    return byte_judge(None)


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


#: Counts that exhaust the engine's lexer, and similar ones that it can handle.
_COSTLY = (
    inter(language("a.{40}$"), language("b.{41}$"), neg(language("c.{42}$"))),
    language("^(?=.*a.{20}$)(?=.*b.{20}$)(?!.*c.{20}$).*$"),
    inter(neg(language("a[ab]{13,23}\\w{5,15}")), language("^(?=.*.c{40}.)c[ab]cba{1,20}"), rep(ANY, 20, 100)),
)
_AFFORDABLE = (
    neg(language("a.{25}b")),
    inter(neg(language("a.{13}b")), neg(language("b.{12}a")), neg(language("c.{6}a"))),
    inter(language("a.{13}b"), neg(language("c.{13}d"))),
    inter(language(r"^(?:\S+\s+){0,99}\S+$"), rep(ANY, 0, 5_000)),
    inter(language("^[a-z]+(-[a-z]+)*$"), neg(language("--")), rep(ANY, 1_000, 5_000)),
    *(inter(FORMATS[name].language, rep(ANY, 0, 100), neg(language("a{7}b{7}"))) for name in ("date", "uuid", "ipv4")),
)


def test_what_the_engine_does_not_bear_is_known_beforehand() -> None:
    assert all(affordable_superset(term) != term for term in _COSTLY)
    assert [affordable_superset(term) for term in _AFFORDABLE] == list(_AFFORDABLE)
    wider = affordable_superset(_COSTLY[0])
    assert affordable_superset(wider) == wider != ALL


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"pattern": "a.{40}$"}, {"pattern": "b.{41}$"}], "not": {"pattern": "c.{42}$"}},
        {"pattern": "^(?=.*a.{20}$)(?=.*b.{20}$)(?!.*c.{20}$).*$"},
        {"allOf": [{"not": {"pattern": "a[ab]{13,23}\\w{5,15}"}}, {"pattern": "^(?=.*.c{40}.)c[ab]cba{1,20}"}],
         "minLength": 20, "maxLength": 100},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_counts_that_multiply_are_relaxed_and_no_row_dies(judge: Judge, schema: Any) -> None:
    schema = {"type": "string", **schema}
    with pytest.raises(SchemaError, match="cannot be enforced"):
        judge.compiled(schema, "strict")
    found = judge.compiled(schema)
    state, rng = found.start.fork(), random.Random(1)
    state.commit(state.engine.tokenize('"'))
    for _ in range(50):
        letters = [state.engine.tokenize(letter)[0] for letter in "abc"]
        allowed = [letter for letter in letters if state.allows(letter)]
        if not allowed:
            break
        state.commit([rng.choice(allowed)])
    assert not state.is_stopped
    for text in ("c" * 60, "ab" * 40, "a" * 25):
        test = {"data": text, "valid": any(verdict.is_valid for verdict in verdicts(schema, text))}
        assert not list(honest(found, found, schema, test, [json.dumps(text)], None))
