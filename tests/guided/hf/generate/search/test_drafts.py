"""Drafts: taken from the prompt, or written by a smaller model with the same tokenizer or with another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import ModelError
from tests.guided.hf.conftest import tiny_model
from tests.judges.generation import (
    CHATS,
    FORMATS,
    GuidedCall,
    check_all,
    check_greedy,
    generate,
    greedy,
    judge_kwargs,
    plan_of,
)
from tests.made_up.models import forwards_of
from tests.made_up.tokenizers import small_tokenizer

MODE = ("prompt lookup", "right", "drafts are tested by the mask and taken back; the tokens are those of greedy search")
MODES = [
    ("assisted decoding, same tokenizer", "right", "drafts are masked, tested and taken back"),
    ("assisted by its own first layers (assistant_early_exit)", "right", "as with the same tokenizer"),
    ("assisted decoding, another tokenizer", "right", "drafts in other ids stay unmasked; the verification masks them"),
    ("the same, with a vocabulary of the same width", "refused", "by transformers, which takes it for one tokenizer"),
]


PROMPTS = [*CHATS[:2], '{"ok": true, "n": 7} and {"ok": false, "n": 12}', "yesterday yes no abcabcx"]


@pytest.mark.parametrize("name", ["json", "choice", "regex"])
@pytest.mark.parametrize("num_drafts", [1, 3, 10])
def test_looked_up_tokens_are_those_of_greedy_search(tiny_guide: Any, name: str, num_drafts: int) -> None:
    for chat in PROMPTS:
        check_greedy(tiny_guide, [name], generate(tiny_guide, [chat], [name], prompt_lookup_num_tokens=num_drafts))


def test_drafts_save_forwards_and_rollbacks_are_counted(tiny_guide: Any) -> None:
    """A drafts' test that lost its place would refuse all drafts: as many forwards as tokens."""
    with forwards_of(tiny_guide.model) as forwards:
        *_, messages = generate(tiny_guide, PROMPTS[2:3], ["json"], prompt_lookup_num_tokens=6)
    assert len(forwards) < len(messages[0].token_ids)
    assert messages[0].guidance.rollbacks > 0


@pytest.mark.parametrize("seed", range(3))
def test_sampling_with_drafts_is_that_of_the_judge(tiny_guide: Any, seed: int) -> None:
    options = {"do_sample": True, "top_k": 0, "prompt_lookup_num_tokens": 4}
    torch.manual_seed(seed)
    result = inputs, plans, out, _ = generate(tiny_guide, PROMPTS[2:3], ["json"], **options)
    check_all(tiny_guide, ["json"], result)
    torch.manual_seed(seed)
    judge = tiny_guide.model.generate(**inputs, **options, max_new_tokens=40, **judge_kwargs(tiny_guide, inputs, plans))
    assert torch.equal(out, judge)


# -- a model that writes drafts


def small_assistant(tiny_guide: Any, extra: int = 0) -> Any:
    model = tiny_model(len(tiny_guide.tokenizer) + extra, hidden_size=16, intermediate_size=24, num_hidden_layers=1)
    model.generation_config.eos_token_id = tiny_guide.model.generation_config.eos_token_id
    model.generation_config.pad_token_id = tiny_guide.model.generation_config.pad_token_id
    return model


@pytest.fixture(scope="module")
def assistant(tiny_guide: Any) -> Any:
    return small_assistant(tiny_guide)


@pytest.mark.parametrize("name", ["json", "choice", "regex"])
def test_the_tokens_are_those_of_greedy_search(tiny_guide: Any, assistant: Any, name: str) -> None:
    for chat in CHATS[:3]:
        check_greedy(tiny_guide, [name], generate(tiny_guide, [chat], [name], assistant_model=assistant))


@pytest.mark.parametrize("name", FORMATS)
def test_the_models_own_first_layers(tiny_guide: Any, name: str) -> None:
    check_greedy(tiny_guide, [name], generate(tiny_guide, CHATS[:1], [name], assistant_early_exit=1))


@pytest.mark.parametrize("seed", range(4))
def test_sampled_drafts(tiny_guide: Any, assistant: Any, seed: int) -> None:
    torch.manual_seed(seed)
    options = {"do_sample": True, "top_k": 0, "assistant_model": assistant}
    check_all(tiny_guide, ["json"], generate(tiny_guide, CHATS[:1], ["json"], **options))


