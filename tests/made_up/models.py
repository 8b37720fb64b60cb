"""Tiny random models of many architectures, float32, one of each per process."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from typing import Any

import torch
import transformers

__all__ = ["ARCHITECTURES", "VOCABULARY", "WINDOW", "forwards_of", "made", "poisoned", "t5", "with_attention"]

VOCABULARY = 96

#: Shorter than the texts of the tests.
WINDOW = 6

_PLAIN = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.25,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MIXED = {
    "sliding_window": WINDOW,
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}
_EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2}


@cache
def made(name: str, **changes: Any) -> Any:
    """The model of ``name`` (``LlamaForCausalLM``) with random weights, in evaluation mode."""
    settings = _PLAIN | {key: list(value) if isinstance(value, tuple) else value for key, value in changes.items()}
    torch.manual_seed(1)
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**settings)).eval()
    with torch.no_grad():  # so that biases, sinks and norms that begin as constants count too
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


def t5() -> Any:
    """A model with an encoder."""
    small = {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**small)).eval()


def with_attention(model: Any, implementation: str) -> Any:
    """A copy of ``model`` with another attention implementation."""
    other = copy.deepcopy(model)
    other.set_attn_implementation(implementation)
    return other


@contextmanager
def forwards_of(model: Any) -> Iterator[list[torch.Tensor]]:
    """Inside, a list of the token ids ``[rows, columns]`` of each forward of the model."""
    fed: list[torch.Tensor] = []
    with model.register_forward_pre_hook(lambda _, args, named: fed.append(named["input_ids"]), with_kwargs=True):
        yield fed


@contextmanager
def poisoned(
    model: Any,
    *,
    since: int = 0,
    until: float = math.inf,
    rows: Any = slice(None),
    ids: Any = slice(None),
    value: float = math.nan,
) -> Iterator[None]:
    """Inside, logits are ``value`` from forward ``since`` on, before ``until``: of all rows and ids, or of some."""
    forwards = count()

    def poison(module: Any, args: Any, output: Any) -> Any:
        if since <= next(forwards) < until:
            output.logits[rows, :, ids] = value
        return output

    with model.register_forward_hook(poison):
        yield


def _frozen(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}


#: Architecture -> a function that returns its model.
ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "llama": partial(made, "LlamaForCausalLM"),
    "qwen3": partial(made, "Qwen3ForCausalLM"),
    "mistral": partial(made, "MistralForCausalLM", sliding_window=WINDOW),
    "gemma3": partial(made, "Gemma3ForCausalLM", **_frozen(_MIXED), query_pre_attn_scalar=8),
    "gpt_oss": partial(made, "GptOssForCausalLM", **_frozen(_MIXED | _EXPERTS)),
    "gpt2": partial(made, "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4, n_positions=256),
    "glm4": partial(made, "Glm4ForCausalLM"),
    "bloom": partial(made, "BloomForCausalLM", n_layer=2, n_head=4),
    "lfm2": partial(made, "Lfm2ForCausalLM", layer_types=("conv", "full_attention", "conv"), num_hidden_layers=3),
    "qwen3_next": partial(
        made,
        "Qwen3NextForCausalLM",
        layer_types=("linear_attention", "full_attention"),
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    ),
    "mamba": partial(made, "MambaForCausalLM", state_size=8),
}
