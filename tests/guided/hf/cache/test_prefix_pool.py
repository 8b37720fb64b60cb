"""The pool of kept rows: which conversation a row belongs to, and which changes of the model it notices."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import guided
from guided.hf import hidden_states
from guided.hf.cache.head_input import head_input
from guided.hf.cache.prefix_pool import PrefixPool, model_state
from special_tokens.errors import RequestError
from tests.cases import seeds
from tests.conftest import make_tiny_guide

# -- whose rows they are


class KeptRow:
    size_bytes = 1

    def __init__(self, ids: tuple[int, ...]) -> None:
        self.ids = ids


def kept(pool: PrefixPool, ids: tuple[int, ...], chat: tuple[int, ...], **options: bool) -> None:
    row: Any = KeptRow(ids)
    pool.keep(row, {chat}, 0, pool.epoch, **options)


@pytest.mark.parametrize("first", [(1, 2, 3), (1, 2), (1, 2, 3, 4)])
@pytest.mark.parametrize("forgotten", [(7,), (8, 9), (7, 7, 7)])
def test_a_row_belongs_to_the_chats_of_all_rows_that_it_replaced(
    first: tuple[int, ...], forgotten: tuple[int, ...]
) -> None:
    """The second row has the same tokens as the first, more, or fewer; one of them is left."""
    pool = PrefixPool(9)
    kept(pool, first, (7,))
    kept(pool, (1, 2, 3), (8, 9))
    kept(pool, (5,), (6,))
    assert pool.stats().rows == 2
    assert pool.forget(forgotten) == 1
    assert pool.stats().rows == 1
    assert pool.forget((6, 1)) == 1


@pytest.mark.parametrize("seed", seeds(12, default=3))
def test_every_chat_that_was_answered_can_be_forgotten(seed: int) -> None:
    """However rows replaced each other; afterwards it is gone."""
    rng = random.Random(seed)
    answers = []
    for _ in range(30):
        ids = tuple(rng.randrange(2) for _ in range(rng.randrange(1, 6)))
        answers.append((ids, tuple(rng.randrange(3) for _ in range(rng.randrange(1, 5)))))
    for _, chat in answers:
        pool = PrefixPool(10_000)
        for ids, other in answers:
            kept(pool, ids, other)
        assert pool.forget(chat) >= 1
        assert pool.forget(chat) == 0
        left = {row.row.ids for row in pool._rows.values()}
        assert not any(ids in left for ids, other in answers if other == chat)


def test_other_branches_of_a_conversation_are_not_forgotten() -> None:
    """Both have replaced the row of their common first turn."""
    pool = PrefixPool(9)
    for ids, chat in (((1, 2), (7,)), ((1, 2, 3), (7, 8, 1)), ((1, 2), (7,)), ((1, 2, 4), (7, 8, 2))):
        kept(pool, ids, chat)
    assert pool.forget((7, 8, 1)) == 1
    assert [row.row.ids for row in pool._rows.values()] == [(1, 2, 4)]


ASKED: list[dict[str, Any]] = [
    {"role": "user", "content": "tell me\nmore"},
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1, "y": [2]}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "12"},
    {"role": "user", "content": "why?"},
]
SAME: list[list[dict[str, Any]]] = [
    [{"role": "system", "content": "Be short."}, {"role": "developer", "content": "x"}, *ASKED],
    [{"content": [{"type": "text", "text": "tell me"}, {"type": "text", "text": "more"}], "role": "user"}, *ASKED[1:]],
    [
        ASKED[0] | {"name": "Ann"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [{"function": {"arguments": {"y": [2], "x": 1}, "name": "f"}}],
        },
        {"role": "function", "name": "f", "content": "12"},
        {"role": "user", "content": "why?", "refusal": None},
    ],
]


@pytest.mark.parametrize("same", SAME)
def test_a_chat_is_found_in_whatever_form_it_is_sent(tiny_guide: Any, same: list[dict[str, Any]]) -> None:
    for asked, named in ((ASKED, same), (same, ASKED)):
        guide = guided.Guide(tiny_guide.model, tiny_guide.tokenizer)
        message = guide.chat(asked, temperature=0, max_tokens=5)
        guide.chat("another one", temperature=0, max_tokens=5)
        assert hidden_states(guide, named, message).shape[0] == 1
        other = [*named[:-1], {"role": "user", "content": "why"}]
        assert guide.forget(other) == 0
        assert guide.forget(named) == 1
        assert guide.stats().kept.rows == 1


def test_equal_prompts_of_different_chats_are_forgotten_by_each(tiny_guide: Any) -> None:
    """A template may drop what tells the chats apart; rows that begin alike are computed once."""
    guide = make_tiny_guide()
    guide.tokenizer.chat_template = "{{ messages[-1].content }}{{ eos_token }}"
    guide = guided.Guide(guide.model, guide.tokenizer)
    last = {"role": "user", "content": "why?"}
    chats = [[{"role": "user", "content": text}, {"role": "assistant", "content": "x"}, last] for text in "ab"]
    for chat in chats:
        guide.generate(chats, max_tokens=5, temperature=0)
        assert guide.forget(chat) == 1
        assert guide.stats().kept.rows == 0


def test_an_empty_message_is_a_message(tiny_guide: Any) -> None:
    guide = guided.Guide(tiny_guide.model, tiny_guide.tokenizer)
    guide.chat("hello", max_tokens=3)
    assert guide.forget("") == 0
    guide.chat("", max_tokens=3)
    assert guide.forget([{"role": "user", "content": ""}]) == 1
    with pytest.raises(RequestError, match=r"messages\[0\]: there is no content"):
        guide.forget([{"role": "user"}])
    with pytest.raises(RequestError, match=r"messages\[0\]: this is not a message"):
        guide.forget([{"content": "hello"}])


def test_no_text_of_a_prompt_is_left_after_forgetting(tiny_guide: Any) -> None:
    """In what tokenises long prompts from where they go on, too."""
    guide = guided.Guide(tiny_guide.model, tiny_guide.tokenizer)
    for forgotten in (None, "another"):
        guide.chat("secret word " * 90, max_tokens=2)
        assert any("secret" in text for text in guide.context.tokenised._ids_by_prompt)
        guide.forget(forgotten)
        assert not guide.context.tokenised._ids_by_prompt


# -- which changes of the model are noticed


def steered(module: Any, given: Any, out: Any) -> Any:
    return tuple(-part for part in out) if isinstance(out, tuple) else -out


def replaced(model: Any) -> None:
    layer = model.model.layers[0].mlp
    forward = layer.forward
    layer.forward = lambda states: -forward(states)


def written(model: Any) -> None:
    model.model.rotary_emb.inv_freq.mul_(0.5)


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


def test_autocast_is_another_model() -> None:
    """Values of one dtype do not go with keys of another."""
    guide = make_tiny_guide()
    options: dict[str, Any] = {"temperature": 0, "max_tokens": 8}
    guide.chat("tell me", **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert guide.chat("tell me", **options).usage.cached_tokens == 0
        assert guide.chat("tell me", **options).usage.cached_tokens > 0
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


@pytest.mark.parametrize("value", ["no", 0, None])
def test_reuse_is_true_or_false(tiny_guide: Any, value: Any) -> None:
    for call in (tiny_guide.chat, tiny_guide.stream, lambda chat, **rest: tiny_guide.generate([chat], **rest)):
        with pytest.raises(RequestError, match=f"reuse: {value!r} is not a switch; expected True or False"):
            call("x", reuse=value)


def test_a_loaded_guide_has_the_room_that_was_asked_for(tmp_path: Path) -> None:
    guide = make_tiny_guide()
    for part in (guide.model, guide.tokenizer):
        part.save_pretrained(tmp_path)
    assert guided.Guide.from_pretrained(tmp_path, cache_bytes=99).stats().kept.max_bytes == 99
