"""Law of the hidden state: ``producing`` and ``at_token`` are those of a full forward over prompt and answer.

The judges: a forward without a cache and ``output_hidden_states=True`` of transformers, and that forward's own final
norm, seen by a hook.  Over random plans, stops, batches, drafts and strategies; then over architectures.
"""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import guided
from guided.hf import hidden_states
from guided.hf.cache.self_test import Abilities
from guided.hf.generate.call import read_messages
from guided.hf.hidden.messages import with_last_states
from guided.output.message import Message, Usage
from tests.cases import seeds
from tests.guided.hf.drafts.test_drafts_law import QUOTES
from tests.guided.hf.loop.test_forced_law import CHATS, OBJECT, some_plan, some_sampling
from tests.made_up.models import ARCHITECTURES, VOCABULARY, poisoned

STRATEGIES = ("auto", "hybrid", "prefill")


def ids_of(message: Message) -> list[int]:
    return [*message.prompt_ids, *message.token_ids]


def judged(model: Any, ids: list[int]) -> np.ndarray[Any, Any]:
    """The states ``[tokens, hidden size]`` of one forward without a cache."""
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    found: np.ndarray[Any, Any] = out.hidden_states[-1][0].numpy()
    return found


def equal(found: Any, right: np.ndarray[Any, Any]) -> None:
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-5 * float(np.abs(right).max()))


def check(guide: Any, message: Message) -> None:
    state = message.last_hidden_state
    if not message.token_ids:
        assert state is None
        return
    ids = ids_of(message)
    right = judged(guide.model, ids)
    assert state.position == len(ids) - 1 == message.usage.prompt_tokens + message.usage.completion_tokens - 1
    equal(state.producing, right[-2])
    equal(state.at_token, right[-1])


@pytest.mark.parametrize("seed", seeds(80, default=8))
def test_the_states_of_any_answer_are_those_of_a_full_forward(tiny_guide: Any, monkeypatch: Any, seed: int) -> None:
    rng = random.Random(7000 + seed)
    monkeypatch.setattr("guided.hf.drafts.drafts.measured_cost", lambda model: lambda columns: 1.0)
    chats = [rng.choice(QUOTES) for _ in range(rng.choice([1, 1, 2, 5]))]
    plans = [some_plan(tiny_guide, rng) for _ in chats]
    options: dict[str, Any] = {"max_tokens": rng.choice([1, 5, 30, 70]), "reuse": rng.random() < 0.7}
    options["sampling"] = [some_sampling(rng) for _ in chats]
    options["prompt_lookup_num_tokens"] = rng.choice([None, 1, 8])
    plain = tiny_guide.generate(chats, plans, **options)
    how = guided.hf.HiddenStates(rng.choice(STRATEGIES), max_prefill_batch_size=rng.choice([1, 2, 8]))
    found = tiny_guide.generate(chats, plans, return_last_hidden_state=how, **options)
    for one, other in zip(found, plain, strict=True):
        assert one.token_ids == other.token_ids
        assert one.content == other.content
        assert other.last_hidden_state is None
        check(tiny_guide, one)
        if one.token_ids:
            assert one.last_hidden_state.strategy == ("prefill" if how.strategy == "prefill" else "hybrid")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("reuse", [True, False])
def test_each_way_to_stop(tiny_guide: Any, strategy: Any, reuse: bool) -> None:
    """Length, end token, stop string, stop id, a complete grammar, none sampled, landing; one batch, padded."""
    ends = tiny_guide.tokens.end_ids
    plans = [
        None,
        tiny_guide.plan(max_tokens=1),
        tiny_guide.plan(stop=["e", "t", "a", "o"]),
        guided.Stops(ids=tuple(range(40, 120))),
        tiny_guide.plan(response_format=OBJECT),
        tiny_guide.plan(
            response_format={"const": {"all": "is forced"}}, stop=guided.Stops(strings=("s f",), everywhere=True)
        ),
        tiny_guide.plan(response_format=guided.Regex("[a-z]{2}")),
        guided.Stops(strings=tuple("abcdefghijklmnopqrstuvwxyz ")),
        tiny_guide.plan(response_format={"type": "array", "items": {"type": "string"}, "minItems": 4}),
    ]
    chats = [CHATS[i % len(CHATS)] for i in range(len(plans))]
    how = guided.hf.HiddenStates(strategy, max_prefill_batch_size=3)
    sampling = guided.Sampling(temperature=1.2, seed=3, logit_bias=dict.fromkeys(ends, 1.0))
    found = tiny_guide.generate(
        chats, plans, max_tokens=40, sampling=sampling, reuse=reuse, return_last_hidden_state=how
    )
    for message in found:
        check(tiny_guide, message)
    assert {"length", "stop"} == {message.finish_reason for message in found}
    assert any(isinstance(message.stop_reason, int) for message in found)
    assert any(isinstance(message.stop_reason, str) for message in found)
    assert any(message.token_ids[-1] in ends for message in found)
    assert found[-1].landed is not None
    assert found[5].usage.forwards == (strategy != "prefill")


