"""Our decode loop: transformers' tokens, rows that end by themselves, a batch that changes nothing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from transformers import MambaConfig, TextStreamer

from guided.hf.cache.step_kv import StepKV
from guided.hf.generate.inputs import checked_inputs
from guided.hf.loop.row_loop import RowLoop
from guided.hf.loop.sampling import choose, context_size
from guided.landing.options import token_limit
from guided.sampling import Sampling
from special_tokens.errors import GuidanceError, ModelError, RequestError
from tests.judges.allocations import bytes_per_token
from tests.judges.generation import CHATS, GuidedCall
from tests.made_up.models import forwards_of

GREEDY = Sampling(temperature=0)


@pytest.fixture
def caches(monkeypatch: Any) -> list[Any]:
    """The caches of the loops that run while the test does."""
    seen: list[Any] = []
    join = RowLoop.join

    def noted(self: RowLoop, rows: Any) -> Any:
        seen.append(self.cache)
        return join(self, rows)

    monkeypatch.setattr(RowLoop, "join", noted)
    return seen


@pytest.mark.parametrize("chats", [CHATS, CHATS[:1]], ids=["batch4", "batch1"])
@pytest.mark.parametrize(
    ("settings", "is_step_by_step"),
    [
        ({}, False),
        ({"cache_implementation": "static"}, True),
        ({"use_cache": False}, True),
        ({"prefill_chunk_size": 7}, True),
        ({"no_repeat_ngram_size": 2}, True),
        ({"min_new_tokens": 30}, True),
        ({"repetition_penalty": 1.3}, False),
    ],
    ids=str,
)
def test_greedy_tokens_are_those_of_generate(
    tiny_guide: Any, chats: list[str], settings: dict[str, Any], is_step_by_step: bool, monkeypatch: Any,
    caches: list[Any],
) -> None:  # fmt: skip
    """Whatever the model's generation config asks for, by the way that it needs."""
    for name, value in settings.items():
        monkeypatch.setattr(tiny_guide.model.generation_config, name, value, raising=False)
    inputs = checked_inputs(tiny_guide.context, chats)
    judge = tiny_guide.model.generate(**inputs, max_new_tokens=40, do_sample=False)
    found = tiny_guide.generate(chats, sampling=GREEDY, max_tokens=40)
    for r, message in enumerate(found):
        expected = judge[r, inputs["input_ids"].shape[1] :].tolist()
        assert list(message.token_ids) == expected[: len(message.token_ids)]
        assert len(message.token_ids) == 40 or message.finish_reason == "stop"
    assert isinstance(caches[0], StepKV) == is_step_by_step


@pytest.mark.parametrize("rows", [1, 4])
def test_free_text_costs_no_more_forwards_and_fewer_bytes_than_generate(tiny_guide: Any, rows: int) -> None:
    """Times this near to each other are held by counts (benchmarks/loop.py measures them)."""
    chats = CHATS[:1] * rows
    inputs, forwards = checked_inputs(tiny_guide.context, chats), Counter[str]()
    options = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}

    def ours(tokens: int) -> None:
        messages = tiny_guide.generate(chats, sampling=GREEDY, max_tokens=tokens, reuse=False)
        assert [len(message.token_ids) for message in messages] == [tokens] * rows
        forwards["ours"] += messages[0].usage.forwards

    def theirs(tokens: int) -> None:
        with forwards_of(tiny_guide.model) as fed:
            tiny_guide.model.generate(**inputs, max_new_tokens=tokens, **options)
        forwards["theirs"] += len(fed)

    ours(8)
    theirs(8)  # both have made what they keep now
    assert bytes_per_token(ours, 10, 40) < bytes_per_token(theirs, 10, 40)
    assert forwards["ours"] == forwards["theirs"] == 58


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_time", 9.0, r"only model\.generate stops by MaxTimeCriteria"),
        ("cache_implementation", "magic", "generate cannot be prepared: ValueError: Invalid `cache_implementation`"),
        # transformers hands no tokenizer on to loops of others, which its own stop strings need
        ("stop_strings", ["x"], "generate cannot be prepared: ValueError: There are one or"),
    ],
)
def test_a_generation_config_that_our_loop_cannot_follow_is_a_typed_error(
    tiny_guide: Any, monkeypatch: Any, name: str, value: Any, said: str
) -> None:
    monkeypatch.setattr(tiny_guide.model.generation_config, name, value, raising=False)
    with pytest.raises(ModelError, match=f"generation_config: {said}"):
        tiny_guide.generate(CHATS[:1], sampling=GREEDY, max_tokens=9)


def test_a_model_without_a_context_reads_prompts_of_any_length() -> None:
    context = context_size(SimpleNamespace(config=MambaConfig()))
    assert context is None
    assert token_limit(None, 7, 9_000, context) == 7
    assert token_limit(None, 9_000, 1, context) == 9_000
    assert token_limit(None, None, 9_000, context) == 4096


