"""Logits wider or narrower than the tokenizer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import guided
from guided.hf.generate.call import read_messages
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import ModelError
from tests.guided.hf.conftest import tiny_model
from tests.judges.generation import CHATS, GuidedCall, check_all, check_answer, generate
from tests.made_up.scripts import write

MODE = ("logits wider than the tokenizer", "right", "the tail is masked")
MODES = [("logits narrower than the tokenizer", "refused", "ModelError when the guide is made, by the model itself")]


def guide_of(tiny_guide: Any, width: int) -> Any:
    model = tiny_model(width)
    model.generation_config = tiny_guide.model.generation_config
    return guided.Guide(model, tiny_guide.tokenizer)


@pytest.mark.parametrize("extra", [1, 24, 31, 100])
def test_G6_the_tail_of_wide_logits_is_masked(tiny_guide: Any, extra: int) -> None:
    guide = guide_of(tiny_guide, len(tiny_guide.tokenizer) + extra)
    with torch.no_grad():  # the tail would win every step
        guide.model.lm_head.weight[-extra:] *= 50
    for options in ({}, {"num_beams": 3}, {"do_sample": True}):
        names = ["json", "choice"]
        result = generate(guide, CHATS[:2], names, **options)
        check_all(guide, names, result)


def test_G6_narrow_logits_are_refused_when_the_guide_is_made(tiny_guide: Any) -> None:
    with pytest.raises(ModelError, match="logits are 200 wide"):
        guide_of(tiny_guide, 200)


def test_a_model_that_was_resized_after_the_guides_back(tiny_guide: Any) -> None:
    """Wider: right all the same; so narrow that nothing legal is left: an error and no accident."""
    width = len(tiny_guide.tokenizer)
    guide = guide_of(tiny_guide, width)
    guide.model.resize_token_embeddings(width + 40)
    check_all(guide, ["json"], generate(guide, CHATS[:1], ["json"]))
    call = GuidedCall(guide, CHATS[:1], ["choice"])
    with pytest.raises(ModelError, match="build the guide with this very model"):
        call.kwargs["logits_processor"][0](call.inputs["input_ids"], torch.zeros(1, 40))


@pytest.mark.parametrize("width", [280, 295])
def test_G6_a_last_layer_narrower_than_its_config_is_refused_as_well(tiny_guide: Any, width: int) -> None:
    """It died in mid-run, where the grammar first wanted a token beyond it."""
    model = tiny_model(len(tiny_guide.tokenizer))
    model.lm_head = torch.nn.Linear(32, width, bias=False)
    with pytest.raises(ModelError, match=f"logits are {width} wide, the tokenizer has ids up to 295"):
        guided.Guide(model, tiny_guide.tokenizer)


@pytest.mark.parametrize("bound", [True, False])
def test_a_last_layer_wider_than_its_config(tiny_guide: Any, bound: bool) -> None:
    model = tiny_model(len(tiny_guide.tokenizer))
    narrow, model.lm_head = model.lm_head, torch.nn.Linear(32, 340, bias=False)
    with torch.no_grad():
        model.lm_head.weight *= 50
        model.lm_head.weight[:296] = narrow.weight
    model.generation_config = tiny_guide.model.generation_config
    guide = guided.Guide(model, tiny_guide.tokenizer)
    for options in ({}, {"num_beams": 3}, {"prompt_lookup_num_tokens": 3}):
        (tokens,), (message,) = GuidedCall(guide, CHATS[:1], ["json"], bound=bound).run(**options)
        check_answer(guide, "json", tokens, message)


@pytest.mark.parametrize("row", [None, guided.Stops(["never"])], ids=["plain", "stops alone"])
def test_G6_ids_past_the_tokenizer_write_no_text_in_plain_rows(tiny_guide: Any, row: Any) -> None:
    """Their logits are the model's business; the text holds nothing of them, and the message says so."""
    width = len(tiny_guide.tokenizer)
    guide = guide_of(tiny_guide, width + 24)
    script = [*guide.engine.tokenize("One"), width + 3, *guide.engine.tokenize(" two"), width + 23, width + 3]
    script += guide.tokens.end_ids[:1]
    inputs = checked_inputs(guide.context, ["hi"], [row])
    out = torch.tensor([[*inputs.prompt_ids[0], *script]])
    (message,) = read_messages(guide.context, out, inputs, [row])
    with write(guide, "hi", script):
        (ours,) = guide.generate(["hi"], [row], sampling=guided.Sampling(temperature=0), max_tokens=len(script))
        stream = guide.stream("hi", guided.Stops(["never"]), temperature=0, max_tokens=len(script))
        texts = [event.text for event in stream]  # type: ignore[union-attr]
    for found in (message, ours, stream.message):
        assert (found.content, found.finish_reason, found.token_ids) == ("One two", "stop", tuple(script))
        assert found.notes == (
            f"ids {width + 3}, {width + 23} lie past the tokenizer, which ends at {width - 1}: no text",
        )
    assert "".join(texts) == "One two"
    (clean,) = read_messages(guide.context, out[:, : inputs.prompt_len + 2], inputs, [row])
    assert clean.notes == ()
