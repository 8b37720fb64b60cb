"""A JSON value in front of a literal that begins like more of a number."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from grammars.values.constraints import StructuralTag
from grammars.values.format import Format
from guided.engine.engine import Engine
from special_tokens.errors import GrammarError
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
