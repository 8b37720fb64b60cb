"""Prompts without a chat template: base models, text or ids, healed at their ends under a plan."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from transformers import AutoTokenizer

import guided
from guided import Choice, Regex, Stops
from guided.hf.generate.raw_prompts import heal
from special_tokens.errors import RequestError
from tests.judges.plans import plan_of
from tests.made_up.schemas import closed

FORMAT = closed({"ok": {"type": "boolean"}})
TEXT = "Yes: 17 é:\n"


def without_template(guide: Any) -> Any:
    tokenizer = copy.deepcopy(guide.tokenizer)
    tokenizer.chat_template = None
    return guided.Guide(guide.model, tokenizer)


@pytest.fixture(scope="module")
def base_guide(tiny_guide: Any) -> Any:
    """The guide of a model whose tokenizer has no chat template."""
    return without_template(tiny_guide)


@pytest.fixture(scope="module")
def word_guide(demo_guide: Any) -> Any:
    """A real vocabulary with long tokens, and no chat template."""
    return without_template(demo_guide)


def test_a_base_model_answers_texts_and_ids(base_guide: Any) -> None:
    ids = base_guide.tokenizer.encode("Is it? ")
    for prompt in ("Is it? ", ids, [ids]):
        message = base_guide.chat(prompt=prompt, response_format=Choice(["yes", "no"]))
        assert message.content in ("yes", "no")
    several = base_guide.generate(prompt=["Is it? ", ids], response_format=Choice(["yes", "no"]))
    assert [m.content for m in several] == [message.content] * 2
    batch = base_guide.batch(prompt=["Is it? ", "Say: "], response_format=Choice(["yes", "no"]))
    out = base_guide.model.generate(**batch, max_new_tokens=12, do_sample=False)
    assert batch.messages(out)[0].content == message.content
    with pytest.raises(guided.TemplateError, match="the tokenizer has no chat template.*set tokenizer.chat_template"):
        base_guide.chat("Is it?")


def test_a_prompt_without_a_plan_is_as_generate_continues_it(base_guide: Any) -> None:
    encoded = base_guide.tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False)
    out = base_guide.model.generate(**encoded, max_new_tokens=9, do_sample=False)
    (message,) = base_guide.generate(prompt=TEXT, temperature=0, max_tokens=9)
    assert list(message.token_ids) == out[0, encoded["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"response_format": FORMAT},
        {"response_format": Regex(r"\w[a-z .]{3,8}!")},
        {"response_format": Choice(["Hello", "says: x"])},
        {"response_format": FORMAT, "reasoning_effort": "minimal", "max_tokens": 150},
        {"max_tokens": 6, "stop": Stops(("\n", "e"))},
    ],
    ids=str,
)
def test_a_text_cut_anywhere_plus_its_answer_parses_as_uncut(base_guide: Any, options: dict[str, Any]) -> None:
    """The end that is written again has the same text and is not part of the message; the plain text is the judge."""
    whole = base_guide.plan(**options)
    for cut in range(1, len(TEXT) + 1):
        prompt = TEXT[:cut]
        message = base_guide.chat(prompt=prompt, temperature=1.0, seed=cut, **options)
        assert message.error is None
        kept = base_guide.tokenizer.decode(message.prompt_ids)
        written = base_guide.tokenizer.decode(message.token_ids)
        assert (kept + written).startswith(prompt)
        answer = (kept + written)[len(prompt) :]
        judge = base_guide.parse(base_guide.tokenizer.encode(answer), whole)
        assert (message.content, message.reasoning, message.parsed) == (judge.content, judge.reasoning, judge.parsed)
        assert message.finish_reason == "length" or not message.violations


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen3", "llama3_1", "mistral", "gemma3", "gptoss", "llama2", "smollm2"])
def test_what_is_kept_and_what_is_written_again_are_the_prompt(
    real_engine: Any, tokenizer_folder: Any, name: str
) -> None:
    """For every cut of a text in every kind of vocabulary, and never more than some longer token begins with."""
    engine = real_engine(name)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(name))
    plan = plan_of(engine, response_format=Choice(["a"]))
    text = "def f(x):\n    return x  # « héllo » 12345 of the international\t日本語\n\n"
    vocabulary = [engine.token_bytes(i) for i in range(engine.vocab_size)]
    healed = 0
    for cut in range(1, len(text) + 1):
        ids = tokenizer(text[:cut])["input_ids"]
        kept, row = heal(ids, plan, engine)
        again = row.regions[-1].exits[0].trigger[0] if row is not plan else ""
        assert list(ids[: len(kept)]) == kept
        assert b"".join(map(engine.token_bytes, ids)) == b"".join(map(engine.token_bytes, kept)) + again.encode()
        assert not again or any(token.startswith(again.encode()) and token != again.encode() for token in vocabulary)
        healed += bool(again)
    assert healed > len(text) // 3


def test_the_end_of_a_prompt_may_be_written_in_another_token(word_guide: Any) -> None:
    """A text that ends in a blank or inside a word: the model's own token for it and what follows is possible."""
    for prompt, choice, merged in (("Two and two is ", "four", " four"), ("The sky is bl", "ue", " blue")):
        (token,) = word_guide.tokenizer.encode(merged)
        message = word_guide.chat(prompt=prompt, response_format=Choice([choice]), temperature=0)
        assert message.content == message.parsed == choice
        assert token in message.token_ids
        assert word_guide.tokenizer.decode([*message.prompt_ids, *message.token_ids[:-1]]) == prompt + choice


def test_healing_in_every_way_of_answering(word_guide: Any) -> None:
    options: dict[str, Any] = {"response_format": FORMAT, "max_tokens": 20}
    prompt = 'The sky is blue.\nJSON: {"a": 1}\nJSON: '
    message = word_guide.chat(prompt=prompt, temperature=0, **options)
    stream = word_guide.stream(prompt=prompt, temperature=0, **options)
    assert "".join(getattr(event, "text", "") for event in stream) == message.content == stream.message.content
    batch = word_guide.batch(prompt=[prompt, prompt[:-3]], **options)
    first, second = batch.messages(word_guide.model.generate(**batch, do_sample=False))
    assert first.token_ids == message.token_ids
    assert first.parsed is not None is not second.parsed
    traced = word_guide.chat(prompt=prompt, temperature=0, trace=True, **options)
    assert len(traced.trace.tokens) == len(message.token_ids)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (5, "prompt: int is not a prompt"),
        (b"x", "prompt: bytes is not a prompt"),
        ([], "prompt: list is not a prompt"),
        ([[]], r"prompt\[0\]: the prompt is empty"),
        ("", r"prompt\[0\]: the prompt is empty"),
        ([10**9], r"prompt\[0\]: not token ids of this model; expected a text, or token ids below"),
        ([-1], r"prompt\[0\]: not token ids"),
        ([1.5], r"prompt\[0\]: not token ids"),
        (["a", "b"], "prompt: 2 prompts; expected one .*use guide.generate"),
        ({"attention_mask": [1]}, "prompt: there are no input_ids"),
    ],
    ids=str,
)
def test_what_is_no_prompt(base_guide: Any, prompt: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        base_guide.chat(prompt=prompt, response_format=int)