def test_a_streamer_of_several_answers_is_refused(tiny_guide: Any) -> None:
    """Transformers' own streamers refuse them as well."""
    streamer = TextStreamer(tiny_guide.tokenizer)
    with pytest.raises(RequestError, match=r"streamer: it is one for 2 answers \(use one for each chat\)"):
        tiny_guide.generate(CHATS[:2], max_tokens=4, streamer=streamer)


def test_a_streamer_that_raises_is_left_out(tiny_guide: Any) -> None:
    chats = CHATS[:1]
    expected = tiny_guide.generate(chats, sampling=GREEDY, max_tokens=10)
    streamer = Mock(**{"put.side_effect": [None, None, OSError("the pipe is closed")]})
    found = tiny_guide.generate(chats, sampling=GREEDY, max_tokens=10, streamer=streamer)
    assert [m.token_ids for m in found] == [m.token_ids for m in expected]
    assert all("the streamer raised OSError (the pipe is closed) and was left out" in m.notes for m in found)
    assert [name for name, *_ in streamer.mock_calls] == ["put"] * 3


def test_greedy_tokens_are_those_of_generate_with_guidance(tiny_guide: Any) -> None:
    plans = [tiny_guide.plan(), None, tiny_guide.plan(response_format={"type": "integer"}), None]
    _, expected = GuidedCall(tiny_guide, CHATS, plans, describe=True).run()
    found = tiny_guide.generate(CHATS, plans, sampling=GREEDY, max_tokens=40, landing=False)
    assert [m.token_ids for m in found] == [m.token_ids for m in expected]
    assert [m.finish_reason for m in found] == [m.finish_reason for m in expected]
    assert [m.content for m in found] == [m.content for m in expected]


def test_the_streamer_gets_what_it_gets_from_generate(tiny_guide: Any) -> None:
    judge, ours = Mock(), Mock()
    inputs = checked_inputs(tiny_guide.context, CHATS[:1])
    tiny_guide.model.generate(**inputs, max_new_tokens=15, do_sample=False, streamer=judge)
    tiny_guide.generate(CHATS[:1], sampling=GREEDY, max_tokens=15, streamer=ours)
    seen, right = ([(name, [part.tolist() for part in args]) for name, args, _ in m.mock_calls] for m in (ours, judge))
    assert seen == right


@pytest.mark.parametrize("options", [{"temperature": 0}, {"top_k": 1}], ids=str)
def test_n_greedy_answers_are_one_computed_once(tiny_guide: Any, options: dict[str, Any]) -> None:
    samplings = [Sampling(n=3, logprobs=2, **options), Sampling(temperature=1.0, seed=4, n=2)]
    plans = [tiny_guide.plan(max_tokens=9), None]
    with forwards_of(tiny_guide.model) as once:
        (alone,) = tiny_guide.generate(CHATS[:1], plans[:1], sampling=replace(samplings[0], n=1), reuse=False)
    with forwards_of(tiny_guide.model) as forwards:
        same = tiny_guide.generate(CHATS[:1], plans[:1], sampling=samplings[0], reuse=False)
    assert same == [alone] * 3
    assert [ids.shape for ids in forwards] == [ids.shape for ids in once]
    messages = tiny_guide.generate(CHATS[:2], plans, sampling=samplings, max_tokens=9)
    assert len(messages) == 5
    assert [m.token_ids for m in messages[:3]] == [alone.token_ids] * 3
    assert len({m.token_ids for m in messages[3:]}) == 2


def test_seeds_go_before_the_samplings_own(tiny_guide: Any) -> None:
    sampling = Sampling(temperature=1.0, seed=9)
    by_seed = tiny_guide.generate(CHATS[:2], sampling=sampling, seed=[5, 6], max_tokens=12)
    for message, chat, seed in zip(by_seed, CHATS, (5, 6), strict=False):
        (again,) = tiny_guide.generate([chat], sampling=sampling, seed=seed, max_tokens=12)
        assert message.token_ids == again.token_ids
    assert tiny_guide.generate(CHATS[:1], sampling=sampling, max_tokens=12)[0].token_ids != by_seed[0].token_ids


def test_the_models_own_sampling_settings_hold_where_the_request_is_silent(tiny_guide: Any, monkeypatch: Any) -> None:
    config = tiny_guide.model.generation_config
    for name, value in {"do_sample": True, "temperature": 0.6, "top_k": 3, "top_p": 0.9}.items():
        monkeypatch.setattr(config, name, value)
    silent = tiny_guide.generate(CHATS, seed=8, max_tokens=12)
    spoken = Sampling(temperature=0.6, top_k=3, top_p=0.9)
    assert [m.token_ids for m in silent] == [
        m.token_ids for m in tiny_guide.generate(CHATS, sampling=spoken, seed=8, max_tokens=12)
    ]
    greedy = tiny_guide.generate(CHATS, sampling=GREEDY, max_tokens=12)
    assert [m.token_ids for m in silent] != [m.token_ids for m in greedy]


