"""Patterns of pydantic types: masks and schemas mean what the type accepts, judged by pydantic and jsonschema-rs."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Annotated, Any

import jsonschema_rs
import pydantic
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter

from grammars.python_types.adapter import schema_of_type
from grammars.regular.syntax import ecma
from grammars.regular.terms import matches
from guided.engine.engine import Engine
from tests.cases import many
from tests.grammars.regular.syntax.test_ecma import patterns
from tests.judges.plans import accepts, plan_of

LETTERS = "aK_5 -~&[]\\é٣\u212aſ\x85\u2028\ufeff\r"
TEXTS = [
    *("".join(letters) for size in range(4) for letters in product("aB1", repeat=size)),
    *("".join(letters) for size in range(1, 3) for letters in product(LETTERS, repeat=size)),
]
FLAGS = [0, re.ASCII, re.IGNORECASE, re.IGNORECASE | re.ASCII, re.DOTALL, re.MULTILINE, re.VERBOSE]
BOTH = ("a", "B", ".", r"\w", r"\S", r"\D", "^", "$", r"\b", "b*", "a?", " ", "k", "[^k]", r"\x41", "[a-]", r"[^\W_]")
RUST = ("[[:upper:]]", "[^[:alpha:]]", r"\pL", r"[\P{L}5]", "[!--]", r"[\w&&[^\d]]", "[a~~ab]", r"\z", "[[a]5]", "(?i)")
PYTHON = ("[!--]", "[~~a]", "[^[]", "[]a]", "[a&&b]", r"\Z", "{", "a{,2}", "(?=a)", "(?!.k)", "(?<=a)", "(?<!B)", "#")
LOOKS_AROUND, CLASS = re.compile(r"\(\?<?[=!]"), re.compile(r"\\[wWdDsS]")


GROUPS = ("(?:{})", "({})?", "(?:{}){{1,2}}", "(?i:{})", "(?P<g>{})+?", "^{}$", "^(?:{})$")


def of_schema(schema: dict[str, Any], text: str) -> bool:
    """Whether our readers of schemas let a text through."""
    return all(
        (
            "pattern" not in schema or matches(ecma.language(schema["pattern"]), text),
            all(of_schema(each, text) for each in schema.get("allOf", ())),
            "anyOf" not in schema or any(of_schema(each, text) for each in schema["anyOf"]),
            "not" not in schema or not of_schema(schema["not"], text),
        )
    )


def check(adapter: TypeAdapter[str], python_type: Any) -> None:
    schema, rows = schema_of_type(python_type)
    assert rows or schema.keys() & {"pattern", "allOf", "anyOf", "not"} or adapter.validator.isinstance_python("")
    if rows:
        return
    pattern = str(schema.get("pattern", ""))
    # The judge reads word boundaries by Unicode, and next to look-around classes as well.
    by_unicode = "\\b" in pattern or (LOOKS_AROUND.search(pattern) is not None and CLASS.search(pattern) is not None)
    try:
        judge = jsonschema_rs.validator_for(schema)
    except jsonschema_rs.ValidationError:
        assert "(?" in schema["pattern"]  # a repeated look-around, which it does not know
        judge = jsonschema_rs.validator_for(True)
        by_unicode = True
    for text in TEXTS:
        right = adapter.validator.isinstance_python(text)
        assert of_schema(schema, text) == right, (schema, text)
        assert judge.is_valid(text) == right or by_unicode, (schema, text)


@many
@given(pattern=patterns(BOTH + RUST, GROUPS))
def test_a_pattern_of_the_rust_engine_is_the_types(pattern: str) -> None:
    python_type = Annotated[str, StringConstraints(pattern=pattern)]
    try:
        adapter = TypeAdapter(python_type)
    except pydantic.errors.PydanticUserError:
        assume(False)
    except Exception as error:
        assert "regex" in str(error)
        assume(False)
    check(adapter, python_type)


@many
@given(pattern=patterns(BOTH + PYTHON, GROUPS), flags=st.sampled_from(FLAGS))
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_compiled_pattern_is_the_types_with_its_flags(pattern: str, flags: int) -> None:
    try:
        python_type = Annotated[str, StringConstraints(pattern=re.compile(pattern, flags))]
    except re.error:
        assume(False)
    check(TypeAdapter(python_type), python_type)


class ByPython(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")

    name: Annotated[str, StringConstraints(pattern=r"^(?=[A-Zé])\w[^[]+\Z")]


class Stripped(BaseModel):
    name: Annotated[str, StringConstraints(pattern=re.compile("^a  b", re.X), strip_whitespace=True)]


class Keys(BaseModel):
    name: dict[Annotated[str, StringConstraints(pattern="^[[:upper:]]{2}$")], None]


TYPES: list[tuple[Any, list[Any]]] = [
    (Annotated[str, StringConstraints(pattern=re.compile("^a b$", re.X))], ["ab", "a b", "xab"]),
    (Annotated[str, StringConstraints(pattern="^[[:upper:]]{2}$")], ["AB", "[:", ":]", "up", "u:"]),
    (Annotated[str, StringConstraints(pattern=r"^[\w .'-]{2,40}$")], ["José", "O'Hara", "J", "J!"]),
    (Annotated[str, pydantic.Field(pattern=r"^\d\s?€$")], ["5€", "٣\u2003€", "a€"]),
    (Annotated[str, StringConstraints(pattern=re.compile(r"^(?=.*\d)(?!.*--)[a-z\d-]{3,}$"))], ["ab1", "abc", "a--1"]),
    (ByPython, [{"name": "Éva"}, {"name": "éva"}, {"name": "Eva"}, {"name": "eva"}, {"name": "E[a"}]),
    (Stripped, [{"name": "ab"}, {"name": "a b"}, {"name": "abc"}]),
    (Keys, [{"name": {"AB": None}}, {"name": {"up": None}}, {"name": {}}]),
]


@pytest.mark.parametrize("number", range(len(TYPES)))
def test_masks_and_types_accept_the_same(engine: Engine, number: int) -> None:
    python_type, values = TYPES[number]
    plan = plan_of(engine, response_format=python_type)
    assert not [row for row in plan.schema_report.rows if row.outcome == "relaxed"]
    found = []
    for value in values:
        text = json.dumps(value, ensure_ascii=False)
        try:
            TypeAdapter(python_type).validate_json(text)
        except pydantic.ValidationError:
            found.append(False)
        else:
            found.append(True)
        assert accepts(plan, engine, text, "after") == found[-1], text
    assert set(found) == {False, True}


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (re.compile(r"(a)\1"), "a back-reference is not supported"),
        (r"\p{Greek}+", r"\p{Greek}"),
        (r"\b{start}a", "word boundaries"),
        (r"\bword\b", "beyond ASCII"),
    ],
)
def test_what_is_left_to_the_type_has_a_row(pattern: Any, said: str) -> None:
    _, (row,) = schema_of_type(Annotated[str, StringConstraints(pattern=pattern)])
    assert (row.keyword, row.outcome.value) == ("pattern", "relaxed")
    assert said in row.reason
