"""Logits wider or narrower than the tokenizer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import guided
from special_tokens.errors import ModelError
from tests.guided.hf.conftest import tiny_model
from tests.judges.generation import CHATS, GuidedCall, check_all, check_answer, generate
from tests.made_up.scripts import read_everywhere

MODE = ("logits wider than the tokenizer", "right", "the tail is masked")
MODES = [("logits narrower than the tokenizer", "refused", "ModelError when the guide is made, by the model itself")]


def guide_of(tiny_guide: Any, width: int, *, in_config: bool = True) -> Any:
    """A guide of a model with logits of this width, as its config says or not."""
    model = tiny_model(width if in_config else len(tiny_guide.tokenizer))
    if not in_config:
        narrow, model.lm_head = model.lm_head, torch.nn.Linear(32, width, bias=False)
        model.lm_head.weight.data[: len(narrow.weight)] = narrow.weight.data[:width]
    model.generation_config = tiny_guide.model.generation_config
    return guided.Guide(model, tiny_guide.tokenizer)


@pytest.mark.parametrize(
    ("extra", "in_config", "bound"),
    [(1, True, True), (24, True, False), (31, True, True), (100, True, False), (44, False, True), (44, False, False)],
)
def test_G6_the_tail_of_wide_logits_is_masked(tiny_guide: Any, extra: int, in_config: bool, bound: bool) -> None:
    guide = guide_of(tiny_guide, len(tiny_guide.tokenizer) + extra, in_config=in_config)
    with torch.no_grad():  # the tail would win every step
        guide.model.lm_head.weight[-extra:] *= 50
    for i, options in enumerate(({}, {"num_beams": 3}, {"do_sample": True}, {"prompt_lookup_num_tokens": 3})):
        name = ("json", "choice")[i % 2]
        (tokens,), (message,) = GuidedCall(guide, CHATS[:1], [name], bound=bound).run(**options)
        check_answer(guide, name, tokens, message)


@pytest.mark.parametrize(("width", "in_config"), [(200, True), (280, False), (295, False)])
def test_G6_narrow_logits_are_refused_when_the_guide_is_made(tiny_guide: Any, width: int, in_config: bool) -> None:
    """It died in mid-run, where the grammar first wanted a token beyond it."""
    with pytest.raises(ModelError, match=f"logits are {width} wide, the tokenizer has ids up to 295"):
        guide_of(tiny_guide, width, in_config=in_config)


def test_a_model_that_was_resized_after_the_guides_back(tiny_guide: Any) -> None:
    """Wider: right all the same; so narrow that nothing legal is left: an error and no accident."""
    width = len(tiny_guide.tokenizer)
    guide = guide_of(tiny_guide, width)
    guide.model.resize_token_embeddings(width + 40)
    check_all(guide, ["json"], generate(guide, CHATS[:1], ["json"]))
    call = GuidedCall(guide, CHATS[:1], ["choice"])
    with pytest.raises(ModelError, match="build the guide with this very model"):
        call.kwargs["logits_processor"][0](call.inputs["input_ids"], torch.zeros(1, 40))


@pytest.mark.parametrize("row", [None, guided.Stops(["never"])], ids=["plain", "stops alone"])
def test_G6_ids_past_the_tokenizer_write_no_text_in_plain_rows(tiny_guide: Any, row: Any) -> None:
    """Their logits are the model's business; the text holds nothing of them, and the message says so."""
    width = len(tiny_guide.tokenizer)
    guide = guide_of(tiny_guide, width + 24)
    script = [*guide.engine.tokenize("One"), width + 3, *guide.engine.tokenize(" two"), width + 23, width + 3]
    script += guide.tokens.end_ids[:1]
    *messages, events = read_everywhere(guide, script, row)
    for found in messages:
        assert (found.content, found.finish_reason, found.token_ids) == ("One two", "stop", tuple(script))
        assert found.notes == (
            f"ids {width + 3}, {width + 23} lie past the tokenizer, which ends at {width - 1}: no text",
        )
    assert "".join(event.text for event in events[:-1]) == "One two"
    assert [message.notes for message in read_everywhere(guide, script[:1], row)[:3]] == [()] * 3
