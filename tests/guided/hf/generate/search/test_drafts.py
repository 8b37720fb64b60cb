"""Drafts: taken from the prompt, or written by a smaller model with the same tokenizer or with another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import ModelError
from tests.guided.hf.conftest import tiny_model
from tests.judges.generation import CHATS, FORMATS, GuidedCall, check_all, check_greedy, generate, greedy, judge_kwargs
from tests.made_up.models import forwards_of
from tests.made_up.tokenizers import live_tokenizer, small_tokenizer

MODE = ("prompt lookup", "right", "drafts are tested by the mask and taken back; the tokens are those of greedy search")
MODES = [
    ("assisted decoding, same tokenizer", "right", "drafts are masked, tested and taken back"),
    ("assisted by its own first layers (assistant_early_exit)", "right", "as with the same tokenizer"),
    ("assisted decoding, another tokenizer", "right", "drafts in other ids stay unmasked; the verification masks them"),
    ("the same, with a vocabulary of the same width", "refused", "by transformers, which takes it for one tokenizer"),
]

PROMPTS = [*CHATS[:2], '{"ok": true, "n": 7} and {"ok": false, "n": 12}', "yesterday yes no abcabcx"]


def small_assistant(guide: Any, extra: int = 0) -> Any:
    """A model over the same tokenizer, whose vocabulary may be padded to another width."""
    model = tiny_model(len(guide.tokenizer) + extra, hidden_size=16, intermediate_size=24, num_hidden_layers=1)
    model.generation_config = guide.model.generation_config
    return model


def foreigner(guide: Any, text: str) -> dict[str, Any]:
    """Options for an assistant over another vocabulary.  Made anew: sampling rewrites the assistant's layers."""
    tokenizer = live_tokenizer(text, eos_token="<|end|>", pad_token="<|end|>")
    model = tiny_model(len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=1)
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = tokenizer.eos_token_id
    return {"assistant_model": model, "tokenizer": guide.tokenizer, "assistant_tokenizer": tokenizer}


def drafted(guide: Any, way: Any) -> dict[str, Any]:
    """The options of ``generate`` for a way to get drafts; a number is that of the tokens that are looked up."""
    if way == "the same tokenizer":
        return {"assistant_model": small_assistant(guide)}
    if way == "a padded vocabulary":
        tokenizers = dict.fromkeys(("tokenizer", "assistant_tokenizer"), guide.tokenizer)
        return tokenizers | {"assistant_model": small_assistant(guide, extra=24)}
    if way == "another tokenizer":
        words = (" yes", "perhaps", " thing")
        return foreigner(guide, small_tokenizer(("<|end|>",), words=words, special=("<|end|>",)))
    return {"assistant_early_exit": 1} if way == "its own first layers" else {"prompt_lookup_num_tokens": way}


WAYS = [1, 3, 10, "the same tokenizer", "its own first layers", "a padded vocabulary", "another tokenizer"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("way", WAYS)
def test_the_tokens_are_those_of_greedy_search(tiny_guide: Any, way: Any, name: str) -> None:
    """Without inputs the assistant's prompt comes first: it was taken for ours."""
    for i, chat in enumerate(PROMPTS):
        call = GuidedCall(tiny_guide, [chat], [name], bound=i % 2 == 0)
        out = call.generate(**drafted(tiny_guide, way))
        check_greedy(tiny_guide, [name], (call.inputs, call.plans, out, call.read(out)))


def test_drafts_save_forwards_and_rollbacks_are_counted(tiny_guide: Any) -> None:
    """A drafts' test that lost its place would refuse all drafts: as many forwards as tokens."""
    with forwards_of(tiny_guide.model) as forwards:
        *_, messages = generate(tiny_guide, PROMPTS[2:3], ["json"], prompt_lookup_num_tokens=6)
    assert len(forwards) < len(messages[0].token_ids)
    assert messages[0].guidance.rollbacks > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("way", [4, "the same tokenizer", "another tokenizer"])
def test_sampled_answers_are_legal_and_look_up_samples_what_the_judge_does(
    tiny_guide: Any, way: Any, seed: int
) -> None:
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": 40, **drafted(tiny_guide, way)}
    torch.manual_seed(seed)
    result = inputs, plans, out, _ = generate(tiny_guide, PROMPTS[2:3], ["json"], **options)
    check_all(tiny_guide, ["json"], result)
    if way == 4:
        torch.manual_seed(seed)
        judge = tiny_guide.model.generate(**inputs, **options, **judge_kwargs(tiny_guide, inputs, plans))
        assert torch.equal(out, judge)


@pytest.mark.parametrize("bound", [True, False])
def test_kwargs_for_a_model_of_another_width_are_refused(tiny_guide: Any, bound: bool) -> None:
    """Not taken for an assistant's scores and left unmasked."""
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"], bound=bound)
    others = checked_inputs(tiny_guide.context, ["something else"])
    wide = small_assistant(tiny_guide, extra=24)
    for options in ({}, {"num_beams": 2}, {"prompt_lookup_num_tokens": 2}):
        with pytest.raises(ModelError, match=r"scores are \d+ wide.*the guide was made with"):
            wide.generate(**others, max_new_tokens=9, do_sample=False, **options, **call.kwargs)
    (tokens,), _ = call.run()
    assert tokens == greedy(tiny_guide, call.inputs.prompt_ids[0], call.plans[0])


def test_another_tokenizer_of_the_same_width_is_refused(tiny_guide: Any) -> None:
    """Its ids look like ours; transformers takes equal widths for one tokenizer and says so."""
    width = len(tiny_guide.tokenizer)
    markers = ("<|end|>", *(f"<m{i}>" for i in range(width - 256 - 1)))
    options = foreigner(tiny_guide, small_tokenizer(markers, words=(), special=("<|end|>",)))
    assert len(options["assistant_tokenizer"]) == width
    with pytest.raises(ValueError, match="not required when the main and assistant models use the same tokenizer"):
        generate(tiny_guide, CHATS[:1], ["json"], **options)
