"""Law joining: a message of rows that join and leave a running loop is that of `guide.chat` alone.

The judge runs each request by itself, before.  Requests join at random steps; some are closed early, some raise.  The
cache has so little room that rows are taken out and go on later, and the same model answers in another thread.
"""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import guided
from guided.hf.answering import generation_of, rows_of
from guided.hf.cache.packed_kv import PackedKV
from guided.hf.loop import places
from guided.hf.loop.capacity import Capacity
from guided.hf.loop.generation import Generation
from guided.hf.loop.prepare import shared_loop
from guided.hf.loop.row_loop import RowLoop
from guided.hf.options import options_of
from guided.output.message import Message
from special_tokens.errors import ModelError, RequestError
from tests.cases import seeds
from tests.guided.output.test_parser import without_ids
from tests.made_up.models import ARCHITECTURES, WINDOW, forwards_of, made
from tests.made_up.schemas import closed

CHATS = ["tell me", "why?", "tell me a longer thing, and then why it is so and not otherwise", "x"]
OBJECT = closed({"a long name": {"enum": ["red", "reddish"]}, "n": {"type": "integer", "maximum": 99}})


def look(place: str, days: int) -> str:
    """Look up the weather."""
    return place * days


#: What a request asks for, apart from its sampling.
KINDS: list[dict[str, Any]] = [
    {},
    {"response_format": OBJECT},
    {"tools": [look], "tool_choice": "required"},
    {"response_format": OBJECT, "reasoning_effort": "low"},
    {"stop": ["e", "th"]},
    {"presence_penalty": 1.0, "frequency_penalty": 0.5, "repetition_penalty": 1.1},
    {"logprobs": True, "top_logprobs": 2},
    {"response_format": OBJECT, "logprobs": True},
    {"return_last_hidden_state": True},
    {"response_format": OBJECT, "return_last_hidden_state": True},
    {"prompt_lookup_num_tokens": 3},
    {"top_p": 0.9, "logit_bias": {40: -3.0}},
    {"n": 3},
    {"n": 2, "response_format": OBJECT, "logprobs": True},
]


def some_requests(rng: random.Random, number: int) -> list[tuple[str, dict[str, Any]]]:
    out = []
    for seed in range(number):
        asked = dict(KINDS[seed % len(KINDS)], seed=seed, temperature=rng.choice([0, 0.8, 1.2]))
        out.append((rng.choice(CHATS), asked | {"max_tokens": rng.choice([3, 20, 80])}))
    rng.shuffle(out)
    return out


def generation(guide: Any, chat: str, asked: dict[str, Any], **more: Any) -> Generation:
    options = options_of("chat", {**asked, **more})
    return generation_of(guide.planner, *rows_of(guide.planner, chat, None, options, "chat", is_one=True), options)


def alone(guide: Any, chat: str, asked: dict[str, Any]) -> list[Message]:
    run = generation(guide, chat, asked, reuse=False)
    for _ in run.steps():
        pass
    return run.messages()


def finish(loop: RowLoop) -> None:
    while not loop.is_empty:
        loop.step()


def running(guide: Any, loop: RowLoop) -> Generation:
    """A row that is after its first step, and goes on for long."""
    run = generation(guide, "x", {"temperature": 0, "max_tokens": 200})
    run.join(loop)
    loop.step()
    return run


@pytest.fixture
def loop(guide: Any) -> RowLoop:
    """A loop of four rows with much room."""
    return shared_loop(guide.context, rows=4, cached_tokens=4_000)


def same(found: Message, judge: Message, *, drafts: bool = False) -> None:
    """All but the tokens that came from kept rows; with drafts their number is a matter of cost."""
    state, right = found.last_hidden_state, judge.last_hidden_state
    assert (state is None) == (right is None)
    if state is not None and right is not None:
        assert np.allclose(state.at_token, right.at_token, atol=1e-4)
        assert np.allclose(state.producing, right.producing, atol=1e-4)
    assert (found.logprobs is None) == (judge.logprobs is None)
    for one, other in zip(found.logprobs or (), judge.logprobs or (), strict=True):
        assert (one.token_id, one.num_allowed) == (other.token_id, other.num_allowed)
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert one.masked == pytest.approx(other.masked, abs=1e-4)
    assert 0 <= found.usage.cached_tokens <= found.usage.prompt_tokens
    counted = {"cached_tokens": 0} | ({"forwards": 0, "drafted_tokens": 0, "accepted_tokens": 0} if drafts else {})
    one, other = (
        replace(without_ids(m), usage=replace(m.usage, **counted), logprobs=None, last_hidden_state=None)
        for m in (found, judge)
    )
    assert one == other


