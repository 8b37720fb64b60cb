"""With ``max_tokens`` answers of ``model.generate`` are whole within it, in every way of searching."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import torch

import guided
from guided.inspect.shortest import min_tokens
from special_tokens.errors import RequestError
from tests.cases import seeds
from tests.conftest import make_tiny_guide
from tests.judges.generation import GuidedCall
from tests.made_up.schemas import closed

TAGS = {"type": "array", "minItems": 1, "items": {"type": "string"}}
SCHEMA = closed({"name": {"type": "string"}, "n": {"type": "integer"}, "tags": TAGS})
CHATS = ["tell me a thing", 'say {"name": "aaaa", "n": 12, "tags": ["x", "y"]} again, and again']

#: How `generate` is called, by name.
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "temperature": 2.0},
    "several rows": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3, "do_sample": False},
    "beams, all returned": {"num_beams": 3, "num_return_sequences": 3, "do_sample": False},
    "beam sampling": {"num_beams": 2, "do_sample": True},
    "prompt look-up": {"prompt_lookup_num_tokens": 4, "do_sample": False},
    "an assistant": {"do_sample": False},
}


def options_of(name: str) -> dict[str, Any]:
    more = {"assistant_model": make_tiny_guide(seed=7).model} if name == "an assistant" else {}
    return SEARCHES[name] | more


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize("name", SEARCHES)
def test_answers_are_whole(tiny_guide: Any, name: str, seed: int) -> None:
    plan = tiny_guide.plan(response_format=SCHEMA, thinking=False)
    options = options_of(name)
    is_drafted = "assistant_model" in options or "prompt_lookup_num_tokens" in options
    chats = CHATS[1:] if is_drafted else CHATS
    plans = [plan] if is_drafted else [plan, None]
    for extra in (0, 1, 4, 9) if seed else (0, 4):
        most = min_tokens(plan, tiny_guide.engine) + extra
        torch.manual_seed(seed)
        _, messages = GuidedCall(tiny_guide, chats, plans, max_tokens=most).run(**options)
        for message in messages if is_drafted else messages[: len(messages) // 2]:
            assert message.finish_reason == "stop", (extra, message.content, message.error)
            assert len(message.token_ids) <= most
            jsonschema.validate(json.loads(message.content or ""), SCHEMA)


#: In each of them a token that the mask allows may leave no end at all, or one that is too far.
TRAPS = {
    "a long word": 'start: "x" | "y" /[a-z]{300}/ "!"',
    "brackets that look alike": f'start: p | q\np: "(" p ")" | "p"\nq: "(" q "{"x" * 60}" | "q"',
}


@pytest.mark.parametrize("seed", seeds(4, default=1))
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("trap", TRAPS)
def test_no_token_leads_into_a_trap(tiny_guide: Any, trap: str, name: str, seed: int) -> None:
    plan = tiny_guide.plan(response_format=guided.Lark(TRAPS[trap]), thinking=False)
    options = options_of(name)
    call = GuidedCall(tiny_guide, CHATS[:1], [plan], max_tokens=min_tokens(plan, tiny_guide.engine) + 300)
    torch.manual_seed(seed)
    for message in call.run(**options)[1]:
        assert message.finish_reason == "stop", (message.content, message.notes, message.error)


@pytest.mark.parametrize("name", ["greedy", "several rows", "beams"])
def test_tokens_that_are_tried_far_from_the_budget_are_those_without_landing(tiny_guide: Any, name: str) -> None:
    pairs = guided.Lark('start: "{" pair ("," pair)* "}"\npair: /[a-z]+/ ":" (/[0-9]+/ | start)')
    plan = tiny_guide.plan(response_format=pairs, thinking=False)
    found = []
    for landing in (True, False):
        call = GuidedCall(tiny_guide, CHATS[:1], [plan], max_tokens=600, landing=landing)
        torch.manual_seed(3)
        found.append(call.generate(**SEARCHES[name], max_new_tokens=60).tolist())
    assert found[0] == found[1]


def test_greedy_tokens_are_those_of_our_own_loop(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=SCHEMA, thinking=False)
    most = min_tokens(plan, tiny_guide.engine) + 8
    _, (found,) = GuidedCall(tiny_guide, CHATS[:1], [plan], max_tokens=most).run()
    (own,) = tiny_guide.generate(CHATS[:1], [plan], temperature=0.0, max_tokens=most, describe=False)
    assert found.token_ids == own.token_ids
    assert found.landed == own.landed


def test_kwargs_without_inputs_land_as_well(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=SCHEMA, thinking=False)
    most = min_tokens(plan, tiny_guide.engine) + 3
    call = GuidedCall(tiny_guide, CHATS[:1], [plan], bound=False, max_tokens=most)
    for _ in range(2):
        _, (message,) = call.run(do_sample=True)
        jsonschema.validate(json.loads(message.content or ""), SCHEMA)


def test_a_batch_lands_by_its_max_tokens(tiny_guide: Any) -> None:
    least = min_tokens(tiny_guide.plan(response_format=SCHEMA, thinking=False), tiny_guide.engine)
    options = {"response_format": SCHEMA, "thinking": False, "temperature": 2.0}
    batch = tiny_guide.batch(CHATS, max_tokens=least + 2, **options)
    for message in batch.messages(tiny_guide.model.generate(**batch)):
        jsonschema.validate(json.loads(message.content or ""), SCHEMA)
    with pytest.raises(RequestError, match="tokens cannot hold the shortest answer found"):
        tiny_guide.batch(CHATS, max_tokens=least - 1, short_budget="error", **options)
    short = tiny_guide.batch(CHATS, max_tokens=least - 1, **options)
    for message in short.messages(tiny_guide.model.generate(**short)):
        assert message.notes[-1].startswith("the answer may be cut: ")
