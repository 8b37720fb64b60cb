"""A tiny random model with a small tokenizer: milliseconds a step, and every law can be asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.conftest import CHAT_TEMPLATE, SPECIAL
from tests.made_up.tokenizers import MARKERS, live_tokenizer, small_tokenizer


def tiny_model(vocab_size: int, **config: Any) -> Any:
    """A random Llama whose logits differ enough for greedy answers to be varied."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings = {"max_position_embeddings": 2048, "initializer_range": 0.6, "tie_word_embeddings": False}
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocab_size, **(sizes | settings | config))).eval()


@pytest.fixture(scope="session", autouse=True)
def _packed() -> Iterator[None]:
    """Rows are fed packed wherever that is right, not by what the machine's load lets be faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("guided.hf.cache.packing._is_faster", lambda model: (True, True))
        yield


@pytest.fixture(scope="session")
def tiny_guide() -> Any:
    """The guide of a tiny random model over bytes, words and Qwen-like markers."""
    from guided.hf import Guide

    torch.set_num_threads(1)
    text = small_tokenizer(MARKERS, special=SPECIAL)
    tokenizer = live_tokenizer(text, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = CHAT_TEMPLATE
    model = tiny_model(len(tokenizer))
    quiet = [i for i in range(len(tokenizer)) if not tokenizer.convert_ids_to_tokens(i).strip("\u0120").isalnum()]
    with torch.no_grad():  # so that answers are mostly letters and rarely end
        model.lm_head.weight[quiet] *= 0.4
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return Guide(model, tokenizer)


@pytest.fixture
def guide(tiny_guide: Any) -> Any:
    """The tiny guide, with kept rows and counters of its own."""
    from guided.hf import Guide

    return Guide(tiny_guide.model, tiny_guide.tokenizer)
