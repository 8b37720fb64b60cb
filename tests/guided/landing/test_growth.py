"""The bound on the bytes by which tokens lengthen the way, and formats in which there is none."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import guided
from grammars.values.constraints import JsonSchema
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from guided.landing.growth import growth_bound
from guided.rows.answer import read_answer
from tests.cases import seeds, slow_where
from tests.guided.landing.test_control import landed, row_of, step
from tests.guided.landing.test_landing import KINDS, TREE, ended, made
from tests.judges.plans import FORMAT, drawn, plan_of
from tests.made_up.wire_forms import FORMS

#: A schema, an open answer, and a text after which the shortest end is longer; the bound must hold each time.
GROWN = [
    ({"type": "object", "properties": {"a": {"enum": ["x", "a long text"]}}}, "{", '"a": "a'),
    ({"type": "array", "items": {"type": "array", "minItems": 9}}, "[", "[[["),
    ({"anyOf": [{"type": "null"}, {"const": "some text that is much longer"}]}, "", '"'),
    ({"type": "object", "dependentRequired": {"a": ["first name", "last name"]}}, "{", '"a": 1'),
    ({"type": "object", "properties": {"name": {"type": "string", "minLength": 30}},
      "anyOf": [{"required": ["name"]}, {"required": ["b"]}]}, "{", '"name"'),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {
        "kid": {"$ref": "#/$defs/n"}, "value": {"type": "integer", "minimum": 10_000}}, "required": ["value"]}}},
     "{", '"kid": {"kid": {'),
    ({"anyOf": [{"type": "null"}, {"type": "object", "minProperties": 2, "additionalProperties": {
        "type": "string", "minLength": 40}}]}, "", "{"),
    ({"type": "object", "patternProperties": {"^[0-9]{64}$": {}}, "additionalProperties": False}, "{", '"1'),
    ({"type": "string", "pattern": "^a(\\x01{60})?$"}, '"a', "\\u0001"),
    ({"type": "string", "pattern": "^x((((ab){9}){9}){3})?$"}, '"x', "a"),
    ({"type": "string", "pattern": "^a(-[0-9]{30})?$"}, '"a', "-"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "before", "text"), GROWN, ids=[text for _, _, text in GROWN])
def test_no_text_lengthens_the_way_by_more_than_the_bound(
    engine: Engine, schema: dict[str, Any], before: str, text: str
) -> None:
    plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    ends = []
    for answer in (before, before + text):
        state, landing = ended(plan, engine, answer)
        assert landing.tokens is not None
        ends.append(sum(len(state.regions.symbols(token)) for token in landing.tokens))
    growth = growth_bound(plan, 0)
    assert growth.is_seen
    assert growth.is_sure
    assert 0 < ends[1] - ends[0] <= growth.most + growth.of(text.encode())


#: Two kinds of brackets that look alike until the innermost text says which they are; one needs long texts to close.
TWO_KINDS = f'start: p | q\np: "(" p ")" | "p"\nq: "(" q "{"x" * 40}" | "q"'
BINARY = {"anyOf": [{"$ref": "#/$defs/p"}, {"$ref": "#/$defs/q"}], "$defs": {
    name: {"type": "object", "properties": {"k": {"anyOf": [{"$ref": f"#/$defs/{name}"}, {"const": name}]}, **more},
           "required": ["k", *more], "additionalProperties": False}
    for name, more in (("p", {}), ("q", {"z": {"type": "string", "minLength": 30}}))}}  # fmt: skip
NULLABLE = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
NOT_NAMES = {"type": "object", "not": {"propertyNames": {"pattern": "a"}}}


@pytest.mark.parametrize(
    ("response_format", "opening", "free", "costly"),
    [(guided.Lark(TWO_KINDS), "(", "p", "q"), (JsonSchema(BINARY), '{"k": ', '"p"', '"q"')],
    ids=["lark", "json"],
)  # fmt: skip
def test_a_token_that_decides_what_all_open_brackets_need_is_refused(
    engine: Engine, response_format: Any, opening: str, free: str, costly: str
) -> None:
    plan = plan_of(engine, replace(FORMAT, reasoning=None), response_format=response_format)
    most = min_tokens(plan, engine) + 300
    row = row_of(plan, engine, most)
    landing = row.landing
    assert landing is not None
    for token in engine.tokenize(opening * 12):
        assert row.is_landing()
        assert row.lands(token, landing.step_effort())
        row.extend([token])
    last, other = engine.tokenize(costly)[:2][-1], engine.tokenize(free)[:2][-1]
    if costly.startswith('"'):
        row.extend(engine.tokenize('"'))
    assert row.is_landing()
    assert not row.lands(last, landing.step_effort())
    assert row.lands(other, landing.step_effort())
    chance = random.Random(1)
    while not row.is_done and row.num_tokens < most:
        step(row, chance)
    assert row.state.is_stopped


def tagged(content: dict[str, Any]) -> dict[str, Any]:
    format = {"type": "tag", "begin": "<a>", "end": "</a>", "content": content}
    return {"response_format": guided.StructuralTag({"type": "structural_tag", "format": format})}


@pytest.mark.parametrize(
    ("parts", "is_sure"),
    [
        (KINDS["lark"], False),
        (KINDS["gbnf"], False),
        ({"response_format": JsonSchema(TREE)}, True),
        ({"response_format": JsonSchema(NULLABLE)}, True),
        ({"response_format": JsonSchema(BINARY)}, False),
        ({"response_format": JsonSchema(NOT_NAMES)}, False),
        ({"response_format": JsonSchema({"anyOf": [{"type": "object"}, {"type": "array"}]})}, True),
        ({"response_format": JsonSchema({"type": "array", "contains": {"const": 1}})}, False),
        ({"response_format": JsonSchema({"type": "string", "pattern": "^[a-z]{3}-[0-9]+$"})}, True),
        ({"response_format": JsonSchema({"type": "string", "pattern": "^(.+)/(.+)$"})}, False),
        ({"response_format": guided.Regex("(yes|no)")}, True),
        ({"response_format": guided.Regex(".{0,9}!")}, False),
        (KINDS["structural tag"], True),
        (tagged({"type": "json_schema", "json_schema": BINARY}), False),
        (tagged({"type": "regex", "pattern": "[a-z]+!"}), False),
        (tagged({"type": "grammar", "grammar": 'root ::= "a" root | "b"'}), False),
        (
            {
                "response_format": {
                    "type": "structural_tag",
                    "triggers": ["<f"],
                    "structures": [{"begin": "<f>", "schema": BINARY, "end": "</f>"}],
                }
            },
            False,
        ),
    ],
)
def test_a_bound_is_sure_where_no_choice_is_made_late_in_what_recurs(
    engine: Engine, parts: dict[str, Any], is_sure: bool
) -> None:
    assert growth_bound(plan_of(engine, **parts), 0).is_sure == is_sure


@pytest.mark.parametrize("extra", [290, 300, 330, 360])
def test_one_token_that_meets_several_conditions_is_tried(engine: Engine, extra: int) -> None:
    names = [f"x{i}" for i in range(14)]
    asked = [{"if": {"properties": {"kind": {"const": "b"}}}, "then": {"required": [name]}} for name in names]
    members = {name: {"type": "string", "pattern": "^[0-9]{40}$"} for name in names}
    schema = {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, **members}, "required": ["kind"],
              "additionalProperties": False, "allOf": asked}  # fmt: skip
    plan = plan_of(engine, replace(FORMAT, reasoning=None), response_format=JsonSchema(schema))
    most = min_tokens(plan, engine) + extra
    row, chance = row_of(plan, engine, most), random.Random(extra)
    for token in engine.tokenize('{"kind": "b"'):
        if row.is_landing() and row.landing is not None and not row.lands(token, row.landing.step_effort()):
            break
        row.extend([token])
    while not row.is_done and row.num_tokens < most:
        step(row, chance)
    assert row.state.is_stopped


@pytest.mark.parametrize("kind", ["lark", "gbnf", "two kinds"])
@pytest.mark.parametrize("seed", range(3))
def test_far_from_the_budget_tried_tokens_are_those_without_landing(engine: Engine, kind: str, seed: int) -> None:
    plan = (
        made(engine, kind)
        if kind != "two kinds"
        else plan_of(engine, response_format=guided.Lark(TWO_KINDS.replace("x" * 40, "x")), thinking=False)
    )
    row, chance = row_of(plan, engine, 20_000), random.Random(seed)
    for _ in range(150):
        if row.is_done:
            break
        mask = row.token_mask()
        assert mask is not None
        wanted = next(drawn(allowed_ids(mask.words), engine, chance))
        assert row.is_landing()
        assert row.landing is not None
        assert row.lands(wanted, row.landing.step_effort())
        row.extend([wanted])


#: Texts that users' patterns accept; a token may end inside a character, and one byte seldom shows what is missing.
ACCEPTED = [
    (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "ada.lovelace@mail.example.com"),
    (r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$", "ada@example.com"),
    (r"https?://.+\.html", "see https://example.com/a/b.html?x=1"),
    (r"^.+ - .+$", "Añb 🎉 - 日本"),
    (r"^[^,]+, [^,]+, [A-Z]{2} \d{5}$", "12 Main St, São Paulo, CA 12345"),
    (r"^.*\d{4}$", "in the year 1815, or 1843"),
]


@pytest.mark.parametrize(("pattern", "text"), ACCEPTED)
@pytest.mark.parametrize("place", ["alone", "optional", "item"])
def test_a_text_that_a_pattern_accepts_can_be_written_far_from_the_budget(
    engine: Engine, pattern: str, text: str, place: str
) -> None:
    schema: dict[str, Any] = {"type": "string", "pattern": pattern}
    answer: Any = text
    if place == "optional":
        schema, answer = {"type": "object", "properties": {"a": {"type": "integer"}, "t": schema}}, {"t": text}
    elif place == "item":
        schema, answer = {"type": "array", "items": schema}, [text, text]
    plan = plan_of(engine, replace(FORMAT, reasoning=None), response_format=JsonSchema(schema))
    row = row_of(plan, engine, min_tokens(plan, engine) + 300)
    for token in engine.tokenize(json.dumps(answer, ensure_ascii=False)):
        assert row.is_landing()
        assert row.landing is not None
        assert row.lands(token, row.landing.step_effort()), engine.token_bytes(token)
        row.extend([token])
    assert row.state.is_accepting


_TERMS = ('"("', '")"', '"["', '"]"', '"if"', '"end"', '"->"', '"!"', "/[a-z]+/", "/[0-9]+/", "/[a-z]{2,5}/", '"begin"')


def ambiguous_grammar(chance: random.Random) -> str:
    """A grammar of a few rules, most of whose texts can be read in several ways; the last alternative of each ends."""
    names = [f"r{i}" for i in range(chance.randint(2, 5))]
    lines = [f"start: {names[0]}"]
    for name in names:
        alternatives = []
        for _ in range(chance.randint(1, 3)):
            items = [chance.choice(_TERMS if chance.random() < 0.6 else names) for _ in range(chance.randint(1, 4))]
            alternatives.append(
                " ".join(f"({item}){chance.choice('*+?')}" if chance.random() < 0.25 else item for item in items)
            )
        alternatives.append(" ".join(chance.choice(_TERMS) for _ in range(chance.randint(1, 3))))
        lines.append(f"{name}: {' | '.join(alternatives)}")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", seeds(60, default=6))
def test_random_grammars_land(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    try:
        plan = plan_of(engine, response_format=guided.Lark(ambiguous_grammar(chance)), thinking=False)
        min_tokens(plan, engine)
    except guided.GuidedError:
        pytest.skip("no text is in the grammar")
    assert list(landed(plan, engine, chance, (30, 150)))


def wide_schema(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema of keywords that decide late what a value needs, or whose text the bytes allowed do not show."""
    inner = lambda: wide_schema(chance, depth + 1)  # noqa: E731
    kinds = ("object", "array", "choice", "condition", "map", "dependent", "again") if depth < 3 else ()
    match chance.choice((*kinds, "string", "number", "listed")):
        case "object":
            names = chance.sample(["a", "name", "items", "kind"], chance.randint(1, 4))
            needed = [name for name in names if chance.random() < 0.5]
            return {"type": "object", "properties": {name: inner() for name in names}, "required": needed,
                    **chance.choice([{"additionalProperties": False}, {"minProperties": 2}])}  # fmt: skip
        case "array":
            more = {"contains": inner(), "minContains": chance.randint(1, 2)} if chance.random() < 0.3 else {}
            return {"type": "array", "items": inner(), "minItems": chance.choice([0, 3]), **more}
        case "choice":
            return {"anyOf": [inner() for _ in range(chance.randint(2, 3))]}
        case "condition":
            kind = {"properties": {"kind": {"const": "q"}}}
            return {"type": "object", "properties": {"kind": {"enum": ["p", "q"]}}, "required": ["kind"], "if": kind,
                    "then": {"required": ["w"], "properties": {"w": inner()}}}  # fmt: skip
        case "map":
            return {"type": "object", "patternProperties": {"^x[0-9]+$": inner()}, "additionalProperties": inner()}
        case "dependent":
            return {"type": "object", "properties": {"a": inner(), "b": inner()}, "dependentRequired": {"a": ["b"]},
                    "dependentSchemas": {"b": {"required": ["z"], "properties": {"z": inner()}}}}  # fmt: skip
        case "again":
            return {"$ref": "#/$defs/n"}
        case "string":
            patterns = ["^(x|y(ab){30})$", "^.*b!$", "end", "^[a-z ]+(-[0-9]{9}){2}$"]
            return {"type": "string", **chance.choice([{"minLength": 30}, {"pattern": chance.choice(patterns)}])}
        case "number":
            return {"type": "integer", **chance.choice([{"minimum": 10**6}, {"multipleOf": 77}])}
    return {"enum": chance.sample([1, "x", None, "a long text to write that goes on", [1, 2, 3], {"k": "v"}], 2)}


