"""A JSON value in front of a literal that begins like more of a number."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import pytest

from grammars.values.constraints import StructuralTag
from grammars.values.format import Format
from guided.engine.engine import Engine
from special_tokens.errors import GrammarError
from tests.cases import seeds
from tests.judges.plans import END, accepts, plan_of

ENDS = ["END", "eur", ".", "0", "1e5", "9.", "e+", "</n>", "E0E", " 0", "-1", ["END", "0"], [".5", "</n>"]]
SCHEMAS: list[Any] = [
    {"type": "number"},
    {"type": "integer"},
    {},
    {"enum": [1, 12, "1"]},
    {"anyOf": [{"const": 1}, {"type": "number", "minimum": 10}, {"type": "null"}]},
    {"type": "number", "multipleOf": 0.5},
    {"type": ["integer", "string"]},
    {"type": "array", "items": {"type": "number"}},
    {"$ref": "#/$defs/a",
     "$defs": {"a": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]}}},
]  # fmt: skip
VALUES = [0, 1, 12, 120, 10.5, 12.25, -3, 0.5, 1200, "1", "", "e0", None, True, [], [1, 2.5], [0], [[3]], {"a": 1}]


def _tag(schema: Any, end: Any) -> StructuralTag:
    content = {"type": "json_schema", "json_schema": schema}
    tag = {"type": "tag", "begin": "<n>", "content": content, "end": end}
    return StructuralTag({"type": "structural_tag", "format": tag})


def _is_written(text: str, schema: Any, ends: list[str]) -> bool:
    """Whether some end leaves a valid JSON value between the tags."""
    for end in ends:
        if text.startswith("<n>") and text.endswith(end):
            try:
                value = json.loads(text[3 : len(text) - len(end)])
            except ValueError:
                continue
            if jsonschema.Draft202012Validator(schema).is_valid(value):
                return True
    return False


@pytest.mark.parametrize("end", ENDS, ids=str)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_a_number_before_an_end_is_written_as_json_or_refused(byte_engine: Engine, schema: Any, end: Any) -> None:
    ends = [end] if isinstance(end, str) else end
    is_number = jsonschema.Draft202012Validator(schema).is_valid
    if any(one[0] in "0123456789.eE" for one in ends) and any(is_number(n) for n in VALUES if type(n) in (int, float)):
        with pytest.raises(GrammarError, match="may begin like more of the number"):
            plan_of(byte_engine, Format("plain"), response_format=_tag(schema, end))
        return
    plan = plan_of(byte_engine, Format("plain"), response_format=_tag(schema, end))
    for value in VALUES:
        for one in ends:
            text = f"<n>{json.dumps(value)}{one}"
            assert accepts(plan, byte_engine, text + END) == _is_written(text, schema, ends), text
            assert not accepts(plan, byte_engine, text[: -len(one)] + END) or _is_written(
                text[: -len(one)], schema, ends
            )


FOLLOWING = {
    ("E5",): True, "0x[a-f]": True, "e(ur)?": True, "[.;]": True, "[a-z]+": True, "€": False, "(?:<n>)+": False,
    ("END", "<n>"): True, ("<n>", "pieces"): False, ("0",): True,
}  # fmt: skip


@pytest.mark.parametrize("schema", [*SCHEMAS, {"type": "string"}, {"type": "object"}, {"enum": ["1", None]}], ids=str)
@pytest.mark.parametrize("following", FOLLOWING, ids=str)
def test_a_number_before_a_regex_or_a_choice_is_writable_or_refused(
    byte_engine: Engine, schema: Any, following: str | tuple[str, ...]
) -> None:
    """The masks led into numbers after which nothing could be written: refused where the table says "may go on"."""
    if isinstance(following, str):
        then: dict[str, Any] = {"type": "regex", "pattern": following}
    else:
        then = {"type": "or", "elements": [{"type": "const_string", "value": text} for text in following]}
    tag = StructuralTag(
        {"type": "structural_tag", "format": {"type": "sequence", "elements": [
            {"type": "json_schema", "json_schema": schema}, then, {"type": "const_string", "value": ";"}]}}
    )  # fmt: skip
    judge = jsonschema.Draft202012Validator(schema)
    numbers = [value for value in VALUES if type(value) in (int, float) and judge.is_valid(value)]
    if numbers and FOLLOWING[following]:
        with pytest.raises(GrammarError, match=r"elements\[1\]"):
            plan_of(byte_engine, Format("plain"), response_format=tag)
        return
    plan = plan_of(byte_engine, Format("plain"), response_format=tag)
    written = {"0x[a-f]": "0xa", "[a-z]+": "eur", "[.;]": "."}.get(str(following), "")
    written = following[0] if isinstance(following, tuple) else written or re.sub(r"[()?:+]", "", following)
    for value in VALUES:
        assert accepts(plan, byte_engine, f"{json.dumps(value)}{written};" + END) == judge.is_valid(value)


def _random_format(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    kind = rng.choice(["const_string", "json_schema", "sequence", "or", "optional", "star", "plus", "repeat", "tag"])
    if depth == 0 or kind in ("const_string", "json_schema"):
        if kind == "json_schema":
            return {"type": kind, "json_schema": {"type": rng.choice(["integer", "number", "boolean"])}}
        return {"type": "const_string", "value": rng.choice(["END", "e5", ".", "7", ";", "€", "-"])}
    if kind in ("sequence", "or"):
        return {"type": kind, "elements": [_random_format(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    content = _random_format(rng, depth - 1)
    bounds = {"repeat": {"min": 1, "max": 2}, "tag": {"begin": rng.choice(["<", "E<"]), "end": rng.choice([">", "E>"])}}
    return {"type": kind, "content": content, **bounds.get(kind, {})}


def _text_of(spec: Any, rng: random.Random) -> str:
    match spec["type"]:
        case "const_string":
            return spec["value"]
        case "json_schema":
            values = {"integer": ["0", "-3", "12"], "number": ["12", "0.5", "1e5"], "boolean": ["true", "false"]}
            return rng.choice(values[spec["json_schema"]["type"]])
        case "sequence":
            return "".join(_text_of(element, rng) for element in spec["elements"])
        case "or":
            return _text_of(rng.choice(spec["elements"]), rng)
        case "tag":
            return spec["begin"] + _text_of(spec["content"], rng) + spec["end"]
    least, most = {"optional": (0, 1), "star": (0, 3), "plus": (1, 3), "repeat": (1, 2)}[spec["type"]]
    return "".join(_text_of(spec["content"], rng) for _ in range(rng.randint(least, most)))


@pytest.mark.parametrize("seed", seeds(600, default=60))
def test_texts_of_nested_formats_are_written_or_the_number_is_refused(byte_engine: Engine, seed: int) -> None:
    rng = random.Random(seed)
    spec = _random_format(rng)
    try:
        plan = plan_of(byte_engine, Format("plain"), response_format=StructuralTag({"format": spec}))
    except GrammarError as error:
        assert "may begin like more of the number" in str(error)
        return
    for _ in range(12):
        text = _text_of(spec, rng)
        assert accepts(plan, byte_engine, text + END), (spec, text)


def _const(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def _of(kind: str, *parts: Any) -> dict[str, Any]:
    return {"type": kind, "elements": parts} if kind in ("sequence", "or") else {"type": kind, "content": parts[0]}


NUMBER = {"type": "json_schema", "json_schema": {"type": "number"}}
TAGS = {"type": "triggered_tags", "triggers": ["<t"], "tags": [{**_tag({}, "</t>").spec["format"], "begin": "<t>"}]}


@pytest.mark.parametrize(
    ("parts", "place"),
    [
        ([_of("sequence", NUMBER), _const("END")], "elements[1]"),
        ([NUMBER, _of("sequence", _const("END"))], "elements[1]"),
        ([NUMBER, _of("optional", _const(";")), _const("END")], "elements[1]"),
        ([NUMBER, _of("optional", _const("E")), _const(";")], "elements[1]"),
        ([_of("or", _const("x"), NUMBER), _of("star", _const("0"))], "elements[1]"),
        ([_of("sequence", NUMBER, _of("optional", _const(";"))), _const("END")], "elements[1]"),
        ([NUMBER, {"type": "any_text"}], "elements[1]"),
        ([NUMBER, TAGS], "elements[1]"),
        ([_of("plus", NUMBER), _const(";")], "elements[0]"),
        ([_const("a"), {"type": "dispatch", "rules": [["@n", NUMBER]]}], "elements[1].rules"),
        ([NUMBER, _of("optional", _const(";")), _const("<END")], None),
        ([_of("or", _const("x"), NUMBER), _of("or", _const(","), _of("sequence", _const("!"), _const("0")))], None),
        ([_of("plus", _of("sequence", NUMBER, _const(","))), _const("END")], None),
        ([NUMBER, {**TAGS, "at_least_one": True}], None),
        ([_of("optional", NUMBER), {"type": "json_schema", "json_schema": {"type": "object"}}], None),
    ],
    ids=str,
)
def test_a_number_is_refused_only_where_it_could_go_on(
    byte_engine: Engine, parts: list[Any], place: str | None
) -> None:
    tag = StructuralTag({"format": _of("sequence", *parts)})
    if place is None:
        plan_of(byte_engine, Format("plain"), response_format=tag)
        return
    with pytest.raises(GrammarError, match=re.escape(f"format.{place}: what follows a JSON number")):
        plan_of(byte_engine, Format("plain"), response_format=tag)