def with_foreigner(tiny_guide: Any, text: str) -> dict[str, Any]:
    """Options for an assistant over another vocabulary.  Made anew: sampling rewrites the assistant's layers."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text), eos_token="<|end|>", pad_token="<|end|>"
    )
    model = tiny_model(len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=1)
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = tokenizer.eos_token_id
    return {"assistant_model": model, "tokenizer": tiny_guide.tokenizer, "assistant_tokenizer": tokenizer}


@pytest.fixture
def foreigner(tiny_guide: Any) -> dict[str, Any]:
    text = small_tokenizer(("<|end|>",), words=(" yes", "perhaps", " thing"), special=("<|end|>",))
    return with_foreigner(tiny_guide, text)


@pytest.mark.parametrize("name", ["json", "choice"])
def test_another_tokenizer_greedy(tiny_guide: Any, foreigner: dict[str, Any], name: str) -> None:
    check_greedy(tiny_guide, [name], generate(tiny_guide, CHATS[:1], [name], **foreigner))


def test_another_tokenizer_sampled(tiny_guide: Any, foreigner: dict[str, Any]) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        result = generate(tiny_guide, CHATS[:1], ["json"], do_sample=True, top_k=0, **foreigner)
        check_all(tiny_guide, ["json"], result)


@pytest.mark.parametrize("name", FORMATS)
def test_another_tokenizer_without_inputs(tiny_guide: Any, foreigner: dict[str, Any], name: str) -> None:
    """The assistant's prompt comes first: it was taken for ours."""
    plan = plan_of(tiny_guide, name)
    kwargs = generate_kwargs(tiny_guide.context, None, plan)
    for chat in CHATS[:2]:
        inputs = checked_inputs(tiny_guide.context, [chat], [plan])
        out = tiny_guide.model.generate(**inputs, max_new_tokens=40, do_sample=False, **foreigner, **kwargs)
        assert out[0, inputs.prompt_len :].tolist() == greedy(tiny_guide, inputs.prompt_ids[0], plan)


@pytest.fixture(scope="module")
def padded_assistant(tiny_guide: Any) -> Any:
    """A model over the same tokenizer whose vocabulary is padded to another width."""
    return small_assistant(tiny_guide, extra=24)


@pytest.mark.parametrize("bound", [True, False])
def test_a_padded_vocabulary(tiny_guide: Any, padded_assistant: Any, bound: bool) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"], bound=bound)
    tokenizers = {"tokenizer": tiny_guide.tokenizer, "assistant_tokenizer": tiny_guide.tokenizer}
    for _ in range(2):
        (tokens,), _ = call.run(assistant_model=padded_assistant, **tokenizers)
        assert tokens == greedy(tiny_guide, call.inputs.prompt_ids[0], call.plans[0])


@pytest.mark.parametrize("bound", [True, False])
def test_kwargs_for_a_model_of_another_width_are_refused(tiny_guide: Any, padded_assistant: Any, bound: bool) -> None:
    """Not taken for an assistant's scores and left unmasked."""
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"], bound=bound)
    others = checked_inputs(tiny_guide.context, ["something else"])
    for options in ({}, {"num_beams": 2}, {"prompt_lookup_num_tokens": 2}):
        with pytest.raises(ModelError, match=r"scores are \d+ wide.*the guide was made with"):
            padded_assistant.generate(**others, max_new_tokens=9, do_sample=False, **options, **call.kwargs)
    (tokens,), _ = call.run()
    assert tokens == greedy(tiny_guide, call.inputs.prompt_ids[0], call.plans[0])


def test_another_tokenizer_of_the_same_width_is_refused(tiny_guide: Any) -> None:
    """Its ids look like ours; transformers takes equal widths for one tokenizer and says so."""
    width = len(tiny_guide.tokenizer)
    markers = tuple(f"<m{i}>" for i in range(width - 256 - 1))
    text = small_tokenizer(("<|end|>", *markers), words=(), special=("<|end|>",))
    options = with_foreigner(tiny_guide, text)
    assert len(options["assistant_tokenizer"]) == width
    with pytest.raises(ValueError, match="not required when the main and assistant models use the same tokenizer"):
        generate(tiny_guide, CHATS[:1], ["json"], **options)