@pytest.mark.parametrize("seed", seeds(200, default=12))
def test_random_schemas_land_with_room_to_spare(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    schema = {**wide_schema(chance), "$defs": {"n": wide_schema(chance, 1)}}
    try:
        plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    except guided.GuidedError:
        pytest.skip("no value is valid")
    for row, tokens in landed(plan, engine, chance, (3, 40, 200)):
        message = read_answer(tokens, plan, engine, sequence=row)
        assert plan.schema_report.relaxed or not message.violations


MAP = {"type": "object", "minProperties": 3, "additionalProperties": {"type": "boolean"}}


@pytest.mark.parametrize("form", slow_where(lambda form: form not in sorted(FORMS)[::4], sorted(FORMS)))
@pytest.mark.parametrize("seed", seeds(20, default=1))
def test_random_parameters_of_calls_land(engine: Engine, form: str, seed: int) -> None:
    """Keys and items must differ in calls as well, on the ways after them too."""
    chance = random.Random(seed)
    for schema in (MAP, wide_schema(chance, 1)):
        parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
        tool = {"type": "function", "function": {"name": "f", "parameters": {**parameters, "$defs": {"n": MAP}}}}
        like = replace(FORMAT, tool_calls=FORMS[form], reasoning=None)
        try:
            plan = plan_of(engine, like, tools=[tool], tool_choice="required")
            min_tokens(plan, engine)
        except guided.GuidedError:
            assert schema is not MAP
            continue  # no value is valid, or none was found
        assert list(landed(plan, engine, chance, (5, 20, 60)))


def test_most_random_formats_have_a_least_number_of_tokens(engine: Engine) -> None:
    """So that the tests above are not all skipped; a step's work is bounded by places."""
    found = 0
    for seed in range(20):
        chance = random.Random(seed)
        schema = {**wide_schema(chance), "$defs": {"n": wide_schema(chance, 1)}}
        for wanted in (JsonSchema(schema), guided.Lark(ambiguous_grammar(random.Random(seed)))):
            with suppress(guided.GuidedError):
                plan = plan_of(engine, response_format=wanted, thinking=False)
                row = row_of(plan, engine, min_tokens(plan, engine) + 500)
                assert row.landing is not None
                assert row.landing.step_effort().left <= 600
                found += 1
    assert found >= 32
