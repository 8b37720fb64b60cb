"""The text-generation pipeline: one processor object for prompt after prompt."""

from __future__ import annotations

import copy
import operator
import pickle
from itertools import product
from typing import Any

import pytest
import torch
from transformers import LogitsProcessorList, pipeline

from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, CHOICES, FORMATS, greedy, plan_of

MODE = ("text-generation pipeline", "right", "`generate_kwargs(None, plan)` guides whatever prompts come")

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
    kwargs = tiny_guide.generate_kwargs(None, plan)
    for _ in range(2):
        found = texts_of(pipe(chats(CHATS), batch_size=batch_size, **OPTIONS, **kwargs))
        inputs = tiny_guide.inputs(CHATS, [plan] * 4)
        for ids, text in zip(inputs.prompt_ids, found, strict=True):
            assert FORMATS[name][1](text)
            tokens = greedy(tiny_guide, ids, plan)
            assert text == tiny_guide.tokenizer.decode(tokens, skip_special_tokens=True)


def test_the_next_turn_follows_the_last_answer(tiny_guide: Any, pipe: Any) -> None:
    """A prompt that continues the last prompt and answer is a new call, not more of the old one."""
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "choice"))
    chat = chats(CHATS[:1])[0]
    for _ in range(3):
        (text,) = texts_of(pipe(chat, **OPTIONS, **kwargs))
        assert text in CHOICES
        chat += [{"role": "assistant", "content": text}, {"role": "user", "content": "more"}]


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"do_sample": True, "num_return_sequences": 3}], ids=str)
def test_beams_and_several_answers(tiny_guide: Any, pipe: Any, options: dict[str, Any]) -> None:
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json"))
    for chat in chats(CHATS[:2]):
        for text in texts_of([pipe(chat, **OPTIONS | options, **kwargs)]):
            assert FORMATS["json"][1](text)


def test_bound_kwargs_serve_the_prompt_they_belong_to(tiny_guide: Any, pipe: Any) -> None:
    plan = plan_of(tiny_guide, "choice")
    inputs = tiny_guide.inputs(CHATS[:1], [plan])
    kwargs = tiny_guide.generate_kwargs(inputs, [plan])
    (text,) = texts_of(pipe(chats(CHATS[:1]), **OPTIONS, **kwargs))
    assert text in CHOICES
    with pytest.raises(PlanError, match="do not end with the prompts"):
        pipe(chats(CHATS[2:3]), **OPTIONS, **kwargs)


# -- prompts that continue the last prompt and answer, which were taken for drafts taken back


def alone(guide: Any, name: str, ids: torch.Tensor, **options: Any) -> list[int]:
    """Return the tokens that a call with kwargs of its own writes after ``ids``."""
    kwargs = guide.generate_kwargs(None, plan_of(guide, name))
    options = {"max_new_tokens": 40, "do_sample": False} | options
    return guide.model.generate(ids, attention_mask=torch.ones_like(ids), **options, **kwargs)[
        0, ids.shape[1] :
    ].tolist()


def ids_of(guide: Any, text: str) -> torch.Tensor:
    return torch.tensor([guide.tokenizer.encode(text)])


@pytest.mark.parametrize("name", FORMATS)
def test_prompts_that_begin_with_the_last_prompt(tiny_guide: Any, pipe: Any, name: str) -> None:
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, name))
    prompts = ["Hello", "Hello there", "Hello there you", "Hello", "Hello", "Hello{", 'Hello{"', "Hell"]
    found = texts_of(pipe(prompts, **OPTIONS, **kwargs))
    for prompt, text in zip(prompts, found, strict=True):
        assert FORMATS[name][1](text), prompt
        tokens = alone(tiny_guide, name, ids_of(tiny_guide, prompt))
        assert text == tiny_guide.tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.mark.parametrize("options", MODES_OF_SEARCH, ids=str)
@pytest.mark.parametrize("size", [4, 1, 40])
def test_an_output_is_the_next_prompt(tiny_guide: Any, options: dict[str, Any], size: int) -> None:
    """The very tensor that came out, and one token less or more of it."""
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json"))
    ids = first = ids_of(tiny_guide, "Say")
    for _ in range(3):
        mask = torch.ones_like(ids)
        out = tiny_guide.model.generate(
            ids, attention_mask=mask, **{"max_new_tokens": size, "do_sample": False} | options, **kwargs
        )
        assert out[0, ids.shape[1] :].tolist() == alone(tiny_guide, "json", ids, **options, max_new_tokens=size)
        ids = out
    for prompt in (ids[:, :-1], ids, first, ids[:, : first.shape[1] + 1], torch.cat([ids, first], dim=1)):
        mask = torch.ones_like(prompt)
        out = tiny_guide.model.generate(
            prompt, attention_mask=mask, **{"max_new_tokens": size, "do_sample": False} | options, **kwargs
        )
        assert out[0, prompt.shape[1] :].tolist() == alone(tiny_guide, "json", prompt, **options, max_new_tokens=size)


