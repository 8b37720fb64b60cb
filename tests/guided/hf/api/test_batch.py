"""A batch for ``model.generate``: one name for prompts, guidance and sampling, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import BatchEncoding

import guided
from guided import Choice, Regex, Sampling
from special_tokens.errors import GuidedError, PlanError
from tests.judges.generation import GuidedCall

CHATS = ["hello", "tell me why it is so", "x"]
FORMAT = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def test_a_batch_is_inputs_and_kwargs_of_one_plan_for_all_rows(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=FORMAT)
    call, options = GuidedCall(tiny_guide, CHATS, [plan] * 3, describe=True), {"max_new_tokens": 30, "do_sample": False}
    out = call.generate(**options)
    judge = call.read(out)
    for batch in (
        tiny_guide.batch(CHATS, response_format=FORMAT),
        tiny_guide.batch(CHATS, plan),
        tiny_guide.batch(CHATS, [plan] * 3),
    ):
        for _ in range(2):
            found = batch.messages(tiny_guide.model.generate(**batch, **options))
            assert [(m.parsed, m.token_ids) for m in found] == [(m.parsed, m.token_ids) for m in judge]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, {}),
        ({"temperature": 0}, {"do_sample": False}),
        ({"temperature": 0.5, "top_p": 0.9}, {"do_sample": True, "temperature": 0.5, "top_p": 0.9}),
        ({"top_k": 1, "temperature": 1.0}, {"do_sample": False}),
        ({"top_k": 7}, {"do_sample": True, "top_k": 7}),
        ({"n": 3}, {"do_sample": True, "num_return_sequences": 3}),
        ({"max_tokens": 5}, {"max_new_tokens": 5}),
        ({"repetition_penalty": 1.5}, {"repetition_penalty": 1.5}),
        ({"logit_bias": {7: 3}}, {"sequence_bias": {(7,): 3.0}}),
        ({"prompt_lookup_num_tokens": 3}, {"prompt_lookup_num_tokens": 3}),
        ({"sampling": Sampling(temperature=0.5)}, {"do_sample": True, "temperature": 0.5}),
    ],
    ids=str,
)
def test_sampling_in_the_words_of_generate(tiny_guide: Any, options: dict[str, Any], words: dict[str, Any]) -> None:
    batch = tiny_guide.batch(CHATS[:1], response_format=int, **options)
    hooks = ("input_ids", "attention_mask", "logits_processor", "stopping_criteria")
    assert {key: value for key, value in batch.items() if key not in hooks} == words
    tiny_guide.model.generate(**{"max_new_tokens": 3} | dict(batch))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 3}, "seed: model.generate cannot follow it .*torch.manual_seed"),
        ({"reuse": False}, "reuse: model.generate cannot follow it"),
        ({"in_place": 3}, "batch: in_place=3; expected True or False"),
        ({"trace": True}, "trace: model.generate cannot follow it"),
        ({"logprobs": True}, "logprobs: model.generate"),
        ({"presence_penalty": 0.5}, "presence_penalty: model.generate"),
        ({"sampling": [Sampling()] * 3}, "sampling: a sampling for each chat"),
        ({"on_error": "raise"}, "on_error"),
        ({"prompt": "x"}, "batch: both of chats and prompt"),
        ({"temprature": 1}, "unknown keyword 'temprature'"),
    ],
    ids=str,
)
def test_what_generate_cannot_follow_is_refused(tiny_guide: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(GuidedError, match=words):
        tiny_guide.batch(CHATS, response_format=int, **options)


def test_prompts_of_a_tokenizer_are_bound_to_plans(tiny_guide: Any) -> None:
    """A plain BatchEncoding, padded on either side."""
    tokenizer = tiny_guide.tokenizer
    encoding = tokenizer(["Say it", "a longer one of them"], padding=True, padding_side="left", return_tensors="pt")
    assert isinstance(encoding, BatchEncoding)
    encoding.pop("token_type_ids", None)
    right = tokenizer(["Say it", "a longer one of them"], padding=True, padding_side="right", return_tensors="pt")
    for chats in (encoding, encoding["input_ids"][1:], right):
        batch = tiny_guide.batch(chats, response_format=Choice(["yes", "no"]))
        messages = batch.messages(tiny_guide.model.generate(**batch, max_new_tokens=12, do_sample=False))
        assert {m.content for m in messages} <= {"yes", "no"}
    plans = [tiny_guide.plan(response_format=Choice(["yes", "no"])), None]
    batch = tiny_guide.batch(encoding, plans)
    assert batch.messages(tiny_guide.model.generate(**batch, max_new_tokens=9))[0].content in ("yes", "no")


def test_a_batch_without_prompts_guides_any(tiny_guide: Any) -> None:
    """As in a pipeline: one plan for every row."""
    batch = tiny_guide.batch(response_format=Choice(["yes", "no"]), max_tokens=9)
    assert "input_ids" not in batch
    for chats in (CHATS, CHATS[:1]):
        prompts = tiny_guide.batch(chats).inputs
        output = tiny_guide.model.generate(**prompts, **batch, do_sample=False)
        texts = tiny_guide.tokenizer.batch_decode(output[:, prompts.prompt_len :], skip_special_tokens=True)
        assert {text.strip() for text in texts} <= {"yes", "no"}
    with pytest.raises(PlanError, match="messages: the batch has no prompts .*guide.parse"):
        batch.messages(output)


def test_ids_are_read_as_the_message_that_they_are(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=FORMAT)
    message = tiny_guide.chat("hi", plan, temperature=0, max_tokens=30)
    for ids in (message.token_ids, list(message.token_ids), torch.tensor(message.token_ids)):
        found = tiny_guide.parse(ids, plan)
        assert (found.parsed, found.content, found.finish_reason) == (message.parsed, message.content, "stop")
    assert tiny_guide.parse(message.token_ids[:3], plan).finish_reason == "length"
    encoded = tiny_guide.parse(tiny_guide.tokenizer.encode(message.content), plan)  # without an end
    assert (encoded.parsed, encoded.finish_reason) == (message.parsed, "stop")
    assert encoded.usage.completion_tokens == len(encoded.token_ids)
    refused = tiny_guide.parse(tiny_guide.tokenizer.encode("no JSON"), plan)
    assert (refused.parsed, refused.content) == (None, "no JSON")
    assert tiny_guide.parse(tiny_guide.tokenizer.encode("free text")).content == "free text"
    with pytest.raises(GuidedError, match=r"ids: .* expected a list of token ids"):
        tiny_guide.parse("text", plan)


@pytest.mark.parametrize(
    ("parts", "error", "words"),
    [
        *[
            ((model, *more), guided.ModelError, r"model: \w+ is not a language .* \(guided.Guide.from_pretrained\(name")
            for model in (None, torch.nn.Linear(2, 2), "SmolLM2")
            for more in (["its own"], [])
        ],
        *[
            (("its own", *more), guided.TokenizerError, r"tokenizer: no tokenizer .*.*guided.Guide\(model, tokenizer\)")
            for more in ([None], [])
        ],
        *[
            (("its own", tokenizer), guided.TokenizerError, "tokenizer: .* has no fast backend")
            for tokenizer in ("SmolLM2", 1)
        ],
    ],
    ids=str,
)
def test_what_is_no_model_or_no_tokenizer_is_refused_when_the_guide_is_made(
    tiny_guide: Any, parts: tuple[Any, ...], error: type[GuidedError], words: str
) -> None:
    owned = (tiny_guide.model, tiny_guide.tokenizer)
    with pytest.raises(error, match=words):
        guided.Guide(*(own if part == "its own" else part for part, own in zip(parts, owned, strict=False)))


# -- what a plan accepts


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ('{"ok": true}', None),
        ('{"ok": tru', 10),
        ('{"ok": maybe}', 7),
        ('{"ko": true}', 2),
        ('{"ok": true} and more', 12),
        ("", 0),
        ("é", 0),
    ],
)
def test_where_a_text_is_refused(tiny_guide: Any, text: str, at: int | None) -> None:
    found = tiny_guide.accepts(tiny_guide.plan(response_format=FORMAT), text)
    assert (bool(found), found.refused_at) == (at is None, at)
    assert found.is_cut == (at == len(text))
    if at == 7:
        assert set("".join(found.expected)) <= set("truefalse")


def test_an_answer_of_every_plan_is_accepted(tiny_guide: Any) -> None:
    """By the text alone, whatever tokens it came in, markers of reasoning and calls included."""
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}
    for options in (
        {"response_format": Regex("[a-f]{9}")},
        {"response_format": FORMAT, "reasoning_effort": "minimal"},
        {"tools": [tool], "tool_choice": "required"},
    ):
        plan = tiny_guide.plan(**options)
        text = tiny_guide.tokenizer.decode(tiny_guide.chat("hi", plan, temperature=1.0, seed=4).token_ids[:-1])
        assert tiny_guide.accepts(plan, text), text
        assert tiny_guide.accepts(plan, text[:-1]).refused_at is not None
