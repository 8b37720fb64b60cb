"""The pool of kept rows: which changes of the model it notices, and how much it keeps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

import guided
from guided.hf.cache.head_input import head_input
from guided.hf.cache.prefix_pool import model_state
from tests.conftest import make_tiny_guide


def steered(module: Any, given: Any, out: Any) -> Any:
    return tuple(-part for part in out) if isinstance(out, tuple) else -out


def replaced(model: Any) -> None:
    layer = model.model.layers[0].mlp
    forward = layer.forward
    layer.forward = lambda states: -forward(states)


def written(model: Any) -> None:
    model.model.rotary_emb.inv_freq.mul_(0.5)


def autocast(model: Any) -> ExitStack:
    """Values of one dtype do not go with keys of another."""
    stack: Any = ExitStack()
    stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
    stack.remove = stack.close
    return stack


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a hook": lambda model: model.model.layers[0].mlp.register_forward_hook(steered),
    "a hook before": lambda model: model.model.layers[1].register_forward_pre_hook(lambda _, given: (-given[0],)),
    "a hook on all modules": lambda model: torch.nn.modules.module.register_module_forward_hook(
        lambda module, _, out: -out if module is model.model.layers[0].mlp else out
    ),
    "another forward of a module": replaced,
    "a buffer that is written": written,
    "a weight that is written": lambda model: torch.nn.init.normal_(model.model.layers[0].mlp.down_proj.weight),
    "another precision": lambda model: model.half().float(),
    "autocast": autocast,
    "training": lambda model: model.train(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_rows_of_a_model_before_a_change_are_not_taken(name: str) -> None:
    guide = make_tiny_guide()
    options: dict[str, Any] = {"temperature": 0, "max_tokens": 8}
    guide.chat("tell me", **options)
    hook = CHANGES[name](guide.model)
    try:
        found = guide.chat("tell me", **options)
        assert found.usage.cached_tokens == 0
        assert found.token_ids == guide.chat("tell me", **options, reuse=False).token_ids
        assert guide.chat("tell me", **options).usage.cached_tokens > 0
    finally:
        if hasattr(hook, "remove"):
            hook.remove()
    if hasattr(hook, "remove"):
        assert guide.chat("tell me", **options).usage.cached_tokens == 0


def test_adapters_are_seen_in_the_layers_of_peft() -> None:
    model = make_tiny_guide().model
    layer = model.model.layers[0].mlp
    vars(layer).update(_disable_adapters=False, _active_adapter=["a"], merged_adapters=[], scaling={"a": 2.0})
    seen = [model_state(model)]
    for name, value in (("_active_adapter", ["b"]), ("scaling", {"a": 1.0}), ("merged_adapters", ["b"])):
        vars(layer)[name] = value
        assert model_state(model) not in seen
        seen.append(model_state(model))


def test_our_own_hook_is_no_change() -> None:
    model = make_tiny_guide().model
    before = model_state(model)
    with head_input(model):
        assert model_state(model) == before


def test_a_model_that_writes_its_buffers_keeps_nothing_and_says_why() -> None:
    guide = make_tiny_guide()
    layer = guide.model.model.layers[0]
    layer.register_buffer("calls", torch.zeros(()), persistent=False)
    layer.register_forward_hook(lambda module, *_: module.calls.add_(1) and None)
    for _ in range(2):
        assert guide.chat("tell me", temperature=0, max_tokens=5).usage.cached_tokens == 0
    assert guide.stats().kept.rows == 0
    assert guide.stats().kept.off == "the model changed while it answered"


def test_a_loaded_guide_has_the_room_that_was_asked_for(tmp_path: Path) -> None:
    guide = make_tiny_guide()
    for part in (guide.model, guide.tokenizer):
        part.save_pretrained(tmp_path)
    assert guided.Guide.from_pretrained(tmp_path, cache_bytes=99).stats().kept.max_bytes == 99