class Beside(threading.Thread):
    """Answers with the same guide in another thread until it is stopped."""

    def __init__(self, guide: Any) -> None:
        super().__init__()
        self.guide, self.is_over, self.found = guide, threading.Event(), list[tuple[int, ...]]()

    def run(self) -> None:
        while not self.is_over.wait(0.02):
            self.found.append(self.guide.chat("beside", temperature=1.0, seed=1, max_tokens=9).token_ids)


def run_joined(guide: Any, loop: RowLoop, rng: random.Random, requests: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Let requests join and leave at random, and compare what they get."""
    number = len(requests)
    judges = [alone(guide, *request) for request in requests]
    waiting, runs = list(range(number)), dict[int, Generation]()
    broken, closed, ended = {}, {}, set[Any]()
    for step in range(5_000):
        if not loop.rows() and not waiting:  # one that was made to fail leaves in the next step
            break
        for _ in range(rng.choice([0, 0, 1, 2]) if runs else 12):
            k = waiting.pop() if waiting else -1
            if k >= 0:
                runs[k] = generation(guide, *requests[k])
                ended.update(runs[k].join(loop).ended)
        ended.update(loop.step().ended)
        for k, run in runs.items():
            rows = [row for row in run.loop_rows if not row.is_done]
            if rows and k not in broken and k not in closed and rng.random() < 0.002:
                broken[k] = [len(row.answer.tokens) for row in run.loop_rows]
                rng.choice(rows).answer.fail(ZeroDivisionError("injected"))
            elif rows and k not in broken and k not in closed and rng.random() < 0.002:
                closed[k] = True
                ended.update(loop.close(run.loop_rows).ended)
        assert step < 4_999
    for k, run in runs.items():
        messages, (_, asked) = run.messages(), requests[k]
        assert len(messages) == len(judges[k])
        for found, judge in zip(messages, judges[k], strict=True):
            if k in closed or (k in broken and found.error is not None):
                assert found.token_ids == judge.token_ids[: len(found.token_ids)]
            else:
                same(found, judge, drafts="prompt_lookup_num_tokens" in asked)
    assert not loop.rows()
    assert loop.places is not None
    assert len(loop.cache.ids) == 0
    assert ended == {row for run in runs.values() for row in run.loop_rows}


#: Models whose attention caps its scores, or has keys and values of different width: rows are fed as rectangles.
RECTANGLES = {
    "gemma2": partial(made, "Gemma2ForCausalLM", query_pre_attn_scalar=8, sliding_window=WINDOW),
    "deepseek_v3": partial(
        made, "DeepseekV3ForCausalLM", q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
        v_head_dim=12, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
        moe_intermediate_size=32, first_k_dense_replace=1, n_shared_experts=1,
    ),
    "gpt_oss": ARCHITECTURES["gpt_oss"],
}  # fmt: skip


def of_architecture(name: str, guide: Any) -> Any:
    """A guide in double precision: no two scores are so near that the width of a forward decides between them."""
    sizes: dict[str, Any] = {"vocab_size": len(guide.tokenizer), "max_position_embeddings": 4096}
    model = (ARCHITECTURES | RECTANGLES)[name](**sizes | ({"n_positions": 4096} if name == "gpt2" else {}))
    if name in ("gpt_oss", "deepseek_v3"):
        model.set_experts_implementation("eager")  # torch multiplies groups in single precision alone
    return guided.Guide(copy.deepcopy(model).double(), guide.tokenizer)


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize(
    "name",
    [
        "llama",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("mistral", "qwen3", "gemma3", "glm4", "gpt2", *RECTANGLES)
        ),
    ],
)
def test_rows_that_join_and_leave_are_answered_as_alone(
    tiny_guide: Any, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_MARGIN", 2)  # rows join where there is hardly room, and are taken out again
    guide = of_architecture(name, tiny_guide)
    expected = guide.chat("beside", temperature=1.0, seed=1, max_tokens=9).token_ids
    rng = random.Random(f"{name} {seed}")
    requests = some_requests(rng, 40 if seed else 2 * len(KINDS))
    longest = max(len(generation(guide, *request).inputs.prompt_ids[0]) for request in requests)
    loop = shared_loop(guide.context, rows=12, cached_tokens=longest + 1)
    in_pieces(loop, 64)
    assert isinstance(loop.cache, PackedKV) == (name not in RECTANGLES)
    beside = Beside(guide)
    beside.start()
    try:
        run_joined(guide, loop, rng, requests)
    finally:
        beside.is_over.set()
        beside.join()
    assert loop.places.num_taken_out > 0 or seed or name in RECTANGLES  # there short answers may leave room
    assert set(beside.found) == {expected}


def in_pieces(loop: RowLoop, columns_per_step: int = 1) -> None:
    """Let each ``columns_per_step`` columns cost a step, so that pieces are small."""
    loop.places.capacity = replace(loop.capacity, cost=lambda columns: columns / columns_per_step)


def test_equal_prompts_that_arrive_together_are_computed_once(guide: Any, loop: RowLoop) -> None:
    """A later one takes the prefix of a row that still runs."""
    runs = [generation(guide, CHATS[2], {"temperature": 1.0, "seed": seed, "max_tokens": 20}) for seed in range(3)]
    for run in runs:
        run.join(loop)
        loop.step()
    assert all(not row.is_done for run in runs for row in run.loop_rows)
    size = len(runs[0].inputs.prompt_ids[0])
    assert [run.loop_rows[0].cached for run in runs] == [0, size - 1, size - 1]
    guide.forget()  # what runs is not kept, nor read by those that come later
    last = generation(guide, CHATS[2], {"temperature": 1.0, "seed": 9, "max_tokens": 2})
    last.join(loop)
    finish(loop)
    assert last.loop_rows[0].cached == 0
    assert guide.stats().kept.rows == 1


def test_a_prompt_is_fed_in_pieces_while_others_run(guide: Any, loop: RowLoop) -> None:
    in_pieces(loop)
    running(guide, loop)
    second = generation(guide, "a longer thing " * 20, {"temperature": 0, "max_tokens": 3})
    with forwards_of(guide.model) as fed:
        second.join(loop)
        while not second.loop_rows[0].answer.tokens:
            loop.step()
    loop.close()
    assert len(fed) > 5
    assert max(ids.numel() for ids in fed) == 17
    assert second.messages()[0].usage.forwards == 1


def test_each_row_that_waits_may_cost_two_steps() -> None:
    """So one newcomer makes small gaps, and several that come at once are fed in few forwards."""

    def cost(columns: int) -> float:
        return 1 + columns / 16

    capacity = Capacity(rows=9, cost=cost)
    pieces = [capacity.prompt_tokens(3, waiting, sum) for waiting in (1, 2, 5)]
    for waiting, piece in zip((1, 2, 5), pieces, strict=True):
        assert cost(3 + piece) <= (1 + 2 * waiting) * cost(3)
    assert pieces[0] < pieces[1] < pieces[2]


@pytest.mark.parametrize(("rows", "cached_tokens", "n"), [(2, 4_000, 1), (16, 300, 1), (9, 4_000, 8)])
def test_rows_that_have_no_place_do_not_make_pieces_larger(guide: Any, rows: int, cached_tokens: int, n: int) -> None:
    """For lack of places, of room in the cache, and of places that the other answers of a request will have."""
    loop = shared_loop(guide.context, rows=rows, cached_tokens=cached_tokens)
    loop.places.capacity = replace(loop.capacity, cost=lambda columns: 1 + columns / 16)
    running(guide, loop)
    generation(guide, "a longer thing " * 20, {"temperature": 1.0, "seed": 1, "n": n, "max_tokens": 3}).join(loop)
    for number in range(8):
        generation(guide, f"{number} a longer thing " * 20, {"temperature": 0, "max_tokens": 3}).join(loop)
    loop.step()
    sizes = loop.places.piece_sizes()
    loop.close()
    assert sizes == [None, 32]


def test_a_stream_that_is_closed_while_it_is_fed_leaves(guide: Any, loop: RowLoop) -> None:
    """Its twins are computed in its stead, and what was fed is kept."""
    asked = {"temperature": 1.0, "seed": 3, "n": 3, "max_tokens": 5}
    judge = alone(guide, CHATS[2] * 3, asked)
    in_pieces(loop)
    running(guide, loop)
    run = generation(guide, CHATS[2] * 3, asked)
    run.join(loop)
    loop.step()
    assert run.loop_rows[0].is_filling
    loop.close(run.loop_rows[:1])
    while not run.loop_rows[1].is_done:
        loop.step()
    loop.close()
    messages = run.messages()
    assert messages[0].token_ids == ()
    assert [m.token_ids for m in messages[1:]] == [m.token_ids for m in judge[1:]]
    assert loop.is_empty


def test_what_never_has_room_is_refused_at_once(guide: Any) -> None:
    loop = shared_loop(guide.context, rows=4, cached_tokens=50)
    many = generation(guide, "x", {"n": 5, "temperature": 1.0, "max_tokens": 3})
    with pytest.raises(RequestError, match="n: 5 answers; expected at most 4, the rows that are answered at once"):
        many.join(loop)
    long = generation(guide, "word " * 60, {"max_tokens": 3})
    with pytest.raises(RequestError, match=r"messages: the prompt has \d+ tokens; expected at most 50"):
        long.join(loop)
    assert loop.is_empty
    one = generation(guide, "x", {"temperature": 0, "max_tokens": 3})
    one.join(loop)
    finish(loop)
    assert len(one.messages()[0].token_ids) == 3


@pytest.mark.parametrize("name", ["lfm2", "mamba"])
def test_a_model_whose_rows_cannot_differ_says_so(tiny_guide: Any, name: str) -> None:
    """Its calls run one by one, by `Generation.steps`."""
    guide = of_architecture(name, tiny_guide)
    with pytest.raises(ModelError, match="several tokens|step by step|cropped|different lengths"):
        shared_loop(guide.context, rows=4, cached_tokens=500)
    assert generation(guide, "x", {"max_tokens": 3}).why_alone


def test_a_config_that_needs_single_steps_cannot_join(guide: Any, monkeypatch: Any) -> None:
    assert generation(guide, "x", {"max_tokens": 3}).why_alone == ""
    monkeypatch.setattr(guide.model.generation_config, "no_repeat_ngram_size", 2)
    run = generation(guide, "x", {"max_tokens": 3})
    assert "NoRepeatNGramLogitsProcessor" in run.why_alone
    loop = shared_loop(guide.context, rows=4, cached_tokens=500)
    with pytest.raises(ModelError, match="these rows cannot join others: decoded step by step"):
        run.join(loop)


def test_a_model_that_raises_breaks_the_step_off_and_the_loop_can_be_closed(guide: Any) -> None:
    loop = shared_loop(guide.context, rows=4, cached_tokens=500)
    run = generation(guide, "tell me", {"temperature": 0, "max_tokens": 9})
    run.join(loop)
    loop.step()

    def breaks(*_: Any) -> None:
        raise torch.OutOfMemoryError("no memory left")

    with guide.model.register_forward_pre_hook(breaks), pytest.raises(torch.OutOfMemoryError):
        loop.step()
    loop.close()
    assert loop.is_empty
    assert not loop.rows()
    assert guide.stats().kept.rows == 1
    again = generation(guide, "tell me", {"temperature": 0, "max_tokens": 9})
    again.join(loop)
    finish(loop)
    assert again.messages()[0].token_ids == guide.chat("tell me", temperature=0, max_tokens=9).token_ids
