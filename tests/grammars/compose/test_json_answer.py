"""An answer that is one JSON value: a plan of its own for each vocabulary, whatever becomes of the caller's schema."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.values.constraints import JsonSchema
from grammars.values.format import ContentFormat, Format
from special_tokens import SpecialTokens
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens

FRAMED = Format("framed", content=ContentFormat(start="<think>", end="</think>"))


@pytest.fixture(scope="module")
def tokens() -> SpecialTokens:
    return small_tokens(small_tokenizer(MARKERS, words=(), special=("<|im_start|>", "<|im_end|>", "<|endoftext|>")))


def plan_of(schema: Any, tokens: SpecialTokens, format: Format) -> Plan:
    return compose(Parts(response_format=JsonSchema(schema)), tokens=tokens, format=format)


def test_two_vocabularies_share_nothing(tokens: SpecialTokens) -> None:
    other = small_tokens(small_tokenizer(MARKERS, special=("<|im_end|>",)))
    plans = [plan_of(True, which, FRAMED) for which in (tokens, other, tokens)]
    assert plans[0] == plans[2]
    assert plans[1].vocab_size > plans[0].vocab_size
    assert [plan.ends[0].sentinel for plan in plans] == [plan.vocab_size for plan in plans]


def test_the_plan_holds_the_schema_as_it_was(tokens: SpecialTokens) -> None:
    schema: dict[str, Any] = {
        "type": ["object"],
        "properties": {"a": {"enum": ["x"]}, "b": {"type": ["boolean"]}},
        "required": ["a"],
    }
    before = deepcopy(schema)
    plan = plan_of(schema, tokens, Format("bare"))
    schema["required"].append("b")
    schema["type"][0] = "string"
    schema["properties"]["a"]["enum"][0] = "yy"
    schema["properties"]["b"]["type"][0] = "null"
    assert plan.response.schema == before
    assert plan == plan_of(before, tokens, Format("bare"))
