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
from tests.judges.plans import END, accepts, plan_of, write_to_the_end

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
def test_a_number_is_told_from_an_end_that_begins_like_more_of_it(byte_engine: Engine, schema: Any, end: Any) -> None:
    plan = plan_of(byte_engine, Format("plain"), response_format=_tag(schema, end))
    ends = [end] if isinstance(end, str) else end
    for value in VALUES:
        for one in ends:
            text = f"<n>{json.dumps(value)}{one}"
            assert accepts(plan, byte_engine, text + END) == _is_written(text, schema, ends), text
            assert not accepts(plan, byte_engine, text[: -len(one)] + END) or _is_written(
                text[: -len(one)], schema, ends
            )


FOLLOWING = {
    "0x[a-f]": True, "e(ur)?": True, "[.;]": True, "[a-z]+": True, "€": False, "(?:<n>)+": False,
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


@pytest.mark.parametrize("seed", seeds(12, default=2))
@pytest.mark.parametrize("end", ENDS, ids=str)
def test_every_text_before_such_an_end_can_be_finished(byte_engine: Engine, end: Any, seed: int) -> None:
    ends = [end] if isinstance(end, str) else end
    rng = random.Random(f"{end} {seed}")
    for schema in SCHEMAS:
        plan = plan_of(byte_engine, Format("plain"), response_format=_tag(schema, end))
        ids = write_to_the_end(plan, byte_engine, rng, wander=12, closers=[*ends, '"', "]", "0"])
        written = b"".join(byte_engine.token_bytes(i) for i in ids[:-1]).decode()
        assert _is_written(written, schema, ends), written


@pytest.mark.parametrize("after", [
    {"type": "const_string", "value": "E5"},
    {"type": "tag", "begin": "0", "content": {"type": "any_text"}, "end": "!"},
])  # fmt: skip
def test_a_number_in_a_sequence_is_told_from_the_literal_after_it(byte_engine: Engine, after: Any) -> None:
    number = {"type": "json_schema", "json_schema": {"type": "number"}}
    spec = {"type": "structural_tag", "format": {"type": "sequence", "elements": [number, after]}}
    plan = plan_of(byte_engine, Format("plain"), response_format=StructuralTag(spec))
    tail = "E5" if after["type"] == "const_string" else "0 a!"
    for value in ("12", "0", "1.5", "1e2"):
        assert accepts(plan, byte_engine, value + tail + END), value
    assert not accepts(plan, byte_engine, "12" + END)
