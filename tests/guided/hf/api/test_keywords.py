"""One way in: every method that answers takes the same keywords, which an editor sees, and `help` as well."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_type_hints

import pytest

import guided
from guided.hf.generate.inputs import checked_inputs
from guided.hf.options import AnswerOptions, Keywords, PlanKeywords
from special_tokens.errors import RequestError


def test_type_checkers_and_the_run_time_see_the_same_keywords() -> None:
    hints = get_type_hints(AnswerOptions)
    assert get_type_hints(Keywords) == {name: kind for name, kind in hints.items() if name != "response_format"}
    of_plan = {f.name for f in dataclasses.fields(guided.Parts)} - {"response_place", "ignored", "response_format"}
    assert of_plan == set(get_type_hints(PlanKeywords))


@pytest.mark.parametrize(("method", "first"), [("chat", "messages"), ("stream", "messages"), ("generate", "chats")])
def test_every_method_shows_every_keyword_with_its_default(method: str, first: str) -> None:
    parameters = inspect.signature(getattr(guided.Guide, method)).parameters
    assert list(parameters)[1] == first
    assert {p.name: p.default for p in parameters.values() if p.kind is p.KEYWORD_ONLY} == {
        field.name: field.default for field in dataclasses.fields(AnswerOptions)
    }


@pytest.mark.parametrize("method", ["chat", "stream", "generate", "plan"])
def test_a_misspelt_keyword_is_refused_with_the_right_one(tiny_guide: Any, method: str) -> None:
    arguments = () if method == "plan" else (["hi"],) if method == "generate" else ("hi",)
    with pytest.raises(RequestError, match=r"unknown keyword 'reponse_format' \(is it 'response_format'\?\)"):
        getattr(tiny_guide, method)(*arguments, reponse_format=int)


def test_a_plan_takes_nothing_that_it_would_ignore(tiny_guide: Any) -> None:
    with pytest.raises(RequestError, match="plan: unknown keyword 'temperature'"):
        tiny_guide.plan(temperature=0.5)
    assert "temperature" not in inspect.signature(guided.Guide.plan).parameters


def test_generate_takes_the_keywords_of_chat(tiny_guide: Any) -> None:
    """One plan for all rows, described to the model, sampled alike: each row is what `chat` answers alone."""
    options: dict[str, Any] = {"response_format": guided.Regex("[a-c]{8}"), "temperature": 1.0, "seed": 3}
    messages = tiny_guide.generate(["hi", "you"], **options)
    assert [m.content for m in messages] == [tiny_guide.chat(chat, **options).content for chat in ("hi", "you")]
    several = tiny_guide.generate(["hi", "you"], n=2, **options)
    assert [m.content for m in several][::2] == [m.content for m in messages]


def test_the_format_is_described_wherever_it_answers(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=int)
    told = checked_inputs(tiny_guide.context, ["hi"], [plan], describe=True).prompt_len
    (ours,) = tiny_guide.generate(["hi"], [plan], max_tokens=3)
    assert ours.usage.prompt_tokens == tiny_guide.chat("hi", plan, max_tokens=3).usage.prompt_tokens == told
    assert checked_inputs(tiny_guide.context, ["hi"], [plan]).prompt_len < told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *[({"reuse": value}, f"reuse: {value!r} is not a switch; expected True or False") for value in ("no", 0, None)],
        *[
            ({"return_last_hidden_state": value}, f"return_last_hidden_state: {value!r} is not a way to compute hidden")
            for value in ("last", 1)
        ],
        *[
            ({"prompt_lookup_num_tokens": value}, "^prompt_lookup_num_tokens: .* expected an integer of 1 or more")
            for value in (0, -1, 1.5, True, "8")
        ],
        ({"assistant_model": "a/name"}, "assistant_model: str is not a model; expected a causal language model"),
        ({"landing": "yes"}, "^landing: "),
        ({"short_budget": "cry"}, "^short_budget: "),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_wherever_it_is_given(tiny_guide: Any, options: dict[str, Any], message: str) -> None:
    for call in (tiny_guide.chat, tiny_guide.stream, lambda chat, **rest: tiny_guide.generate([chat], **rest)):
        with pytest.raises(RequestError, match=message):
            call("x", **options)


def test_F14_what_is_printed_is_one_short_line(tiny_guide: Any) -> None:
    schema = {"type": "object", "properties": {f"key{i}": {"type": "string"} for i in range(50)}}
    plan = tiny_guide.plan(response_format=schema, stop="x")
    assert repr(plan).startswith("Plan(response='json'")
    assert repr(tiny_guide).startswith("Guide(LlamaForCausalLM")
    assert max(map(len, (repr(plan), repr(tiny_guide)))) < 120


def test_F14_names_of_tools_are_a_value_and_one_token_is_committed_as_it_is_asked_for(tiny_guide: Any) -> None:
    tool = {"name": "look", "parameters": {"type": "object"}}
    plan = tiny_guide.plan(tools=[tool], tool_choice="required")
    assert plan.tool_names == ("look",)
    state, other = (guided.GuidanceState(plan, tiny_guide.engine) for _ in range(2))
    token = next(token for token in range(tiny_guide.engine.vocab_size) if state.allows(token))
    state.commit(token)
    other.commit([token])
    assert [*state.tokens] == [*other.tokens] == [token]
