"""The self-test: its findings on each architecture, and that each known silent failure is found."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import transformers

from guided.hf.cache.kv_cache import attention_masks
from guided.hf.cache.self_test import Abilities, _largest, abilities_of
from tests.made_up.models import ARCHITECTURES, with_attention

ALL = (True, True, True, True)

#: several, crop, snapshot, ragged
EXPECTED = {
    "llama": ALL,
    "qwen3": ALL,
    "mistral": ALL,
    "gemma3": ALL,
    "gpt_oss": ALL,
    "gpt2": ALL,
    "glm4": ALL,
    "bloom": (True, True, True, False),
    "lfm2": (True, False, True, False),
    "qwen3_next": (True, False, True, False),
    "mamba": (False, False, True, False),
}


def switches(found: Abilities) -> tuple[bool, ...]:
    return found.several, found.crop, found.snapshot, found.ragged


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_is_on_for_each_architecture(name: str) -> None:
    found = abilities_of(ARCHITECTURES[name]())
    assert switches(found) == EXPECTED[name]
    assert bool(found.notes) == (switches(found) != ALL)
    assert ("several tokens in one forward off" in " ".join(found.notes)) == (not found.several)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "gpt_oss"])
def test_eager_attention_is_as_able(name: str) -> None:
    assert switches(abilities_of(with_attention(ARCHITECTURES[name](), "eager"))) == ALL


def test_models_that_count_columns_have_no_rows_of_different_lengths() -> None:
    """Found by a row of 23 tokens next to one of 419: GPT-Neo's local window left the short one without its keys."""
    kinds = [[["global", "local"], 1]]
    sizes: dict[str, Any] = {"vocab_size": 96, "hidden_size": 32, "num_heads": 2, "num_layers": 2}
    model = transformers.GPTNeoForCausalLM(transformers.GPTNeoConfig(**sizes, attention_types=kinds)).eval()
    found = abilities_of(model)
    assert switches(found) == (True, True, True, False)
    assert "counts columns" in " ".join(found.notes)


def test_models_that_choose_their_tokens_are_decoded_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny ones differed by 0.3 to 1.1 between several tokens and single ones, past ``index_topk`` tokens."""
    model = copy.deepcopy(ARCHITECTURES["llama"]())
    monkeypatch.setattr(model.config, "index_topk", 8, raising=False)
    found = abilities_of(model)
    assert switches(found) == (False, False, False, False)
    assert "chooses the tokens" in " ".join(found.notes)


def test_a_bool_mask_on_eager_attention_is_found_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_bool(config: Any, positions: torch.Tensor, columns: int, dtype: torch.dtype) -> Any:
        masks = attention_masks(config, positions, columns, dtype)
        return {kind: mask == 0 for kind, mask in masks.items()}

    monkeypatch.setattr("guided.hf.cache.kv_cache.attention_masks", as_bool)
    found = abilities_of(copy.deepcopy(ARCHITECTURES["gpt_oss"]()))
    assert switches(found) == (True, True, True, False)
    assert "the logits differ by" in found.notes[0]


def sabotaged(**replaced: Any) -> Any:
    """A Llama whose forward replaces some of its arguments."""
    model = copy.deepcopy(ARCHITECTURES["llama"]())
    forward = model.forward

    def other(
        input_ids: Any = None,
        past_key_values: Any = None,
        position_ids: Any = None,
        attention_mask: Any = None,
        **rest: Any,
    ) -> Any:
        given = {"past_key_values": past_key_values, "position_ids": position_ids, "attention_mask": attention_mask}
        return forward(input_ids=input_ids, **(given | replaced), **rest)

    model.forward = other
    return model


@pytest.mark.parametrize("ignored", ["position_ids", "attention_mask"])
def test_a_model_that_ignores_positions_or_masks_has_no_ragged_rows(ignored: str) -> None:
    assert switches(abilities_of(sabotaged(**{ignored: None}))) == (True, True, True, False)


def test_a_model_that_ignores_the_cache_has_nothing() -> None:
    found = abilities_of(sabotaged(past_key_values=None))
    assert found == Abilities(notes=found.notes)
    assert "with and without a cache" in found.notes[0]


def test_a_model_in_training_mode_has_nothing() -> None:
    model = copy.deepcopy(ARCHITECTURES["gpt2"]()).train()
    assert switches(abilities_of(model)) == (False,) * 4
    assert switches(abilities_of(model.eval())) == ALL


def test_a_forward_that_raises_and_an_encoder_are_decoded_step_by_step() -> None:
    def refuse(**_: Any) -> None:
        raise NotImplementedError("no single rows\nat all")

    model = copy.deepcopy(ARCHITECTURES["llama"]())
    model.forward = refuse
    found = abilities_of(model)
    assert found.notes == ("LlamaForCausalLM is not called with a KV cache like others: decoded step by step",)
    small = transformers.T5Config(vocab_size=96, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    assert "has an encoder" in abilities_of(transformers.T5ForConditionalGeneration(small).eval()).notes[0]
    assert abilities_of(object()).notes


def test_a_model_is_tested_once_until_its_attention_changes() -> None:
    model = copy.deepcopy(ARCHITECTURES["llama"]())
    calls = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    first = abilities_of(model)
    count = len(calls)
    assert abilities_of(model) is first
    assert len(calls) == count <= 20
    model.set_attn_implementation("eager")
    abilities_of(model)
    assert len(calls) > count


def test_what_is_off_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    model = copy.deepcopy(ARCHITECTURES["bloom"]())
    with caplog.at_level("WARNING", logger="guided"):
        notes = [abilities_of(model).notes for _ in range(3)]
    assert caplog.messages == list(notes[0])
    assert len(notes[0]) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_the_abilities(dtype: torch.dtype) -> None:
    assert switches(abilities_of(copy.deepcopy(ARCHITECTURES["llama"]()).to(dtype))) == ALL


def test_angles_that_depend_on_the_length_are_decoded_step_by_step() -> None:
    """Kept states of a short text are wrong in a long one."""
    model = copy.deepcopy(ARCHITECTURES["llama"]())
    model.config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    found = abilities_of(model)
    assert (found.several, found.crop, found.ragged) == (False, False, False)
    assert "turns its positions by the length of the text: decoded step by step" in found.notes[0]


def test_a_lack_of_memory_says_nothing_of_the_model() -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("full")

    model = copy.deepcopy(ARCHITECTURES["llama"]())
    with model.register_forward_pre_hook(full), pytest.raises(torch.OutOfMemoryError):
        abilities_of(model)
    assert abilities_of(model).ragged


def test_errors_that_are_no_numbers_are_the_largest() -> None:
    assert math.isnan(_largest(0.1, math.nan))
    assert math.isnan(_largest(math.nan, 0.1))
    assert _largest(0.1, 0.2) == 0.2
