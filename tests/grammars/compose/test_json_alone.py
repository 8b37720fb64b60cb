"""An answer that is one JSON value has the plan that the general path composes."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.compose import compose as composing
from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan, Stops
from grammars.shortest.plan_texts import response_text
from grammars.values.constraints import JsonSchema
from grammars.values.format import ContentFormat, Ends, Format, ReasoningFormat
from special_tokens import SpecialTokens
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens

FORMATS = {
    "bare": Format("bare"),
    "opening": Format("opening", content=ContentFormat(opening="\n\n")),
    "framed": Format("framed", content=ContentFormat(start="<think>", end="</think>")),
    "framed by text": Format("framed by text", content=ContentFormat(start="[%json {}", end="]")),
    "reasoning that no one asks for": Format(
        "silent", reasoning=ReasoningFormat("<think>\n", "\n</think>\n\n", closed_lead="\n")
    ),
    "ends": Format("ends", ends=Ends(content=("<|im_end|>", "<|endoftext|>"))),
}
SCHEMAS: tuple[Any, ...] = (
    True,
    {"type": "string", "enum": ["%json {}", "é"]},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"x-guidance": {}}}, "required": ["a"]},
    {"type": "integer", "multipleOf": 7, "not": {"const": 14}},
)


@pytest.fixture(scope="module")
def tokens() -> SpecialTokens:
    return small_tokens(small_tokenizer(MARKERS, words=(), special=("<|im_start|>", "<|im_end|>", "<|endoftext|>")))


def plan_of(schema: Any, tokens: SpecialTokens, format: Format, **parts: Any) -> Plan:
    return compose(Parts(response_format=JsonSchema(schema), **parts), tokens=tokens, format=format)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: "".join(schema) if isinstance(schema, dict) else "true")
def test_the_plan_is_the_one_that_the_long_way_composes(
    name: str, schema: Any, tokens: SpecialTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stops(("<|im_start|>",))
    first = plan_of(schema, tokens, FORMATS[name], stop=stop)
    again = plan_of(schema, tokens, FORMATS[name], stop=stop)
    other = plan_of(schema, tokens, FORMATS[name])  # the same frame, other ends
    monkeypatch.setattr(composing._Composer, "_json_alone", lambda self: None)
    assert first == again == plan_of(schema, tokens, FORMATS[name], stop=stop)
    assert other == plan_of(schema, tokens, FORMATS[name])


def test_two_vocabularies_share_nothing(tokens: SpecialTokens) -> None:
    other = small_tokens(small_tokenizer(MARKERS, special=("<|im_end|>",)))
    plans = [plan_of(True, which, FORMATS["framed"]) for which in (tokens, other, tokens)]
    assert plans[0] == plans[2]
    assert plans[1].vocab_size > plans[0].vocab_size
    assert [plan.ends[0].sentinel for plan in plans] == [plan.vocab_size for plan in plans]


def test_frames_are_bounded(tokens: SpecialTokens) -> None:
    for i in range(2 * composing._MOST_FRAMES):
        plan = plan_of(True, tokens, Format("many", content=ContentFormat(opening=f"{i}\n")))
        assert plan.lark.startswith(f'start: "{i}\\n" response')
        assert len(composing._frames) <= composing._MOST_FRAMES


def test_the_shortest_text_is_that_of_the_schema_as_it_was(tokens: SpecialTokens) -> None:
    schema: dict[str, Any] = {
        "type": ["object"],
        "properties": {"a": {"enum": ["x"]}, "b": {"type": ["boolean"]}},
        "required": ["a"],
    }
    plan = plan_of(schema, tokens, FORMATS["bare"])
    schema["required"].append("b")
    schema["type"][0] = "string"
    schema["properties"]["a"]["enum"][0] = "yy"
    schema["properties"]["b"]["type"][0] = "null"
    assert plan.response is not None
    assert response_text(plan.response) == '{"a": "x"}'
    assert plan.response.schema["required"] == ["a"]