def test_modes_one_after_the_other_over_growing_prompts(tiny_guide: Any) -> None:
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json"))
    ids = ids_of(tiny_guide, "Say")
    for options in [*MODES_OF_SEARCH, *reversed(MODES_OF_SEARCH)]:
        options = {"max_new_tokens": 5, "do_sample": False} | options
        out = tiny_guide.model.generate(ids, attention_mask=torch.ones_like(ids), **options, **kwargs)
        assert out[0, ids.shape[1] :].tolist() == alone(tiny_guide, "json", ids, **options)
        ids = out


def test_embeddings_and_then_ids_without_inputs(tiny_guide: Any) -> None:
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json"))
    ids = ids_of(tiny_guide, "Say")
    expected = alone(tiny_guide, "json", ids)
    embeds = tiny_guide.model.get_input_embeddings()(ids)
    shown: list[dict[str, Any]] = [{"inputs_embeds": embeds}, {"input_ids": ids}, {"inputs_embeds": embeds}]
    for which in shown:
        out = tiny_guide.model.generate(
            **which, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False, **kwargs
        )
        assert out[0, -len(expected) :].tolist() == expected
        again = tiny_guide.model.generate(out, attention_mask=torch.ones_like(out), max_new_tokens=6, **kwargs)
        assert again[0, out.shape[1] :].tolist() == alone(tiny_guide, "json", out, max_new_tokens=6)


def test_after_an_interrupted_call_a_longer_prompt(tiny_guide: Any) -> None:
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json"))
    ids = ids_of(tiny_guide, "Say")

    def interrupt(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    for options in MODES_OF_SEARCH:
        kwargs["logits_processor"].append(interrupt)
        with pytest.raises(KeyboardInterrupt):
            tiny_guide.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, **options, **kwargs)
        kwargs["logits_processor"].remove(interrupt)
        longer = torch.cat([ids, tiny_guide.model.generate(ids, max_new_tokens=1, **kwargs)[:, -1:]], dim=1)
        out = tiny_guide.model.generate(longer, attention_mask=torch.ones_like(longer), max_new_tokens=40, **kwargs)
        assert out[0, longer.shape[1] :].tolist() == alone(tiny_guide, "json", longer)


MINE = [lambda input_ids, scores: scores]
COPIES = {
    "list": lambda items: list(items),
    "splat": lambda items: [*items, *MINE],
    "LogitsProcessorList": lambda items: LogitsProcessorList(items),
    "extended": lambda items: (mine := [*MINE], mine.extend(items))[0],
}
SAME = {
    "slice": lambda items: items[:],
    "copy": lambda items: items.copy(),
    "copy.copy": lambda items: copy.copy(items),
    "mine behind": lambda items: items + MINE,
    "mine before": lambda items: LogitsProcessorList(MINE) + items,
    "added in place": lambda items: operator.iadd(items, MINE),
    "added to mine": lambda items: operator.iadd([*MINE], items),
}


#: Bound to its inputs or good for any; with its criterion or without it.
OUTSIDE = list(product([True, False], [True, False], [*COPIES, *SAME]))


@pytest.mark.parametrize("case", OUTSIDE, ids=str)
def test_a_processor_outside_of_its_list_is_refused(tiny_guide: Any, case: tuple[bool, bool, str]) -> None:
    """Its calls have no beginning: a prompt that begins as the last call's rows do is no sign of one."""
    bound, kept, way = case
    plan = plan_of(tiny_guide, "json")
    inputs = tiny_guide.inputs(["Say"], [plan])
    kwargs = tiny_guide.generate_kwargs(inputs, [plan]) if bound else tiny_guide.generate_kwargs(None, plan)
    other = kwargs | {"logits_processor": (COPIES | SAME)[way](kwargs["logits_processor"])}
    if not kept:
        other.pop("stopping_criteria")
    expected = alone(tiny_guide, "json", inputs["input_ids"])
    options = {"max_new_tokens": 40, "do_sample": False}
    for _ in range(2):
        if way in SAME:
            out = tiny_guide.model.generate(**inputs, **options, **other)
            assert out[0, inputs.prompt_len :][: len(expected)].tolist() == expected
        else:
            with pytest.raises(PlanError, match=r"the processor was taken out of its list.*append to that list"):
                tiny_guide.model.generate(**inputs, **options, **other)
        out = tiny_guide.model.generate(**inputs, **options, **kwargs)
        assert out[0, inputs.prompt_len :].tolist() == expected


