"""The text-generation pipeline: one processor object for prompt after prompt."""

from __future__ import annotations

import copy
import operator
import pickle
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import LogitsProcessorList, pipeline

from grammars.values.constraints import Regex
from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import PlanError
from tests.cases import seeds
from tests.judges.generation import CHATS, FORMATS, GuidedCall, greedy, plan_of, replay

MODE = ("text-generation pipeline", "right", "a batch without prompts guides whatever prompts come")

MODES_OF_SEARCH: list[dict[str, Any]] = [
    {},
    {"num_beams": 3},
    {"do_sample": True, "top_k": 1},
    {"prompt_lookup_num_tokens": 3},
]
OPTIONS = {"max_new_tokens": 40, "do_sample": False, "return_full_text": False}


@pytest.fixture(scope="module")
def pipe(tiny_guide: Any) -> Any:
    return pipeline("text-generation", model=tiny_guide.model, tokenizer=tiny_guide.tokenizer)


def chats(texts: list[str]) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": text}] for text in texts]


def texts_of(results: Any) -> list[str]:
    return [r["generated_text"] for result in results for r in (result if isinstance(result, list) else [result])]


@pytest.mark.parametrize(
    "options",
    [{"batch_size": 3}, {"batch_size": 1}, {"num_beams": 3}, {"do_sample": True, "num_return_sequences": 3}],
    ids=str,
)
@pytest.mark.parametrize("name", FORMATS)
def test_one_plan_for_all_prompts(tiny_guide: Any, pipe: Any, name: str, options: dict[str, Any]) -> None:
    plan = plan_of(tiny_guide, name)
    kwargs = generate_kwargs(tiny_guide.context, None, plan)
    prompts = checked_inputs(tiny_guide.context, CHATS, [plan] * 4).prompt_ids
    for _ in range(2):
        found = texts_of(pipe(chats(CHATS), **OPTIONS | options, **kwargs))
        assert all(map(FORMATS[name][1], found))
        if "batch_size" in options:
            judge = [greedy(tiny_guide, ids, plan) for ids in prompts]
            assert found == tiny_guide.tokenizer.batch_decode(judge, skip_special_tokens=True)


# -- prompts that continue the last prompt and answer, which were taken for drafts taken back


def ids_of(guide: Any, text: str) -> torch.Tensor:
    return torch.tensor([guide.tokenizer.encode(text)])


def run(guide: Any, ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    """Return what ``generate`` makes of ``ids`` int64 ``[1, length]``, at most 40 tokens more."""
    kwargs = {"max_new_tokens": 40, "do_sample": False} | kwargs
    out: torch.Tensor = guide.model.generate(ids, attention_mask=torch.ones_like(ids), **kwargs)
    return out


def alone(guide: Any, name: str, ids: torch.Tensor, **options: Any) -> list[int]:
    """Return the tokens that a call with kwargs of its own writes after ``ids``."""
    kwargs = generate_kwargs(guide.context, None, plan_of(guide, name))
    return run(guide, ids, **options, **kwargs)[0, ids.shape[1] :].tolist()


#: Of the last prompt and output, each ``[1, length]``: the next prompt.
NEXT: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "the same": lambda prompt, out: prompt,
    "the output and more": lambda prompt, out: torch.cat([out, prompt], dim=1),
    "the output": lambda prompt, out: out,
    "the output without its last token": lambda prompt, out: out[:, :-1],
    "the prompt and a token of the answer": lambda prompt, out: out[:, : prompt.shape[1] + 1],
    "a longer prompt": lambda prompt, out: torch.cat([prompt, prompt], dim=1),
    "a shorter prompt": lambda prompt, out: prompt[:, : max(1, prompt.shape[1] - 1)],
}


