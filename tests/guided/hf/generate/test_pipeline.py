"""The text-generation pipeline: one processor object for prompt after prompt."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import pipeline

from special_tokens.errors import PlanError
from tests.guided.hf.generate.laws import CHATS, CHOICES, FORMATS, greedy, plan_of

MODE = ("text-generation pipeline", "right", "`generate_kwargs(None, plan)` guides whatever prompts come")

OPTIONS = {"max_new_tokens": 40, "do_sample": False, "return_full_text": False}


@pytest.fixture(scope="module")
def pipe(tiny_guide: Any) -> Any:
    return pipeline("text-generation", model=tiny_guide.model, tokenizer=tiny_guide.tokenizer)


def chats(texts: list[str]) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": text}] for text in texts]


def texts_of(results: Any) -> list[str]:
    return [r["generated_text"] for result in results for r in (result if isinstance(result, list) else [result])]


@pytest.mark.parametrize("batch_size", [1, 3])
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


def test_unbound_kwargs_want_one_plan(tiny_guide: Any) -> None:
    with pytest.raises(PlanError, match="one plan for all rows"):
        tiny_guide.generate_kwargs(None, [plan_of(tiny_guide, "json")])
