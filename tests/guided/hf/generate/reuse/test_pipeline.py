"""The text-generation pipeline: one processor object for prompt after prompt."""

from __future__ import annotations

import copy
import operator
import pickle
import re
from itertools import product
from typing import Any

import pytest
import torch
from transformers import LogitsProcessorList, pipeline

from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.inputs import checked_inputs
from guided.state.state import GuidanceState
from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, CHOICES, FORMATS, GuidedCall, greedy, plan_of

MODE = ("text-generation pipeline", "right", "a batch without prompts guides whatever prompts come")

MODES_OF_SEARCH: list[dict[str, Any]] = [
    {},
    {"num_beams": 3},
    {"prompt_lookup_num_tokens": 3},
    {"do_sample": True, "top_k": 1},
]
OPTIONS = {"max_new_tokens": 40, "do_sample": False, "return_full_text": False}


@pytest.fixture(scope="module")
def pipe(tiny_guide: Any) -> Any:
    return pipeline("text-generation", model=tiny_guide.model, tokenizer=tiny_guide.tokenizer)


def chats(texts: list[str]) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": text}] for text in texts]


def texts_of(results: Any) -> list[str]:
    return [r["generated_text"] for result in results for r in (result if isinstance(result, list) else [result])]


@pytest.mark.parametrize("batch_size", [3, 1])
@pytest.mark.parametrize("name", FORMATS)
def test_one_plan_for_all_prompts(tiny_guide: Any, pipe: Any, name: str, batch_size: int) -> None:
    plan = plan_of(tiny_guide, name)
    kwargs = generate_kwargs(tiny_guide.context, None, plan)
    for _ in range(2):
        found = texts_of(pipe(chats(CHATS), batch_size=batch_size, **OPTIONS, **kwargs))
        inputs = checked_inputs(tiny_guide.context, CHATS, [plan] * 4)
        for ids, text in zip(inputs.prompt_ids, found, strict=True):
            assert FORMATS[name][1](text)
            tokens = greedy(tiny_guide, ids, plan)
            assert text == tiny_guide.tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"do_sample": True, "num_return_sequences": 3}], ids=str)
def test_beams_and_several_answers(tiny_guide: Any, pipe: Any, options: dict[str, Any]) -> None:
    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json"))
    for chat in chats(CHATS[:2]):
        for text in texts_of([pipe(chat, **OPTIONS | options, **kwargs)]):
            assert FORMATS["json"][1](text)


def test_bound_kwargs_serve_the_prompt_they_belong_to(tiny_guide: Any, pipe: Any) -> None:
    plan = plan_of(tiny_guide, "choice")
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], [plan])
    kwargs = generate_kwargs(tiny_guide.context, inputs, [plan])
    (text,) = texts_of(pipe(chats(CHATS[:1]), **OPTIONS, **kwargs))
    assert text in CHOICES
    with pytest.raises(PlanError, match="do not end with the prompts"):
        pipe(chats(CHATS[2:3]), **OPTIONS, **kwargs)


# -- prompts that continue the last prompt and answer, which were taken for drafts taken back


def alone(guide: Any, name: str, ids: torch.Tensor, **options: Any) -> list[int]:
    """Return the tokens that a call with kwargs of its own writes after ``ids``."""
    kwargs = generate_kwargs(guide.context, None, plan_of(guide, name))
    options = {"max_new_tokens": 40, "do_sample": False} | options
    return guide.model.generate(ids, attention_mask=torch.ones_like(ids), **options, **kwargs)[
        0, ids.shape[1] :
    ].tolist()


def ids_of(guide: Any, text: str) -> torch.Tensor:
    return torch.tensor([guide.tokenizer.encode(text)])


@pytest.mark.parametrize("name", FORMATS)
def test_prompts_that_begin_with_the_last_prompt(tiny_guide: Any, pipe: Any, name: str) -> None:
    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, name))
    prompts = ["Hello", "Hello there", "Hello there you", "Hello", "Hello", "Hello{", 'Hello{"', "Hell"]
    found = texts_of(pipe(prompts, **OPTIONS, **kwargs))
    for prompt, text in zip(prompts, found, strict=True):
        assert FORMATS[name][1](text), prompt
        tokens = alone(tiny_guide, name, ids_of(tiny_guide, prompt))
        assert text == tiny_guide.tokenizer.decode(tokens, skip_special_tokens=True)