@pytest.mark.parametrize("seed", seeds(40, default=6))
@pytest.mark.parametrize("criterion", ["as it is", "copied", "left out", "left out later"])
def test_a_call_is_that_of_kwargs_of_its_own(tiny_guide: Any, criterion: str, seed: int) -> None:
    """Whatever calls came before it, and whatever its prompt is made of.

    A cut answer that is the next prompt goes on in a search of as many rows.  Without the criterion drafts are
    refused, and beginnings of the last output are taken for it.
    """
    rng, name = random.Random(seed), list(FORMATS)[seed % 3]
    plan = plan_of(tiny_guide, name)
    kwargs = generate_kwargs(tiny_guide.context, None, plan)
    if criterion == "copied":
        kwargs["stopping_criteria"] = list(kwargs["stopping_criteria"])
    begin = prompt = ids_of(tiny_guide, "Say")
    num_beams = 1
    for call in range(5):
        if criterion == "left out" or (criterion == "left out later" and call == 1):
            kwargs.pop("stopping_criteria", None)
        has_criterion = "stopping_criteria" in kwargs
        options = rng.choice(MODES_OF_SEARCH if has_criterion else MODES_OF_SEARCH[:3])
        options = options | {"max_new_tokens": rng.choice([1, 4, 40, 40])}
        if num_beams != (num_beams := options.get("num_beams", 1)):
            begin = prompt  # another number of rows
        out = run(tiny_guide, prompt, **options, **kwargs)
        answer = out[0, begin.shape[1] :].tolist()
        end = replay(tiny_guide, plan, answer)  # one legal text
        if begin is prompt or num_beams == 1:
            wanted = options if begin is prompt else {"max_new_tokens": len(answer)}
            expected = alone(tiny_guide, name, begin, **wanted)
            assert answer[: len(expected)] == expected, (call, options)
        ways = [*NEXT, "the output", "the output"] if has_criterion else list(NEXT)[:2]
        prompt = NEXT[rng.choice(ways)](prompt, out)
        if end.is_stopped or not torch.equal(prompt, out):
            begin = prompt


MINE = [lambda input_ids, scores: scores]
WAYS = {
    "copied": lambda items: items[:],
    "mine after": lambda items: [*items, *MINE],
    "mine before": lambda items: LogitsProcessorList(MINE) + items,
    "added in place": lambda items: operator.iadd(items, MINE),
}


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_F9_the_lists_are_plain_lists(tiny_guide: Any, way: str, bound: bool) -> None:
    """Bound to its inputs, with its criterion, or good for any, without it; one call after the other."""
    call = GuidedCall(tiny_guide, ["Say"], ["json"], bound=bound)
    inputs, kwargs = call.inputs, call.kwargs
    assert type(kwargs["logits_processor"]) is type(kwargs["stopping_criteria"]) is list
    other = kwargs | {"logits_processor": WAYS[way](kwargs["logits_processor"])}
    if not bound:
        other.pop("stopping_criteria")
    expected = alone(tiny_guide, "json", inputs["input_ids"])
    options = {"max_new_tokens": 40, "do_sample": False}
    for which in (other, kwargs, other, other):
        out = tiny_guide.model.generate(**inputs, **options, **which)
        assert out[0, inputs.prompt_len :][: len(expected)].tolist() == expected


def test_F9_the_hooks_print_what_they_are(tiny_guide: Any) -> None:
    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json"))
    hooks = [*kwargs["logits_processor"], *kwargs["stopping_criteria"]]
    assert [re.sub(r"\[.*\]", "[...]", repr(hook)) for hook in hooks] == [
        "GuidanceProcessor()",
        "GuidanceCriteria(eos_token_id=[...])",
    ]