def test_rows_that_are_decoded_step_by_step(tiny_guide: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("guided.hf.loop.prepare.abilities_of", lambda model: Abilities())
    plans = [None, tiny_guide.plan(response_format=OBJECT), tiny_guide.plan(max_tokens=2)]
    for strategy in STRATEGIES:
        how = guided.hf.HiddenStates(strategy)
        for message in tiny_guide.generate(CHATS[:3], plans, max_tokens=25, return_last_hidden_state=how):
            check(tiny_guide, message)
            assert message.last_hidden_state.strategy == ("prefill" if strategy == "prefill" else "hybrid")


def test_an_answer_that_ends_with_an_error(tiny_guide: Any) -> None:
    """The logits become no numbers after some tokens: the last token is the one before; none at all has no state."""
    for after in (0, 3):
        with poisoned(tiny_guide.model, since=after):
            message = tiny_guide.chat("x", temperature=0, max_tokens=9, reuse=False, return_last_hidden_state=True)
        assert (message.finish_reason, len(message.token_ids)) == ("error", after)
        check(tiny_guide, message)


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"num_beams": 3, "num_return_sequences": 2}, {}])
def test_what_model_generate_returned(tiny_guide: Any, options: dict[str, Any]) -> None:
    """Of beams the chosen ones; rows that ended early and were padded; plans and none."""
    plans = [tiny_guide.plan(response_format=OBJECT), None, tiny_guide.plan(max_tokens=3)]
    batch = tiny_guide.batch(CHATS[:3], plans, max_tokens=40, return_last_hidden_state=True)
    out = tiny_guide.model.generate(**batch, do_sample=False, **options)
    plain = read_messages(tiny_guide.context, out, batch.inputs, plans)
    found = batch.messages(out)
    assert [m.token_ids for m in found] == [m.token_ids for m in plain]
    for message in found:
        check(tiny_guide, message)


# -- positions of an answer, afterwards


@pytest.mark.parametrize("keep", [True, False])
def test_states_at_any_position_of_an_answer(tiny_guide: Any, keep: bool) -> None:
    rng = random.Random(keep)
    tiny_guide.forget()
    before = tiny_guide.stats().kept
    for _ in range(6):
        plan = some_plan(tiny_guide, rng)
        chat = [{"role": "user", "content": rng.choice(CHATS)}]
        message = tiny_guide.chat(chat, plan, max_tokens=30, seed=1, reuse=keep)
        chat.append(message.to_chat())
        right = judged(tiny_guide.model, ids_of(message))
        size = len(message.token_ids)
        positions = [rng.randrange(-size, size) for _ in range(rng.choice([1, 3]))]
        equal(hidden_states(tiny_guide, message, positions=positions), right[-size:][positions])
        equal(hidden_states(tiny_guide, message)[0], right[-1])
        found = hidden_states(tiny_guide, message, positions=positions, state="producing")
        equal(found, right[-size - 1 : -1][positions])
        equal(hidden_states(tiny_guide, message, positions=range(size)), right[-size:])
    if not keep:
        after = tiny_guide.stats().kept
        assert (after.hits, after.misses) == (before.hits, before.misses)


