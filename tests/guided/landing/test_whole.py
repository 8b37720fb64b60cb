"""The law of whole: an answer ends within any budget that can hold one, by tokens that are tried or by masks alone."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

import guided
from grammars.plan.plan import Plan
from grammars.values.constraints import JsonSchema
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from guided.rows.answer import read_answer
from tests.cases import seeds, slow_where
from tests.guided.landing import test_mask_landing as masks
from tests.guided.landing.test_control import BUDGETS, FEW, landed, row_of, written
from tests.guided.landing.test_landing import KINDS, check_value, made
from tests.judges.plans import FORMAT, PLAIN, plan_of
from tests.made_up.schemas import closed, having
from tests.made_up.wire_forms import FORMS

#: How a host lands: it tries the tokens that it samples, or sees the masks alone.
WAYS = {"tried": (row_of, written), "masks": (masks.row_of, masks.sampled)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize("kind", slow_where(lambda kind: kind not in FEW, KINDS))
def test_an_answer_is_whole_within_any_budget_that_can_hold_one(engine: Engine, kind: str, seed: int, way: str) -> None:
    plan, chance = made(engine, kind), random.Random(f"{kind} {seed}")
    for _, tokens in landed(plan, engine, chance, BUDGETS if seed else chance.sample(BUDGETS, 3), *WAYS[way]):
        check_value(plan, engine, tokens)


def random_schema(chance: random.Random, wide: bool, depth: int = 0) -> dict[str, Any]:
    """A schema; a wide one decides late what a value needs, or the bytes allowed do not show the text of its values."""
    inner = lambda: random_schema(chance, wide, depth + 1)  # noqa: E731
    nested = ["object", "object", "array", "choice", *(("condition", "map", "dependent", "again") if wide else ())]
    match chance.choice([*(nested if depth < 3 else ()), "string", "number", "listed"]):
        case "object":
            names = chance.sample(["a", "name", "items", "kind", "long name"], chance.randint(0, 4))
            optional = [name for name in names if chance.random() < 0.4]
            others = [
                {"additionalProperties": False},
                {"additionalProperties": {"type": "integer"}},
                {"minProperties": 2},
            ]
            return having({name: inner() for name in names}, optional) | chance.choice(others)
        case "array":
            more = {"contains": inner(), "minContains": chance.randint(1, 2)} if wide and chance.random() < 0.3 else {}
            unique = {"uniqueItems": True} if chance.random() < 0.2 else {}
            return {"type": "array", "items": inner(), "minItems": chance.randint(0, 4), **more, **unique}
        case "choice":
            return {"anyOf": [inner() for _ in range(chance.randint(2, 3))]}
        case "condition":
            kind = {"properties": {"kind": {"const": "q"}}}
            return having({"kind": {"enum": ["p", "q"]}}) | {"if": kind, "then": having({"w": inner()})}
        case "map":
            return {"type": "object", "patternProperties": {"^x[0-9]+$": inner()}, "additionalProperties": inner()}
        case "dependent":
            return having({"a": inner(), "b": inner()}, optional=["a", "b"]) | {
                "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"b": having({"z": inner()})}}  # fmt: skip
        case "again":
            return {"$ref": "#/$defs/n"}
        case "string":
            late = ["^(x|y(ab){30})$", "^.*b!$", "end", "^[a-z ]+(-[0-9]{9}){2}$"]
            patterns = ["^[a-f]{3}(-[0-9]{12})?$", *(late if wide else ())]
            limits = [{}, {"minLength": 9}, {"minLength": 30}, *({"pattern": pattern} for pattern in patterns)]
            return {"type": "string", **chance.choice(limits)}
        case "number":
            limits = [{"minimum": -5}, {"minimum": 10**6}, {"multipleOf": 77}]
            return {"type": chance.choice(["integer", "number"]), **chance.choice(limits)}
    return {"enum": chance.sample([1, "x", None, "a long text to write that goes on", [1, 2, 3], {"k": "v"}], 2)}


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


def random_plan(engine: Engine, chance: random.Random, schema: Any) -> Plan:
    """A plan of the schema: of a response, of a part of one, or of the parameters of tools."""
    tag = {"type": "tag", "begin": "<a>", "end": "</a>", "content": {"type": "json_schema", "json_schema": schema}}
    tagged = guided.StructuralTag({"type": "structural_tag", "format": tag})
    lark = guided.Lark(f'start: "<a>" %json {json.dumps(schema)} "</a>"')
    if chance.random() < 0.6:
        response = chance.choice([JsonSchema(schema), JsonSchema(schema), tagged, lark])
        return plan_of(engine, response_format=response, thinking=False)
    names = chance.sample(["look", "send_message", "a", "compute"], chance.randint(1, 3))
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]
    form = replace(FORMAT, tool_calls=FORMS[chance.choice(list(FORMS))])
    return plan_of(engine, form, tools=tools, tool_choice=chance.choice(["required", "auto"]), thinking=False)


def _without(schema: Any, keywords: set[str]) -> Any:
    if isinstance(schema, list):
        return [_without(part, keywords) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without(part, keywords) for key, part in schema.items() if key not in keywords}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", seeds(300, default=12))
def test_answers_of_random_schemas_are_whole(engine: Engine, seed: int, way: str) -> None:
    chance, num_landed = random.Random(seed), 0
    wide = way == "tried"  # by masks alone, some answers under wide schemas do not end in time
    for _ in range(5):
        schema = closed({"a": random_schema(chance, wide), "b": random_schema(chance, wide)}, optional=["a"])
        schema["$defs"] = {"n": having({"next": random_schema(chance, wide, 1)}, optional=["next"])}
        try:
            plan = random_plan(engine, chance, schema)
            min_tokens(plan, engine)
        except guided.GuidedError:
            continue  # no value is valid, the syntax cannot write it, or none was found
        relaxed = {row.keyword for report in (plan.schema_report, plan.tool_report) for row in report.relaxed}
        for row, tokens in landed(plan, engine, chance, chance.sample([*BUDGETS, 200], 3), *WAYS[way]):
            num_landed += 1
            message = read_answer(tokens, plan, engine, sequence=row)
            assert message.unfinished is None
            content = (message.content or "").removeprefix("<a>").removesuffix("</a>")
            for text in [call.arguments for call in message.tool_calls] if plan.tools else [content]:
                jsonschema.validate(json.loads(text), _without(schema, relaxed))
    assert num_landed >= 3


@pytest.mark.parametrize("seed", seeds(60, default=8))
def test_texts_of_random_grammars_are_whole(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    try:
        plan = plan_of(engine, response_format=guided.Lark(ambiguous_grammar(chance)), thinking=False)
        min_tokens(plan, engine)
    except guided.GuidedError:
        pytest.skip("no text is in the grammar")
    assert list(landed(plan, engine, chance, (3, 30, 150)))


#: Two kinds of brackets that look alike until the innermost text says which they are; one needs long texts to close.
TWO_KINDS = f'start: p | q\np: "(" p ")" | "p"\nq: "(" q "{"x" * 40}" | "q"'
BINARY = {"anyOf": [{"$ref": "#/$defs/p"}, {"$ref": "#/$defs/q"}], "$defs": {
    name: closed({"k": {"anyOf": [{"$ref": f"#/$defs/{name}"}, {"const": name}]}, **more})
    for name, more in (("p", {}), ("q", {"z": {"type": "string", "minLength": 30}}))}}  # fmt: skip
#: One key must match several patterns at once: after some of its characters no short search finds the rest.
ONE_KEY = {"type": "object", "maxProperties": 1, "allOf": [
    *({"not": {"propertyNames": {"not": {"pattern": p}}}} for p in ("a5b", "(^[^5]*$)|7", "(^[^7]*$)|9")),
    {"propertyNames": {"pattern": "^([a-z][0-9])+$"}}]}  # fmt: skip
#: One token meets many conditions, each of which asks for a member of forty digits.
CONDITIONS = closed(
    {
        "kind": {"enum": ["a", "b"]},
        **(digits := {f"x{i}": {"type": "string", "pattern": "^[0-9]{40}$"} for i in range(14)}),
    },
    optional=[*digits],
) | {"allOf": [{"if": {"properties": {"kind": {"const": "b"}}}, "then": {"required": [name]}} for name in digits]}
#: Responses, and texts of theirs after which the shortest end may be far longer than before.
COSTLY: list[tuple[Any, str]] = [
    (having({"a": {"enum": ["x", "a long text"]}}, optional="a"), '{"a": "a'),
    ({"type": "array", "items": {"type": "array", "minItems": 9}}, "[[[["),
    ({"anyOf": [{"type": "null"}, {"const": "some text that is much longer"}]}, '"'),
    ({"type": "object", "dependentRequired": {"a": ["the first name of the owner", "the last name of the owner"]}},
     '{"a": 1'),
    (having({"name": {"type": "string", "minLength": 30}}, optional=["name"]) |
     {"anyOf": [{"required": ["name"]}, {"required": ["b"]}]}, '{"name"'),
    ({"$ref": "#/$defs/n", "$defs": {"n": having({"kid": {"$ref": "#/$defs/n"}, "value": {
        "type": "integer", "minimum": 10_000}}, optional=["kid"])}}, '{"kid": {"kid": {'),
    ({"anyOf": [{"type": "null"}, {"type": "object", "minProperties": 2, "additionalProperties": {
        "type": "string", "minLength": 40}}]}, "{"),
    ({"type": "object", "patternProperties": {"^[0-9]{64}$": {}}, "additionalProperties": False}, '{"1'),
    ({"type": "string", "pattern": "^a(\\x01{60})?$"}, '"a\\u0001'),
    ({"type": "string", "pattern": "^x((((ab){9}){9}){3})?$"}, '"xa'),
    ({"type": "string", "pattern": "^a(-[0-9]{30})?$"}, '"a-'),
    ({"type": "array", "items": having({f"key_number_{i}": {"type": "integer"} for i in range(30)})}, "[{"),
    (ONE_KEY, '{"a5'),
    (CONDITIONS, '{"kind": "b"'),
    (BINARY, '{"k": ' * 12 + '"q"'),
    (guided.Lark(TWO_KINDS), "(" * 12 + "q"),
]  # fmt: skip


@pytest.mark.parametrize("extra", [0, 20, 100, 300, None])
@pytest.mark.parametrize(("response", "text"), COSTLY, ids=[text for _, text in COSTLY])
def test_what_asks_for_more_than_is_left_is_not_begun(
    engine: Engine, response: Any, text: str, extra: int | None
) -> None:
    """Without a number, with hardly more than the room in which tokens are tried: the text is only counted."""
    plan, chance, tokens = plan_of(engine, PLAIN, response_format=response), random.Random(text), engine.tokenize(text)
    least = min_tokens(plan, engine)
    if extra is None:
        extra = row_of(plan, engine, 5_000).landing.margin + len(tokens) + 1  # type: ignore[union-attr]
    row = row_of(plan, engine, least + extra)
    for token in tokens:
        if row.is_landing() and row.landing is not None and not row.lands(token, row.landing.step_effort()):
            break
        row.extend([token])
    written(row, chance, least + extra - row.num_tokens)
    assert row.state.is_stopped


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
    plan = plan_of(engine, PLAIN, response_format=JsonSchema(schema))
    row = row_of(plan, engine, min_tokens(plan, engine) + 300)
    for token in engine.tokenize(json.dumps(answer, ensure_ascii=False)):
        assert row.is_landing()
        assert row.landing is not None
        assert row.lands(token, row.landing.step_effort()), engine.token_bytes(token)
        row.extend([token])
    assert row.state.is_accepting
