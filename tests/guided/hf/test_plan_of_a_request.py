"""A guide plans whole request bodies: the same plan as by its arguments, found again, and honoured."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import guided
from guided import read_request
from special_tokens.errors import GrammarError

SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("body", "options"),
    [
        ({}, {}),
        ({"structured_outputs": {"choice": ["a", "b"]}}, {"response_format": guided.Choice(["a", "b"])}),
        ({"guided_regex": "[a-z]"}, {"response_format": guided.Regex("[a-z]")}),
        ({"response_format": SCHEMA}, {"response_format": SCHEMA}),
        ({"max_completion_tokens": 5, "stop": "x"}, {"max_tokens": 5, "stop": "x"}),
    ],
)
def test_a_body_gives_the_plan_of_the_same_arguments(tiny_guide: Any, body: dict[str, Any], options: dict[str, Any]):
    assert tiny_guide.plan(read_request({"messages": [], "model": "m", **body})) == tiny_guide.plan(**options)


def test_an_equal_body_finds_its_plan_again(tiny_guide: Any):
    body = {"structured_outputs": {"json": SCHEMA}, "user": "u", "stop": ["q"]}
    plan = tiny_guide.plan(read_request(body))
    assert tiny_guide.plan(read_request(copy.deepcopy(body))) is plan
    assert tiny_guide.plan(read_request({**body, "stop": ["r"]})) is not plan
    assert plan.ignored == ("user",)


@pytest.mark.parametrize("choice", [["left", "right"], ["</think>", "<|im_end|>"], ["é\n"]])
def test_what_was_asked_for_is_written(tiny_guide: Any, choice: list[str]):
    plan = tiny_guide.plan(read_request({"structured_outputs": {"choice": choice}, "max_tokens": 60}))
    message = tiny_guide.chat("x", plan, temperature=0)
    assert message.content in choice
    assert message.finish_reason == "stop"


def test_refusals_come_before_any_token(tiny_guide: Any):
    assert tiny_guide.plan(read_request({"who_knows": 1}, ignore_unknown=True)).ignored == ("who_knows",)
    body = {"structured_outputs": {"grammar": "start: <|im_start|>"}}
    with pytest.raises(GrammarError, match="structured_outputs.grammar line 1, column 8: .* writes a token"):
        tiny_guide.plan(read_request(body))
    assert tiny_guide.plan(read_request(body, trusted=True)).response.kind == "lark"
    with pytest.raises(GrammarError, match="the grammar does not compile"):  # what only the engine knows
        tiny_guide.plan(read_request({"structured_outputs": {"grammar": r"start: /^x$/m"}}))