def run(guide: Any, ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    """Return what ``generate`` makes of ``ids`` int64 ``[1, length]``, at most 40 tokens more."""
    kwargs = {"max_new_tokens": 40, "do_sample": False} | kwargs
    out: torch.Tensor = guide.model.generate(ids, attention_mask=torch.ones_like(ids), **kwargs)
    return out


@pytest.mark.parametrize("options", MODES_OF_SEARCH, ids=str)
@pytest.mark.parametrize("size", [4, 1])
def test_a_cut_answer_that_is_the_next_prompt_goes_on(tiny_guide: Any, options: dict[str, Any], size: int) -> None:
    plan = plan_of(tiny_guide, "json")
    kwargs = generate_kwargs(tiny_guide.context, None, plan)
    first = out = ids_of(tiny_guide, "Say")
    for _ in range(3):
        out = run(tiny_guide, out, **options, max_new_tokens=size, **kwargs)
    answer = out[0, first.shape[1] :].tolist()
    assert len(answer) == 3 * size
    GuidanceState(plan, tiny_guide.engine).commit(answer)  # raises where it is not one legal text
    if "num_beams" not in options:
        assert answer == alone(tiny_guide, "json", first)[: 3 * size]


@pytest.mark.parametrize("options", MODES_OF_SEARCH, ids=str)
@pytest.mark.parametrize("size", [4, 1, 40])
def test_prompts_made_of_an_output(tiny_guide: Any, options: dict[str, Any], size: int) -> None:
    """A whole answer, a token less, the prompt alone or with the first token, and longer ones."""
    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json"))
    first = ids_of(tiny_guide, "Say")
    options = options | {"max_new_tokens": size}
    whole = [lambda out: out] if size == 40 else []
    for made in (
        *whole,
        lambda out: out[:, :-1],
        lambda _: first,
        lambda out: out[:, : first.shape[1] + 1] if out.shape[1] > first.shape[1] + 2 else first,
        lambda out: torch.cat([out, first], dim=1),
    ):
        prompt = made(run(tiny_guide, first, **options, **kwargs))
        out = run(tiny_guide, prompt, **options, **kwargs)
        assert out[0, prompt.shape[1] :].tolist() == alone(tiny_guide, "json", prompt, **options)


def test_embeddings_and_then_ids_without_inputs(tiny_guide: Any) -> None:
    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json"))
    ids = ids_of(tiny_guide, "Say")
    expected = alone(tiny_guide, "json", ids)
    embeds = tiny_guide.model.get_input_embeddings()(ids)
    shown: list[dict[str, Any]] = [{"inputs_embeds": embeds}, {"input_ids": ids}, {"inputs_embeds": embeds}]
    for which in shown:
        out = tiny_guide.model.generate(
            **which, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False, **kwargs
        )
        assert out[0, -len(expected) :].tolist() == expected
        longer = torch.cat([out, ids], dim=1)
        again = run(tiny_guide, longer, max_new_tokens=6, **kwargs)
        assert again[0, longer.shape[1] :].tolist() == alone(tiny_guide, "json", longer, max_new_tokens=6)


MINE = [lambda input_ids, scores: scores]
WAYS = {
    "list": lambda items: list(items),
    "splat": lambda items: [*items, *MINE],
    "LogitsProcessorList": lambda items: LogitsProcessorList(items),
    "LogitsProcessorList with mine": lambda items: LogitsProcessorList([*items, *MINE]),
    "extended": lambda items: (mine := [*MINE], mine.extend(items))[0],
    "slice": lambda items: items[:],
    "copy": lambda items: items.copy(),
    "copy.copy": lambda items: copy.copy(items),
    "mine after": lambda items: items + MINE,
    "mine before": lambda items: LogitsProcessorList(MINE) + items,
    "added in place": lambda items: operator.iadd(items, MINE),
    "added to mine": lambda items: operator.iadd([*MINE], items),
}


@pytest.mark.parametrize("case", list(product([True, False], [True, False], WAYS)), ids=str)
def test_F9_the_lists_are_plain_lists(tiny_guide: Any, case: tuple[bool, bool, str]) -> None:
    """Bound to its inputs or good for any; with its criterion or without it; one call after the other."""
    bound, kept, way = case
    call = GuidedCall(tiny_guide, ["Say"], ["json"], bound=bound)
    inputs, kwargs = call.inputs, call.kwargs
    assert type(kwargs["logits_processor"]) is type(kwargs["stopping_criteria"]) is list
    other = kwargs | {"logits_processor": WAYS[way](kwargs["logits_processor"])}
    if not kept:
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


def test_what_is_added_in_place_runs(tiny_guide: Any) -> None:
    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json"))
    items, seen = kwargs["logits_processor"], []
    items += [lambda input_ids, scores: seen.append(1) or scores]
    tiny_guide.model.generate(ids_of(tiny_guide, "Say"), max_new_tokens=3, **kwargs)
    assert len(seen) == 3


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


@pytest.mark.parametrize("options", MODES_OF_SEARCH, ids=str)
@pytest.mark.parametrize("change", ["copied", "left out", "left out later"])
def test_what_becomes_of_the_criterion_does_not_matter(tiny_guide: Any, options: dict[str, Any], change: str) -> None:
    """Prompts that are longer than the last output, or the same prompt again, begin a call with it and without it."""
    if change == "left out" and "prompt_lookup_num_tokens" in options:
        pytest.skip("refused, see the next test")
    kwargs = generate_kwargs(tiny_guide.context, None, plan_of(tiny_guide, "json"))
    first = dict(kwargs)
    if change == "copied":
        first["stopping_criteria"] = list(kwargs["stopping_criteria"])
    elif change == "left out":
        del first["stopping_criteria"]
    then = {key: value for key, value in first.items() if change == "copied" or key != "stopping_criteria"}
    ids = ids_of(tiny_guide, "Say")
    options = {"max_new_tokens": 9} | options
    for longer in (lambda out: torch.cat([out, ids, ids], 1), lambda _: ids):
        prompt = longer(run(tiny_guide, ids, **options, **first))
        if "prompt_lookup_num_tokens" in options:
            then = first
        found = run(tiny_guide, prompt, **options, **then)[0, prompt.shape[1] :].tolist()
        expected = alone(tiny_guide, "json", prompt, **options)
        assert found[: len(expected)] == expected


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


def test_unbound_kwargs_want_one_plan(tiny_guide: Any) -> None:
    with pytest.raises(PlanError, match="batch: there are no chats; expected chats, or one plan"):
        generate_kwargs(tiny_guide.context, None, [plan_of(tiny_guide, "json")])
