"""JSON inside structural tags and clients' grammars has a least, and answers with it are whole within any budget."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import guided
from grammars.text_grammars.schemas import PlacedSchema, placed_schemas
from grammars.values.constraints import Llguidance
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from tests.cases import seeds
from tests.guided.landing.test_control import BUDGETS, landed, row_of, written
from tests.judges.plans import plan_of
from tests.made_up.schemas import having

#: Values whose ends a search by bytes alone does not find.
LONG = having({"q": {"type": "string", "minLength": 40}})
EMAIL = having({"q": {"type": "string", "pattern": r"^.+@.+\.[a-z]{2,}$"}})
WORDS = having({"q": {"type": "string", "pattern": "TODO|DONE"}})
MAP = {"type": "object", "patternProperties": {"^[a-z]{5,}_id$": {"type": "string", "minLength": 30}},
       "minProperties": 2, "additionalProperties": False}  # fmt: skip
MANY = having({"a": LONG["properties"]["q"], "b": {"type": "array", "items": {"type": "integer"}, "minItems": 4},
               "c": EMAIL["properties"]["q"]})  # fmt: skip


def _json(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": schema}


def _tag(schema: Any, name: str = "a") -> dict[str, Any]:
    return {"type": "tag", "begin": f"<{name}>", "content": _json(schema), "end": f"</{name}>"}


def _sequence(*elements: Any) -> dict[str, Any]:
    return {"type": "sequence", "elements": list(elements)}


def _text(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


FORMATS: dict[str, dict[str, Any]] = {
    "alone": _json(MANY),
    "long": _tag(LONG),
    "words": _tag(WORDS),
    "map": _tag(MAP),
    "string": _tag({"type": "string", "minLength": 50}),
    "number": _tag({"type": "integer", "minimum": 10**9}),
    "after text": _sequence({"type": "any_text"}, _text("answer: "), _json(MANY)),
    "after a regex": _sequence({"type": "regex", "pattern": "[a-z]+:"}, _json(LONG)),
    "a regex in a tag": {"type": "tag", "begin": "<a>", "end": "</a>",
                         "content": {"type": "regex", "pattern": r"\d+\s+[A-Za-z]+\s+Street"}},
    "many ends": {"type": "or", "elements": [
        {"type": "tag", "begin": f"<{i}>", "end": f"</{i}>",
         "content": {"type": "regex", "pattern": r"\d+\s+[A-Za-z]+\s+Street"}} for i in range(6)]},
    "ends to choose from": {"type": "tag", "begin": "<a>", "end": ["</a>", "</b>"],
                            "content": {"type": "regex", "pattern": r"\d+\s+[A-Za-z]+\s+Street"}},
    "sequence": _sequence(_tag(EMAIL), _tag(MANY, "b")),
    "two values": _sequence(_json(LONG), _json(EMAIL)),
    "repeat": {"type": "repeat", "content": _tag(LONG), "min": 3, "max": 4},
    "or": {"type": "or", "elements": [_tag(MANY), _tag(MANY, "b")]},
    "triggers": {"type": "triggered_tags", "triggers": ["<"], "tags": [_tag(LONG), _tag(EMAIL, "b")],
                 "at_least_one": True},
    "separator": {"type": "tags_with_separator", "tags": [_tag(LONG), _tag(EMAIL, "b")], "separator": "\n",
                  "at_least_one": True},
    "dispatch": {"type": "dispatch", "rules": [["call ", _json(LONG)]]},
}  # fmt: skip


def _lark(rest: str, schema: Any) -> guided.Lark:
    return guided.Lark(rest.replace("JSON", f"%json {json.dumps(schema)}"))


RESPONSES: dict[str, Any] = {
    **{name: guided.StructuralTag({"type": "structural_tag", "format": form}) for name, form in FORMATS.items()},
    "lark": _lark('start: "<a>" JSON "</a>"', LONG),
    "lark alone": _lark("start: JSON", MANY),
    "lark, named": _lark('start: "x: " value\nvalue: "none of it, at all, whatever comes" | JSON', EMAIL),
    "lark, list": _lark('start: "<" (value ";")~2 ">"\nvalue: JSON', MAP),
    "lark, after a suffix": _lark('start: "<think>" t v\nt[suffix="</think>"]: /(.|\\n)*/\nv: JSON', EMAIL),
    "lark, after a lazy rule": _lark("start: t v\nt[lazy]: /(.|\\n)*<\\/end>/\nv: JSON", LONG),
    "lark, after a regex": _lark("start: /[^<]*<\\/end>/ JSON", MANY),
    "llguidance": Llguidance({"grammars": [{"json_schema": MANY}]}),
}


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize("name", RESPONSES)
def test_json_anywhere_is_whole_within_any_budget(engine: Engine, name: str, seed: int) -> None:
    plan = plan_of(engine, response_format=RESPONSES[name], thinking=False)
    chance = random.Random(f"{name} {seed}")
    assert list(landed(plan, engine, chance, (*BUDGETS, 200, 400) if seed else chance.sample(BUDGETS, 3)))


def test_a_marker_before_a_value_is_text_or_a_token(engine: Engine) -> None:
    marker = engine.tokens.text(min(set(engine.tokens.marker_ids) - set(engine.tokens.end_ids)))
    for trusted in (False, True):
        form = {"type": "structural_tag", "format": {**_tag(LONG), "begin": f"<{marker}>"}}
        plan = plan_of(engine, response_format=guided.StructuralTag(form, trusted=trusted), thinking=False)
        assert min_tokens(plan, engine) < 80


@pytest.mark.parametrize("is_first", [True, False])
def test_the_tag_with_the_shorter_value_is_taken(engine: Engine, is_first: bool) -> None:
    """Found in calls as tags: a required key dropped the other tag, and a known text ended the search."""
    to = {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1}
    mail = having(
        {"to": to, "subject": {"type": "string", "minLength": 10}, "body": {"type": "string", "minLength": 60}}
    )
    tags = [_tag(mail, "function send mail")]
    tags.insert(is_first, _tag(having({"city": {"type": "string", "minLength": 1}}), "function get weather"))

    def least(some: list[Any]) -> int:
        section = {"type": "tags_with_separator", "tags": some, "separator": "", "at_least_one": True}
        form = {"type": "tag", "begin": "<calls>", "content": section, "end": "</calls>"}
        form = guided.StructuralTag({"type": "structural_tag", "format": form})
        return min_tokens(plan_of(engine, response_format=form, thinking=False), engine)

    assert least(tags) <= min(least([tag]) for tag in tags) + 2


def test_the_schemas_of_a_source_are_those_that_it_writes() -> None:
    source = json.dumps({"type": "structural_tag", "format": _sequence(
        _tag(LONG), _json(EMAIL), {"type": "plus", "content": _sequence(_json(MAP), _text(";"))}, {"type": "or",
            "elements": [_json(WORDS), {"type": "dispatch", "rules": [["call ", _json(MANY)]]}]})})  # fmt: skip
    assert placed_schemas("structural_tag", source) == (
        PlacedSchema("<a>", LONG), PlacedSchema("</a>", EMAIL), PlacedSchema("", MAP), PlacedSchema(";", MAP),
        PlacedSchema(None, WORDS), PlacedSchema("call ", MANY),
    )  # fmt: skip
    older = {"triggers": ["<f"], "structures": [{"begin": "<f=x>", "schema": LONG, "end": "</f>"}]}
    assert placed_schemas("structural_tag", json.dumps(older)) == (PlacedSchema("<f=x>", LONG),)
    lark = f'start: a | a a "!"\na: "x" b /[0-9]/ b | b\nb: %json {json.dumps(LONG)}'
    assert placed_schemas("lark", lark) == tuple(PlacedSchema(text, LONG) for text in ("x", None, ""))
    assert placed_schemas("lark", 'start: "%json" | start @other "json_schema"') == ()
    assert placed_schemas("gbnf", 'root ::= "%json"') == ()


def test_markers_and_many_values_after_a_value_are_read(engine: Engine) -> None:
    """Both were endless or deep recursion."""
    marker = engine.tokens.text(min(set(engine.tokens.marker_ids) - set(engine.tokens.end_ids)))
    sequence = _sequence(_json({"type": "integer"}), _text(marker), _json({"type": "boolean"}))
    spec = {"type": "structural_tag", "format": sequence}
    many = _lark('start: (JSON ";"){1500}', {"const": True})
    for form in (guided.StructuralTag(spec, trusted=True), many):
        plan = plan_of(engine, response_format=form, thinking=False)
        row = row_of(plan, engine, 12_000)
        written(row, random.Random(0), 60 if form is not many else 20)
        assert row.error is None


def test_sources_that_nest_deeply_are_read_once() -> None:
    """Minutes, or a `RecursionError`, before each place was read once for each text before it."""
    tag: dict[str, Any] = _json(LONG)
    for i in range(40):
        tag = {"type": "star", "content": _sequence(tag, _text(f"a_{i}"))}
    assert PlacedSchema("", LONG) in placed_schemas("structural_tag", json.dumps(tag))
    chain = "\n".join(f"r{i}: r{i + 1}" for i in range(1_500))
    assert placed_schemas("lark", f"start: r0\n{chain}\nr1500: %json {{}}") in ((), (PlacedSchema("", {}),))
    rules = "\n".join(f'r{i}: "a" r{i + 1} | "b" r{i + 2}' for i in range(60))
    found = placed_schemas("lark", f"start: r0\n{rules}\nr60: %json {{}}\nr61: %json {{}}")
    assert {part.opening for part in found} == {"a", "b"}


@pytest.mark.parametrize(
    ("before", "opening"),
    [
        (r"/[a-z]+\n/", "\n"), (r"/[0-9]+\s/", None), (r"/id=\d/", None), ("/foo|bar/", None), ("/(?i)abc/", None),
        (r"/[^<]*<\/end>/", "</end>"), ('"abc"i', None), ('"abc"', "abc"), (r"/\d\./", "."),
        (r"/\x41/", "A"), (r"/\(a|b\) /", None), (r"/[|(]ab/", "ab"), (r"/a{9}" + r"\n" * 40 + "/", "\n" * 40),
    ],
)  # fmt: skip
def test_the_constant_end_of_a_regex_is_an_opening(before: str, opening: str | None) -> None:
    assert placed_schemas("lark", f"start: {before} %json {{}}") == (PlacedSchema(opening, {}),)