@pytest.mark.parametrize("way", [copy.deepcopy, pickle.dumps])
def test_kwargs_are_not_copied_deeply(tiny_guide: Any, way: Any) -> None:
    with pytest.raises(PlanError, match="call guide.batch again"):
        way(generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json")))


def test_a_loop_of_ones_own_uses_the_processor_as_it_is(tiny_guide: Any) -> None:
    plan = plan_of(tiny_guide, "json")
    inputs = checked_inputs(tiny_guide.context, ["Say"], [plan])
    (processor,) = generate_kwargs(tiny_guide.context, inputs, [plan])["logits_processor"]
    expected = alone(tiny_guide, "json", inputs["input_ids"])
    for _ in range(2):
        ids = inputs["input_ids"]
        for token in expected:
            scores = processor(ids, tiny_guide.model(ids).logits[:, -1].float())
            assert int(scores.argmax()) == token
            ids = torch.cat([ids, torch.tensor([[token]])], dim=-1)


def test_drafts_that_no_one_says_are_taken_back_are_refused(tiny_guide: Any) -> None:
    """Without inputs and without the criterion they look like a new prompt."""
    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json"))
    del kwargs["stopping_criteria"]
    ids = ids_of(tiny_guide, 'Say {"ok": true, "n": 1} {"ok": true, "n": 2}')
    with pytest.raises(PlanError, match=r"taken back.*stopping_criteria of guide.batch together"):
        run(tiny_guide, ids, prompt_lookup_num_tokens=3, **kwargs)


@pytest.mark.parametrize("drafts", ["prompt_lookup", "assisted"])
@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("text", ['Say {"ok": true, "n": 1} {"ok": true, "n": 2}', "assistant"])
def test_drafts_next_to_processors_of_others(tiny_guide: Any, drafts: str, bound: bool, text: str) -> None:
    """Candidate generators run the processors by themselves: taken-back drafts were taken for a call without us."""
    call = GuidedCall(tiny_guide, [text], ["json"], bound=bound)
    ids = call.inputs["input_ids"]
    options = {"prompt_lookup_num_tokens": 3} if drafts == "prompt_lookup" else {"assistant_model": tiny_guide.model}
    expected = alone(tiny_guide, "json", ids)
    call.kwargs["logits_processor"] += MINE
    for _ in range(2):
        assert call.generate(**options)[0, ids.shape[1] :].tolist() == expected


def test_a_loop_that_loses_its_prompt_is_refused(tiny_guide: Any) -> None:
    def window(model: Any, input_ids: Any, logits_processor: Any, stopping_criteria: Any, **rest: Any) -> Any:
        for _ in range(5):
            scores = logits_processor(input_ids[:, -3:], model(input_ids).logits[:, -1].float())
            input_ids = torch.cat([input_ids, scores.argmax(-1)[:, None]], dim=-1)
        return input_ids

    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json"))
    with pytest.raises(PlanError, match="does not begin with its prompt"):
        tiny_guide.model.generate(ids_of(tiny_guide, "Say a thing"), max_new_tokens=9, custom_generate=window, **kwargs)


# -- nothing but histories is shown: kwargs without inputs, the processor alone


@pytest.fixture
def session(tiny_guide: Any) -> Any:
    plan = tiny_guide.plan(response_format=Regex("[a-z]{12}"))
    return generate_kwargs(tiny_guide.context, None, plan)["logits_processor"][0].session


def shown(session: Any, ids: list[int], *, is_step: bool = True) -> list[int]:
    """Show one row of ``ids``; return what the row counts as written."""
    assert session.read(torch.tensor([ids]), session.engine.vocab_size if is_step else None)
    return list(session.rows[0].state.tokens)


@pytest.fixture
def letter(tiny_guide: Any) -> int:
    (token,) = tiny_guide.tokenizer("q", add_special_tokens=False)["input_ids"]
    return int(token)


@pytest.mark.parametrize("more", range(3, 8))
def test_a_longer_prompt_is_not_taken_for_the_running_answer(session: Any, letter: int, more: int) -> None:
    """The processor alone shows a prompt and five tokens; then a prompt that begins as the first one did."""
    for size in range(6):
        assert shown(session, [5, 6, *[letter] * size]) == [letter] * size
    other = [5, 6, *[7] * more]
    if more > 6:
        assert shown(session, other) == []
    else:
        with pytest.raises(PlanError, match="does not go on from the one before it"):
            shown(session, other)


def test_a_prompt_of_one_token_begins_a_call_after_an_interrupted_one(session: Any, letter: int) -> None:
    for size in range(3):
        shown(session, [5, 6, *[letter] * size])
        shown(session, [5, 6, *[letter] * (size + 1)], is_step=False)
    shown(session, [5, 6, *[letter] * 3])  # here a later processor raised
    for _ in range(2):
        assert shown(session, [1]) == []
    assert shown(session, [1, letter], is_step=False) == [letter]