def test_logprobs_are_those_of_a_fresh_forward(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format={"type": "integer"})
    messages = tiny_guide.generate(CHATS[:2], [None, plan], sampling=Sampling(temperature=0, logprobs=3), max_tokens=8)
    inputs = checked_inputs(tiny_guide.context, CHATS[:2], [None, plan], describe=True)
    for r, message in enumerate(messages):
        assert len(message.logprobs) == len(message.token_ids)
        ids = torch.tensor([[*inputs.prompt_ids[r], *message.token_ids]])
        with torch.no_grad():
            logits = tiny_guide.model(ids).logits[0, len(inputs.prompt_ids[r]) - 1 : -1].float()
        judge = logits.log_softmax(-1)
        for i, found in enumerate(message.logprobs):
            assert found.logprob == pytest.approx(float(judge[i, message.token_ids[i]]), abs=1e-3)
            assert [token for token, _ in found.top] == judge[i].topk(3).indices.tolist()
            if r == 0:
                assert found.masked == found.logprob
            else:
                assert found.masked >= found.logprob - 1e-6
                assert found.num_allowed < tiny_guide.tokens.vocab_size
    assert tiny_guide.generate(CHATS[:1], sampling=GREEDY, max_tokens=3)[0].logprobs is None


class _Poison:
    """Makes one row's logits NaN in step ``at``."""

    def __init__(self, row: int, at: int) -> None:
        self.row, self.at, self.step = row, at, 0

    def __call__(self, module: Any, args: Any, output: Any) -> Any:
        if self.step == self.at:
            logits = output.logits[0] if len(output.logits) == 1 else output.logits  # packed, or a rectangle
            logits[self.row] = math.nan
        self.step += 1
        return output


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=1.0, seed=2, top_p=0.9)], ids=["greedy", "sampled"])
def test_nan_logits_end_their_row_with_an_error(tiny_guide: Any, sampling: Sampling) -> None:
    plans = [None, tiny_guide.plan(), None]
    clean = tiny_guide.generate(CHATS[:3], plans, sampling=sampling, max_tokens=12)
    for row in (0, 1):
        with tiny_guide.model.register_forward_hook(_Poison(row, 4)):
            messages = tiny_guide.generate(CHATS[:3], plans, sampling=sampling, max_tokens=12)
        assert messages[row].finish_reason == "error"
        assert isinstance(messages[row].error, GuidanceError)
        assert f"row {row}: the model's logits are not numbers" in str(messages[row].error)
        assert messages[row].token_ids == clean[row].token_ids[:4]
        for other in {0, 1, 2} - {row}:
            assert messages[other].token_ids == clean[other].token_ids
            assert messages[other].error is None


def test_what_a_model_recommends_for_other_loops_does_not_disturb_guides(tiny_guide: Any, monkeypatch: Any) -> None:
    expected = tiny_guide.generate(CHATS[:2], sampling=GREEDY, max_tokens=5)
    for name, value in (("prompt_lookup_num_tokens", 3), ("penalty_alpha", 0.6), ("return_dict_in_generate", True)):
        monkeypatch.setattr(tiny_guide.model.generation_config, name, value)
    found = tiny_guide.generate(CHATS[:2], sampling=GREEDY, max_tokens=5)
    assert [m.token_ids for m in found] == [m.token_ids for m in expected]


def test_G1_a_sampled_token_is_one_mask_one_sample_one_commit(tiny_guide: Any, monkeypatch: Any) -> None:
    """And a forced token is one commit; a row that has ended takes no part."""
    calls: list[int] = []

    def counted(scores: torch.Tensor, rows: Any, positions: Any) -> Any:
        assert len(scores) == len(rows)
        calls.extend(row.settings.seed for row in rows)
        return choose(scores, rows, positions)

    monkeypatch.setattr("guided.hf.loop.row_loop.choose", counted)
    form = {"type": "object", "properties": {"a long name": {"type": "integer"}}, "required": ["a long name"]}
    plans = [tiny_guide.plan(max_tokens=200), None, tiny_guide.plan(response_format=form)]
    sampling = Sampling(temperature=1.0)
    messages = tiny_guide.generate(CHATS[:3], plans, sampling=sampling, seed=[0, 1, 2], max_tokens=200)
    for r, message in enumerate(messages):
        counters, written = message.guidance, message.usage.completion_tokens
        assert calls.count(r) == message.usage.forwards <= written
        if r == 1:
            continue
        assert counters.commits == written
        assert calls.count(r) <= counters.masks <= calls.count(r) + counters.forced
        assert counters.masks + counters.forced >= written
        assert counters.rollbacks == 0
    assert messages[2].usage.forwards < messages[2].usage.completion_tokens