def test_kept_rows_are_not_computed_again(tiny_guide: Any) -> None:
    """From the live cache: two tokens are fed, whatever the length of the text."""
    tiny_guide.forget()
    fed = []
    with tiny_guide.model.model.embed_tokens.register_forward_pre_hook(lambda _, given: fed.append(given[0].shape)):
        how = guided.hf.HiddenStates("prefill")
        message = tiny_guide.chat("x", temperature=0, max_tokens=12, return_last_hidden_state=how)
        assert fed[-1] == (1, 2)
        hidden_states(tiny_guide, message, positions=[-3, -1])
        assert fed[-1] == (1, 3)


def test_long_texts_are_computed_in_pieces(tiny_guide: Any, monkeypatch: Any) -> None:
    """So that no forward makes the logits of all positions."""
    monkeypatch.setattr("guided.hf.hidden.messages._MAX_COLUMNS", 4)
    message = tiny_guide.chat("x", temperature=0, max_tokens=23)
    right = judged(tiny_guide.model, ids_of(message))
    widths = []
    with tiny_guide.model.lm_head.register_forward_pre_hook(lambda _, given: widths.append(given[0].shape[1])):
        equal(hidden_states(tiny_guide, message, positions=range(23)), right[-23:])
    assert widths == [4, 4, 4, 4, 4, 3]


# -- architectures


def small_gemma() -> Any:
    """Gemma 3 with softcapped logits: the states are those before the cap."""
    model = copy.deepcopy(ARCHITECTURES["gemma3"]())
    model.config.final_logit_softcapping = 3.0
    return model


MODELS = {**ARCHITECTURES, "gemma3 softcapped": small_gemma}
NORMS = {
    "llama": "model.norm", "qwen3": "model.norm", "mistral": "model.norm", "gemma3": "model.norm",
    "gemma3 softcapped": "model.norm", "gpt_oss": "model.norm", "gpt2": "transformer.ln_f", "bloom": "transformer.ln_f",
    "glm4": "model.norm", "lfm2": "model.embedding_norm", "qwen3_next": "model.norm", "mamba": "backbone.norm_f",
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_states_of_each_architecture_are_those_of_its_final_norm(name: str) -> None:
    """Texts of different lengths, so that some share a forward and some do not."""
    model, rng = MODELS[name](), random.Random(name)
    messages = []
    for size in (9, 12, 10, 30, 1):
        ids = tuple(rng.randrange(3, VOCABULARY) for _ in range(6 + size))
        usage = Usage(prompt_tokens=6, completion_tokens=size)
        messages.append(Message(prompt_ids=ids[:6], token_ids=ids[6:], usage=usage))
    found = with_last_states(model, messages, guided.hf.HiddenStates(max_prefill_batch_size=2))
    for message in found:
        seen = []
        hook = model.get_submodule(NORMS[name]).register_forward_hook(lambda _, __, out, seen=seen: seen.append(out))
        with hook, torch.no_grad():
            model(input_ids=torch.tensor([ids_of(message)]), use_cache=False)
        equal(message.last_hidden_state.producing, seen[-1][0, -2].numpy())
        check(SimpleNamespace(model=model), message)


@pytest.mark.parametrize("strategy", ["hybrid", pytest.param("prefill", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_answers_of_each_architecture(tiny_guide: Any, name: str, strategy: Any) -> None:
    """By whatever way its self-test allows: several tokens in a forward or one, rows of their own lengths or not."""
    guide = guided.Guide(ARCHITECTURES[name](vocab_size=len(tiny_guide.tokenizer)), tiny_guide.tokenizer)
    plans = [guide.plan(response_format=OBJECT), guide.plan(stop="e"), guide.plan(max_tokens=3)]
    for size in (1, 3):
        how = guided.hf.HiddenStates(strategy)
        found = guide.generate(CHATS[:size], plans[:size], max_tokens=24, return_last_hidden_state=how)
        for message in found:
            check(guide, message)
            right = judged(guide.model, ids_of(message))[-len(message.token_ids)]
            equal(hidden_states(guide, message, positions=0)[0], right)


def test_a_static_cache_has_room_for_the_last_token(tiny_guide: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(tiny_guide.model.generation_config, "cache_implementation", "static")
    for message in tiny_guide.generate(CHATS[:2], max_tokens=5, return_last_hidden_state=True):
        assert message.finish_reason == "length"
        check(tiny_guide, message)
