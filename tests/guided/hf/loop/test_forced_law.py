"""Law forced: the same tokens and log-probabilities with forced runs and without, alone and with neighbours.

The judge is our loop with every ability switched off: one token per forward and row, finished rows kept.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import guided
from guided.hf.cache.self_test import Abilities
from guided.output.message import Message
from guided.sampling import Sampling
from tests.cases import seeds
from tests.made_up.models import ARCHITECTURES, forwards_of
from tests.made_up.schemas import closed

CHATS = ["tell me a thing", "why?", "a longer question than the others, so that they are padded", "x", "one, two"]
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up_the_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Utrecht", "Ulm"]}, "days": {"type": "integer", "maximum": 9}},
            "required": ["city", "days"],
        },
    },
}
OBJECT = closed({"a long name": {"type": "boolean"}, "another one": {"enum": ["red", "reddish"]}})

#: Watched at run time: keys that may not be written twice, and items that must differ.
WATCHED = {
    "type": "object",
    "properties": {
        "a long name": {"type": "object", "properties": {"inner": {"type": "boolean"}}, "required": ["inner"]},
        "letters": {
            "type": "array", "items": {"enum": ["alpha", "beta", "alphabet"]}, "uniqueItems": True, "minItems": 2,
        },
    },
    "required": ["a long name", "letters"],
    "additionalProperties": {"type": "integer"},
}  # fmt: skip


def some_plan(guide: Any, rng: random.Random) -> Any:
    """A random request: formats, tools, reasoning, free text, stops inside and outside of what is forced."""
    stops = [
        None,
        None,
        "name",
        '": t',
        "zz",
        ["wea", "x"],
        guided.Stops(strings=("another", "e t"), include=True, everywhere=True),
        guided.Stops(strings=("ong", ": t", "dd"), everywhere=True),
    ]
    stop = rng.choice(stops)
    requests: list[dict[str, Any]] = [
        {"response_format": OBJECT},
        {"tools": [TOOL], "tool_choice": "required"},
        {"response_format": guided.Choice(["a first long option", "a second", "only"])},
        {"response_format": guided.Regex("(long literal text [0-9]{2}; ){2}end")},
        {"reasoning_effort": "low", "response_format": OBJECT},
        {"response_format": WATCHED},
        {"response_format": {"const": {"all": "is forced"}}},
        {},
    ]
    request = rng.choice(requests)
    if not request:
        return guided.Stops(strings=("e t", "zz")) if stop else None
    return guide.plan(**request, stop=stop, max_tokens=rng.choice([None, None, 3, 8, 20]))


def some_sampling(rng: random.Random) -> Sampling:
    if rng.random() < 0.3:
        return Sampling(temperature=0, logprobs=rng.choice([None, 2]))
    return Sampling(
        temperature=rng.choice([0.7, 1.3]),
        top_p=rng.choice([1.0, 0.8]),
        top_k=rng.choice([0, 12]),
        repetition_penalty=rng.choice([1.0, 1.4]),
        frequency_penalty=rng.choice([0.0, 0.9]),
        seed=rng.randrange(1000),
        logprobs=rng.choice([None, None, 3]),
    )


def same(found: Message, judge: Message, *, places: float = 2e-4) -> None:
    """Everything that a caller sees is equal; log-probabilities up to rounding."""
    assert found.token_ids == judge.token_ids
    assert (found.content, found.reasoning, found.parsed) == (judge.content, judge.reasoning, judge.parsed)
    assert [(c.name, c.arguments) for c in found.tool_calls] == [(c.name, c.arguments) for c in judge.tool_calls]
    assert (found.finish_reason, found.stop_reason, found.unfinished) == (
        judge.finish_reason, judge.stop_reason, judge.unfinished,
    )  # fmt: skip
    assert found.usage == judge.usage
    assert (found.guidance.commits, found.guidance.forced) == (judge.guidance.commits, judge.guidance.forced)
    assert (found.logprobs is None) == (judge.logprobs is None)
    if found.logprobs is None or judge.logprobs is None:
        assert found.guidance.overridden <= judge.guidance.overridden
        return
    assert found.guidance.overridden == judge.guidance.overridden
    for one, other in zip(found.logprobs, judge.logprobs, strict=True):
        assert (one.token_id, one.num_allowed) == (other.token_id, other.num_allowed)
        assert (one.logprob, one.masked, one.removed) == pytest.approx(
            (other.logprob, other.masked, other.removed), abs=places
        )
        assert [p for _, p in one.top] == pytest.approx([p for _, p in other.top], abs=places)


@pytest.fixture
def step_by_step(monkeypatch: Any) -> Any:
    """Calls a function with every ability of the model switched off."""

    def run(call: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr("guided.hf.loop.prepare.abilities_of", lambda model: Abilities())
            return call()

    return run


@pytest.mark.parametrize("seed", seeds(60, default=8))
def test_forced_runs_neighbours_and_rows_that_leave_change_nothing(
    tiny_guide: Any, step_by_step: Any, seed: int
) -> None:
    rng = random.Random(seed)
    chats = rng.sample(CHATS, rng.choice([1, 2, 4]))
    plans = [some_plan(tiny_guide, rng) for _ in chats]
    samplings = [some_sampling(rng) for _ in chats]
    options = {"sampling": samplings, "max_tokens": rng.choice([5, 30, 70])}
    judge = step_by_step(lambda: tiny_guide.generate(chats, plans, **options))
    together = tiny_guide.generate(chats, plans, **options)
    for r in range(len(chats)):
        same(together[r], judge[r])
        assert together[r].usage.forwards <= judge[r].usage.forwards
        row = {"sampling": samplings[r], "max_tokens": options["max_tokens"]}
        same(together[r], *tiny_guide.generate([chats[r]], [plans[r]], **row))  # the row alone


def test_a_forced_run_is_one_event(tiny_guide: Any) -> None:
    """An event for each step at most, and one for the first run and the last words each."""
    plan = tiny_guide.plan(response_format=OBJECT)
    stream = tiny_guide.stream("why?", plan, temperature=0, max_tokens=40, describe=False)
    events = list(stream)
    assert "".join(event.text for event in events) == stream.message.content
    assert events[0].text.startswith('{"a long name')
    assert len(events) <= stream.message.usage.forwards + 2 < stream.message.usage.completion_tokens


def test_an_answer_that_is_all_forced_takes_no_forward(tiny_guide: Any) -> None:
    """Its end is a choice, so only a stop or the limit makes it so; with logprobs it takes one."""
    plan = tiny_guide.plan(
        response_format={"const": "all is forced here"}, stop=guided.Stops(strings=("forced",), everywhere=True)
    )
    with forwards_of(tiny_guide.model) as calls:
        message = tiny_guide.chat("x", plan, describe=False)
        assert (message.stop_reason, message.usage.forwards, calls) == ("forced", 0, [])
        message = tiny_guide.generate(["x"], [plan], sampling=Sampling(logprobs=1))[0]
        assert (message.stop_reason, message.usage.forwards, len(calls)) == ("forced", 1, 1)
        assert len(message.logprobs) == len(message.token_ids)


def test_the_trace_shows_runs_and_what_was_kept(tiny_guide: Any) -> None:
    """A token of a run was not sampled; a token was sampled at each forward but the one before a forced end."""
    guide = guided.Guide(tiny_guide.model, tiny_guide.tokenizer)
    plan = guide.plan(response_format=OBJECT)
    for turn in range(2):
        message = guide.chat("why?", plan, temperature=0, trace=True)
        trace = message.trace
        assert message.usage.forwards - sum(not token.in_run for token in trace.tokens) in (0, 1)
        assert message.usage.forwards < len(trace.tokens)
        assert all(token.forced for token in trace.tokens if token.in_run)
        runs = sum(token.in_run for token in trace.tokens if token.region == "response")
        assert trace.to_html().count('<span class="t r-response run') == runs
        assert (trace.cached_tokens > 0) == bool(turn)
        assert f'"cached_tokens":{message.usage.cached_tokens},' in trace.to_html()


def test_overridden_counts_by_the_models_own_scores_wherever_they_are_asked_for(
    tiny_guide: Any, step_by_step: Any
) -> None:
    """With a bias the scores agree with the mask at one forced token; the model itself does not."""
    plan = tiny_guide.plan(response_format=OBJECT)
    (plain,) = tiny_guide.generate(["x"], [plan], sampling=Sampling(temperature=0, logprobs=1), max_tokens=20)
    biased = Sampling(temperature=0, logprobs=1, logit_bias={plain.token_ids[2]: 90.0})
    judge = step_by_step(lambda: tiny_guide.generate(["x"], [plan], sampling=biased, max_tokens=20))[0]
    (found,) = tiny_guide.generate(["x"], [plan], sampling=biased, max_tokens=20)
    same(found, judge)
    assert found.guidance.overridden == sum(record.overridden for record in found.logprobs) > 5


def test_n_answers_share_one_prefill(tiny_guide: Any) -> None:
    tiny_guide.generate(CHATS[:2], max_tokens=1, reuse=False)  # what the model can is tried first
    with forwards_of(tiny_guide.model) as fed:
        sampling = [Sampling(temperature=1.0, seed=3, n=3), Sampling(temperature=1.0, seed=4)]
        messages = tiny_guide.generate(CHATS[:2], sampling=sampling, max_tokens=6, reuse=False)
    assert len(messages) == 4
    sizes = [messages[i].usage.prompt_tokens for i in (0, 3)]
    assert fed[0].numel() in (sum(sizes), 2 * max(sizes))  # packed, or a rectangle
    assert fed[1].numel() == 4


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_law_holds_for_every_architecture(name: str, tiny_guide: Any, step_by_step: Any) -> None:
    """By whatever way its self-test allows."""
    model = ARCHITECTURES[name](vocab_size=len(tiny_guide.tokenizer))
    guide = guided.Guide(model, tiny_guide.tokenizer)
    torch.manual_seed(0)
    plans = [guide.plan(response_format=OBJECT), None, guide.plan(tools=[TOOL], tool_choice="required")]
    for size in (1, 3):
        options = {"sampling": Sampling(temperature=1.0, seed=2), "max_tokens": 40, "describe": False}
        judge = step_by_step(lambda: guide.generate(CHATS[:size], plans[:size], **options))  # noqa: B023
        for one, other in zip(guide.generate(CHATS[:size], plans[:size], **options), judge, strict=True):
            same(one, other)
