"""Shortest answers judged by brute force: a schema with a small instance has one that is hardly longer."""

from __future__ import annotations

import itertools
import json
import random
from functools import cache
from typing import Any

import jsonschema
import pytest

from grammars.values.constraints import JsonSchema
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens, shortest
from guided.validation.validate import judge
from special_tokens.errors import GuidedError
from tests.cases import seeds
from tests.judges.plans import END, plan_of, walk

_PATTERNS = ("a", "^b", "b$", "^(a|b)+$", "^[ab]{2}$", "^(ab)*$", "[0-9]")
_SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, 2, "", "a", "b", "ab", "ba", "aa", "bb", "a1", "1", "aba")
_KEYS = ("", "a", "b", "ab", "ba", "1")


@cache
def small_values() -> tuple[Any, ...]:
    """Small JSON values, the shortest first."""
    below = (None, True, 0, 1, "", "a", "b", "ab", [], {})
    found: list[Any] = [*_SCALARS]
    for size in range(4):
        found += map(list, itertools.product(below if size < 3 else below[2:8], repeat=size))
        for keys in itertools.combinations(_KEYS, size):
            values = itertools.product(below if size < 2 else below[2:7], repeat=size)
            found += [dict(zip(keys, each, strict=True)) for each in values]
    return tuple(sorted(found, key=lambda value: len(json.dumps(value))))


def schema_of(chance: random.Random, depth: int = 0) -> Any:
    match chance.randrange(6 if depth < 2 else 4):
        case 0:
            return {"enum": chance.sample(_SCALARS, chance.randint(1, 5))}
        case 1:
            return {"type": "string", "pattern": chance.choice(_PATTERNS)}
        case 2:
            return {"type": chance.choice(["integer", "boolean", "string", "null"])}
        case 3:
            return {"type": "string", "minLength": chance.randint(0, 2)}
        case 4:
            return {
                "type": "array",
                "items": schema_of(chance, depth + 1),
                "minItems": chance.randint(0, 3),
                "uniqueItems": chance.random() < 0.7,
            }
    schema: dict[str, Any] = {"type": "object", "minProperties": chance.randint(0, 3)}
    listed = {key: schema_of(chance, depth + 1) for key in chance.sample(_KEYS, chance.randint(0, 2))}
    if listed:
        schema |= {"properties": listed, "required": chance.sample(sorted(listed), chance.randint(0, len(listed)))}
    if chance.random() < 0.7:
        schema["additionalProperties"] = schema_of(chance, depth + 1)
    if chance.random() < 0.3:
        schema["propertyNames"] = {"pattern": chance.choice(_PATTERNS)}
    return schema


@pytest.mark.parametrize("seed", seeds(10, default=4))
def test_what_has_a_small_instance_has_an_answer_hardly_longer(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    longer = []
    for _ in range(20):
        schema = schema_of(chance)
        validator = jsonschema.Draft202012Validator(schema)
        instance = next(filter(validator.is_valid, small_values()), None)
        if instance is None:
            continue
        try:
            plan = plan_of(engine, response_format=JsonSchema(schema))
        except GuidedError as error:
            pytest.fail(f"{schema}: {error}")
        text = shortest(plan, engine)
        assert text is not None, (schema, instance)
        assert walk(plan, engine, text + END, entry="after").is_whole, (schema, text)
        verdicts = {verdict.is_valid for verdict in judge(schema, json.loads(text))}
        assert verdicts <= {True, None} or plan.response.report.relaxed, (schema, text)
        longer.append(min_tokens(plan, engine, entry="after") - len(engine.tokenize(json.dumps(instance))) - 1)
    assert len(longer) >= 10
    assert max(longer) <= 10
    assert sum(more > 0 for more in longer) <= 0.2 * len(longer)


@pytest.mark.parametrize("seed", seeds(60, default=8))
def test_keys_in_any_order_make_an_answer_hardly_longer(engine: Engine, seed: int) -> None:
    """Found with many members: the search tried all their orders."""
    chance = random.Random(f"any order {seed}")
    members: dict[str, Any] = {f"k{i}": schema_of(chance, 2) for i in range(chance.choice([1, 3, 12, 40]))}
    for key in chance.sample([*members], len(members) // 3):
        members[key] = {"type": "array", "items": members[key], "minItems": chance.randint(0, 2)}
    schema = {
        "type": "object",
        "properties": members,
        "required": chance.sample([*members], chance.randint(0, len(members))),
        "additionalProperties": chance.choice([False, {"type": "integer"}]),
    }
    found = []
    for order in ("schema", "any"):
        plan = plan_of(engine, response_format=JsonSchema(schema, key_order=order), thinking=False)
        text = shortest(plan, engine)
        assert text is not None, (order, schema)
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        found.append(min_tokens(plan, engine))
    assert found[1] <= found[0] + 10