@pytest.mark.parametrize("way", [copy.deepcopy, pickle.dumps])
def test_kwargs_are_not_copied_deeply(tiny_guide: Any, way: Any) -> None:
    with pytest.raises(PlanError, match="call guide.generate_kwargs again"):
        way(tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json")))


def test_what_is_added_in_place_runs(tiny_guide: Any) -> None:
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json"))
    items, seen = kwargs["logits_processor"], []
    items += [lambda input_ids, scores: seen.append(1) or scores]
    tiny_guide.model.generate(ids_of(tiny_guide, "Say"), max_new_tokens=3, **kwargs)
    assert len(seen) == 3


def test_a_loop_of_ones_own_says_when_it_begins(tiny_guide: Any) -> None:
    plan = plan_of(tiny_guide, "json")
    inputs = tiny_guide.inputs(["Say"], [plan])
    (processor,) = tiny_guide.generate_kwargs(inputs, [plan])["logits_processor"]
    expected = alone(tiny_guide, "json", inputs["input_ids"])
    for _ in range(2):
        ids, of_call = inputs["input_ids"], processor.of_call()
        for token in expected:
            scores = of_call(ids, tiny_guide.model(ids).logits[:, -1].float())
            assert int(scores.argmax()) == token
            ids = torch.cat([ids, torch.tensor([[token]])], dim=-1)


@pytest.mark.parametrize("options", MODES_OF_SEARCH, ids=str)
@pytest.mark.parametrize("change", ["copied", "left out", "left out later"])
def test_what_becomes_of_the_criterion_does_not_matter(tiny_guide: Any, options: dict[str, Any], change: str) -> None:
    """The list of processors alone tells the calls apart, of whatever tokens the next prompt is made."""
    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json"))
    first = dict(kwargs)
    if change == "copied":
        first["stopping_criteria"] = list(kwargs["stopping_criteria"])
    elif change == "left out":
        del first["stopping_criteria"]
    then = {key: value for key, value in first.items() if change == "copied" or key != "stopping_criteria"}
    ids = ids_of(tiny_guide, "Say")
    options = {"max_new_tokens": 9, "do_sample": False} | options
    for longer in (
        lambda out: out,
        lambda out: torch.cat([out, ids[:, :1]], 1),
        lambda out: out[:, :-1],
        lambda _: ids,
    ):
        out = tiny_guide.model.generate(ids, attention_mask=torch.ones_like(ids), **options, **first)
        prompt = longer(out)
        again = tiny_guide.model.generate(prompt, attention_mask=torch.ones_like(prompt), **options, **then)
        found = again[0, prompt.shape[1] :].tolist()
        expected = alone(tiny_guide, "json", prompt, **options)
        assert found[: len(expected)] == expected


@pytest.mark.parametrize("drafts", ["prompt_lookup", "assisted"])
@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("text", ['Say {"ok": true, "n": 1} {"ok": true, "n": 2}', "assistant"])
def test_drafts_beside_processors_of_others(tiny_guide: Any, drafts: str, bound: bool, text: str) -> None:
    """Candidate generators run the processors by themselves: taken-back drafts were taken for a call without us."""
    plan = plan_of(tiny_guide, "json")
    inputs = tiny_guide.inputs([text], [plan])
    ids = inputs["input_ids"]
    options = {"prompt_lookup_num_tokens": 3} if drafts == "prompt_lookup" else {"assistant_model": tiny_guide.model}
    expected = alone(tiny_guide, "json", ids)
    kwargs = tiny_guide.generate_kwargs(inputs, [plan]) if bound else tiny_guide.generate_kwargs(None, plan)
    kwargs["logits_processor"] += MINE
    for _ in range(2):
        out = tiny_guide.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False, **options, **kwargs
        )
        assert out[0, ids.shape[1] :].tolist() == expected


def test_a_loop_that_loses_its_prompt_is_refused(tiny_guide: Any) -> None:
    def window(model: Any, input_ids: Any, logits_processor: Any, stopping_criteria: Any, **rest: Any) -> Any:
        for _ in range(5):
            scores = logits_processor(input_ids[:, -3:], model(input_ids).logits[:, -1].float())
            input_ids = torch.cat([input_ids, scores.argmax(-1)[:, None]], dim=-1)
        return input_ids

    kwargs = tiny_guide.generate_kwargs(None, plan_of(tiny_guide, "json"))
    with pytest.raises(PlanError, match="does not begin with its prompt"):
        tiny_guide.model.generate(ids_of(tiny_guide, "Say a thing"), max_new_tokens=9, custom_generate=window, **kwargs)


def test_unbound_kwargs_want_one_plan(tiny_guide: Any) -> None:
    with pytest.raises(PlanError, match="one plan for all rows"):
        tiny_guide.generate_kwargs(None, [plan_of(tiny_guide, "json")])
