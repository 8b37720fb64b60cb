"""Models whose hidden states cannot be read off are refused with the reason, as are wrong values of a request."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
import transformers

import guided
from guided.hf import hidden_states
from guided.hf.cache.kv_cache import RowKV
from guided.hf.hidden.settings import check_hidden_states
from tests.made_up.models import ARCHITECTURES, t5

SMALL = {"vocab_size": 96, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}


def with_another_head_input() -> Any:
    """A Llama that scales its states before its output embeddings, as models with muP do."""
    model = copy.deepcopy(ARCHITECTURES["llama"]())
    head = model.lm_head

    class Scaled(torch.nn.Module):
        def forward(self, states: Any) -> Any:
            return head(states * 0.5)

    model.lm_head = Scaled()
    model.get_output_embeddings = lambda: head
    return model


def with_states_that_change() -> Any:
    """A Llama whose states change with later tokens, as those of an encoder."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).eval()
    norm = model.model.norm.forward
    model.model.norm.forward = lambda states: norm(states + states.mean(dim=1, keepdim=True))
    return model


REFUSED = {
    "an encoder-decoder": (t5, "T5ForConditionalGeneration: an encoder-decoder has no hidden state"),
    "no decoder": (
        lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)).eval(),
        "BertForMaskedLM: ",
    ),
    "no output embeddings": (
        lambda: transformers.LlamaModel(transformers.LlamaConfig(**SMALL)).eval(),
        r"LlamaModel: its states cannot be seen \(LlamaModel has no output embeddings",
    ),
    "another input of the head": (
        with_another_head_input,
        "LlamaForCausalLM: what enters its output embeddings is not its last hidden state",
    ),
    "states that change": (
        with_states_that_change,
        "it is not a decoder: its states change with the tokens that follow",
    ),
    "no model": (object, "object: its states cannot be seen"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_model_without_such_states_is_refused(kind: str) -> None:
    make, message = REFUSED[kind]
    model = make()
    for _ in range(2):  # remembered
        with pytest.raises(guided.ModelError, match=message):
            check_hidden_states(model)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_passes_once(name: str) -> None:
    model = copy.deepcopy(ARCHITECTURES[name]())
    check_hidden_states(model)
    calls = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    check_hidden_states(model)
    assert not calls


def test_half_precision_passes_and_gives_float32(tiny_guide: Any) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        check_hidden_states(copy.deepcopy(ARCHITECTURES["llama"]()).to(dtype))
    model = copy.deepcopy(tiny_guide.model).to(torch.bfloat16)
    guide = guided.Guide(model, tiny_guide.tokenizer)
    state = guide.chat("x", max_tokens=4, return_last_hidden_state=True).last_hidden_state
    assert state.at_token.dtype == "float32"


def test_forwards_of_other_threads_are_not_seen() -> None:
    model = ARCHITECTURES["llama"]()
    alone = RowKV(model, 1)
    alone.feed([[5, 6, 7]], hidden=True)
    cache = RowKV(model, 1)

    def disturb(*_: Any) -> None:
        thread = threading.Thread(target=lambda: RowKV(model, 1).feed([[9, 9, 9, 9]]))
        disturbance.remove()
        thread.start()
        thread.join()

    disturbance = model.model.norm.register_forward_hook(disturb)
    cache.feed([[5, 6, 7]], hidden=True)
    assert cache.hidden is not None
    assert alone.hidden is not None
    torch.testing.assert_close(cache.hidden, alone.hidden)


# -- wrong values


def test_settings_are_checked() -> None:
    with pytest.raises(guided.RequestError, match="unknown strategy 'both'; expected auto, hybrid or prefill"):
        guided.hf.HiddenStates("both")  # type: ignore[arg-type]
    for size in (0, -1, True, 1.5):
        with pytest.raises(guided.RequestError, match=r"max_prefill_batch_size: .* is out of range; expected an"):
            guided.hf.HiddenStates(max_prefill_batch_size=size)  # type: ignore[arg-type]


def test_positions_and_messages_are_checked(tiny_guide: Any) -> None:
    message = tiny_guide.chat("x", max_tokens=3, temperature=0)
    for positions in (3, -4, [0, 3], [True], ["0"], 1.0, [1.5]):
        with pytest.raises(guided.RequestError, match=r"positions: .* is out of range"):
            hidden_states(tiny_guide, message, positions=positions)
    with pytest.raises(guided.RequestError, match="positions: no position is given"):
        hidden_states(tiny_guide, message, positions=[])
    with pytest.raises(guided.RequestError, match="state: unknown state 'last'"):
        hidden_states(tiny_guide, message, state="last")
    with pytest.raises(guided.RequestError, match="message: the message has no prompt"):
        hidden_states(tiny_guide, guided.Message(token_ids=(5,)))
    with pytest.raises(guided.RequestError, match=r"guide: str is not a guide; expected hidden_states\(guide, mess"):
        hidden_states("x", message)  # type: ignore[arg-type]


# -- off by default, and free


def hooks_of(model: Any) -> int:
    return sum(len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules())


@pytest.mark.parametrize("wanted", [False, True])
def test_a_step_has_one_hook_where_states_are_wanted_and_none_elsewhere(tiny_guide: Any, wanted: bool) -> None:
    """Counted inside each forward; afterwards none is left, and no tensor of the run either."""
    model, counts = tiny_guide.model, []
    forward = model.forward

    def counting(**inputs: Any) -> Any:
        counts.append(hooks_of(model))
        return forward(**inputs)

    tiny_guide.chat("x", max_tokens=3, return_last_hidden_state=True)  # the self-test
    before = hooks_of(model)
    model.forward = counting
    try:
        message = tiny_guide.chat("x", temperature=0, max_tokens=8, return_last_hidden_state=wanted, reuse=False)
    finally:
        del model.forward
    assert [count - before for count in counts] == [int(wanted)] * message.usage.forwards
    assert message.usage.forwards == 8 + wanted
    assert hooks_of(model) == before


def test_the_states_of_a_run_take_two_vectors_a_row_whatever_its_length(tiny_guide: Any, monkeypatch: Any) -> None:
    """Between the steps nothing is held of rows that go on."""
    held = []
    take = guided.hf.hidden.messages.LastStates.take

    def measured(self: Any, *args: Any) -> None:
        take(self, *args)
        held.append(sum(state.untyped_storage().nbytes() for state in self._states.values()))

    monkeypatch.setattr("guided.hf.hidden.messages.LastStates.take", measured)
    size = tiny_guide.model.config.hidden_size * 4
    for length in (4, 60):
        held.clear()
        message = tiny_guide.chat("x", temperature=0, max_tokens=length, return_last_hidden_state=True)
        assert len(message.token_ids) == length
        assert held == [0] * (length - 1) + [size, 2 * size]
