"""Shortest texts of strings with patterns: legal and valid, whatever the pattern."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grammars.values.constraints import JsonSchema
from guided.engine.engine import Engine
from guided.inspect.shortest import shortest
from guided.validation.validate import judge
from special_tokens.errors import GuidedError
from tests.cases import seeds
from tests.judges.plans import END, plan_of, walk

#: A pattern and how many characters its shortest string has.
PATTERNS = {
    r"\S": 1,
    r"^\s*\S": 1,
    r"\bfoo\b": 3,
    r"^(?=.*[A-Z]).{8,}$": 8,
    r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,}$": 8,
    r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[^\da-zA-Z]).{8,64}$": 8,
    "\U0001f600": 1,
    "^[\U0001f600\U0001f60e]$": 1,
    r"^[\x00-\x1f]$": 1,
    r"^\$$": 1,
    r"^a|b$": 1,
}


def held(engine: Engine, schema: Any) -> str:
    """The text that the plan holds, which is legal, and which both validators find valid."""
    plan = plan_of(engine, response_format=JsonSchema(schema))
    text = shortest(plan, engine)
    assert walk(plan, engine, text + END, entry="after").is_whole, text
    assert all(verdict.is_valid is not False for verdict in judge(schema, json.loads(text))), text
    return text


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_string_of_a_pattern_has_a_shortest_text(engine: Engine, pattern: str) -> None:
    for schema in ({"pattern": pattern}, {"pattern": pattern, "minLength": 1}):
        assert len(json.loads(held(engine, {"type": "string", **schema}))) == PATTERNS[pattern]


def test_a_long_text_is_held(engine: Engine) -> None:
    assert len(json.loads(held(engine, {"type": "array", "minItems": 1500}))) == 1500
    ids = {"type": "array", "minItems": 3, "items": {"type": "string", "format": "uuid"}}
    keys = [f"k{number}" for number in range(20)]
    text = held(engine, {"type": "object", "properties": dict.fromkeys(keys, ids), "required": keys})
    assert list(json.loads(text)) == keys


ATOMS = ["a", "b", ".", r"\d", r"\w", r"\S", r"\s", r"\W", "[a-f]", "[^a]", "[^0-9\n]", "\U0001f600", r"[\x20-\x7e]"]
ATOMS += ["é", r"\.", r"\$", "-", '"', r"\\", "/", r"\t", "[à-ÿ]", "[\U0001f600-\U0001f64f]", r"\u0041", "_"]


def pattern_of(chance: random.Random, depth: int = 2) -> str:
    """A pattern in the way people write them."""
    parts = []
    for _ in range(chance.randint(1, 3)):
        atom = chance.choice(ATOMS)
        if depth and chance.random() < 0.25:
            atom = f"(?:{pattern_of(chance, depth - 1)})"
        parts.append(atom + chance.choice(["", "", "", "?", "*", "+", "{2}", "{1,3}"]))
    text = "".join(parts)
    return f"{text}|{pattern_of(chance, depth - 1)}" if depth and chance.random() < 0.15 else text


def string_of(chance: random.Random) -> dict[str, Any]:
    """A string schema with a pattern, anchored or not, and often more."""
    body = pattern_of(chance)
    ahead = chance.choice(["", "", "", "(?=.*[A-Z])", "(?!.*a)", r"(?=.*\d)"])
    pattern = chance.choice([body, f"^(?:{body})$", f"^(?:{body})", f"(?:{body})$", f"^{ahead}(?:{body}).*$"])
    schema: dict[str, Any] = {"type": "string", "pattern": pattern}
    if chance.random() < 0.3:
        schema["minLength"] = chance.randint(0, 9)
    if chance.random() < 0.1:
        schema["maxLength"] = chance.randint(9, 30)
    return schema


def schema_of(chance: random.Random) -> dict[str, Any]:
    """A string, or strings in objects and arrays."""
    match chance.randint(0, 4):
        case 0:
            properties = {key: string_of(chance) for key in chance.sample("abcdé", 2)}
            return {"type": "object", "properties": properties, "required": sorted(properties)}
        case 1:
            return {"type": "array", "items": string_of(chance), "minItems": chance.randint(0, 3)}
        case 2:
            return {"anyOf": [string_of(chance), string_of(chance)]}
    return string_of(chance)


@pytest.mark.parametrize("seed", seeds(12, default=4))
def test_whatever_text_is_held_is_legal_and_valid(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    num_held = 0
    for _ in range(25):
        schema = schema_of(chance)
        try:
            plan = plan_of(engine, response_format=JsonSchema(schema))
        except GuidedError:
            continue
        assert plan.response is not None
        text = shortest(plan, engine)
        if text is None:
            continue
        num_held += 1
        assert walk(plan, engine, text + END, entry="after").is_whole, (schema, text)
        relaxed = plan.response.report.relaxed
        verdicts = {verdict.is_valid for verdict in judge(schema, json.loads(text))}
        assert relaxed or False not in verdicts, (schema, text)
    assert num_held >= 15


#: Strings in which a search by size alone gives up, or lengths next to patterns, and the size of their shortest text.
INTRICATE: list[tuple[dict[str, Any], int]] = [
    ({"pattern": r"\S", "minLength": 12, "maxLength": 14}, 12),
    ({"pattern": "(?=.*x)", "minLength": 12, "maxLength": 14}, 12),
    ({"pattern": "\\n\\P{L}", "minLength": 4}, 4),
    ({"pattern": "^(ab|cd)*$", "minLength": 500}, 500),
    ({"minLength": 8, "allOf": [{"pattern": each} for each in ("[a-z]", "[A-Z]", "[0-9]", r"[^\w\s]")]}, 8),
    ({"format": "iri", "pattern": "^(?!http).*\\.(png|jpg)(\\?.*)?$", "maxLength": 200}, 6),
    ({"format": "regex", "pattern": "\\d{3}", "not": {"pattern": "[A-Z]{2,3}"}}, 3),
    ({"format": "email", "pattern": "@example\\.(com|org)$"}, len("-@example.com")),
    ({"format": "email", "pattern": "@example\\.(com|org)$", "maxLength": 24}, len("-@example.com")),
    ({"format": "email", "pattern": "^[^@]{10,}@[^@]{10,}$", "maxLength": 30}, 21),
    ({"format": "email", "pattern": "@example\\.(com|org)$", "minLength": 18, "maxLength": 24}, 18),
    ({"pattern": "é(x)?a$", "minLength": 35}, 35),  # letters beyond ASCII, which are tried last
    ({"pattern": "é(ab?c)?a+$", "minLength": 35}, 35),
    ({"pattern": "(東京|大阪)[0-9]+番$", "minLength": 40, "maxLength": 80}, 40),
    ({"pattern": "[一-龥]+[0-9]+[一-龥]+$", "minLength": 60, "maxLength": 80}, 60),
]


@pytest.mark.parametrize(("schema", "size"), INTRICATE)
def test_a_string_that_is_searched_long_has_a_shortest_text(engine: Engine, schema: dict[str, Any], size: int) -> None:
    assert len(json.loads(held(engine, {"type": "string", **schema}))) == size


UNSURE = {"allOf": [{"type": "string", "minLength": 2, "pattern": "^a", "maxLength": 4}, {"type": "string"}]}
LISTS = {"type": "array", "items": {"type": "integer", "minimum": 10}, "minItems": 2}


@pytest.mark.parametrize(
    ("schema", "size"),
    [
        ({"oneOf": [LISTS, UNSURE]}, len('"aa"')),
        ({"anyOf": [LISTS, UNSURE]}, len('"aa"')),
        (
            {"anyOf": [LISTS, {"$ref": "#/$defs/n"}], "$defs": {"n": {"anyOf": [UNSURE, {"$ref": "#/$defs/n"}]}}},
            len('"aa"'),
        ),
        ({"type": "array", "minItems": 1, "items": {"anyOf": [LISTS, UNSURE]}}, len('["aa"]')),
        ({"anyOf": [UNSURE, {"type": "integer"}]}, len("0")),
    ],
)
def test_an_option_that_is_not_understood_may_be_the_shortest(engine: Engine, schema: Any, size: int) -> None:
    assert len(held(engine, schema)) == size
