"""Memory of guidance: bounded per row and per beam, reported, and freed afterwards."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

from guided.bitmask import allocate_bitmask
from guided.state.state import GuidanceState
from tests.cases import slow_where
from tests.judges.generation import CHATS, GuidedCall, generate, plan_of

MODE = ("two thousand steps", "right", "about 30 bytes a token of our own")

LONG = {"type": "array", "items": {"type": "string"}, "minItems": 5000}


def states_alive() -> int:
    gc.collect()
    return sum(type(found) is GuidanceState for found in gc.get_objects())


def test_a_state_grows_by_its_tokens_alone(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=LONG)
    state = GuidanceState(plan, tiny_guide.engine)
    words = allocate_bitmask(1, tiny_guide.engine.vocab_size)
    draw = np.random.default_rng(0)
    tracemalloc.start()
    try:
        sizes = {}
        for step in range(1, 2001):
            state.fill_bitmask(words)
            ids = np.flatnonzero(np.unpackbits(words[0].view(np.uint8), bitorder="little"))
            state.commit([int(draw.choice(ids))])
            if step in (200, 2000):
                gc.collect()
                sizes[step] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (sizes[2000] - sizes[200]) / 1800 < 40, sizes


@pytest.mark.parametrize("format", [LONG, None], ids=["array", "free text"])
@pytest.mark.parametrize("num_tokens", slow_where(lambda num_tokens: num_tokens != 1000, [500, 1000, 1900]))
def test_bytes_per_token_are_those_of_the_page(tiny_guide: Any, format: Any, num_tokens: int) -> None:
    """The row's own 16, and 8 of the call's history, which grows by halves."""
    plan = tiny_guide.plan(response_format=format)
    session = generate(tiny_guide, ["x"], [plan], max_new_tokens=num_tokens, min_new_tokens=num_tokens)[0].session
    (row,) = session.rows
    kept = (row.state.tokens, row.state.log.positions, session._ids)
    assert 24 <= sum(map(sys.getsizeof, kept)) / num_tokens < 40


@pytest.mark.parametrize("steps", [700, 2000])
def test_many_steps_of_generate(tiny_guide: Any, steps: int) -> None:
    plan = tiny_guide.plan(response_format=LONG)
    call = GuidedCall(tiny_guide, ["x"], [plan])
    room = tiny_guide.model.config.max_position_embeddings - call.inputs.prompt_len
    _, (message,) = call.run(max_new_tokens=min(steps, room), do_sample=True)
    size = len(message.token_ids)
    assert size > 0.95 * steps
    assert message.guidance.masks == message.guidance.commits == size
    assert len(call.inputs.session.rows) == 1


@pytest.mark.parametrize(
    "options",
    [{"num_beams": 4}, {}, {"num_return_sequences": 3, "do_sample": True}, {"prompt_lookup_num_tokens": 3}],
    ids=str,
)  # fmt: skip
def test_nothing_stays_after_the_call_and_its_kwargs_are_gone(tiny_guide: Any, options: dict[str, Any]) -> None:
    plan = plan_of(tiny_guide, "json")
    before = states_alive()
    for _ in range(5):
        inputs, *_ = generate(tiny_guide, CHATS[:1], [plan], **options)
        rows = max(options.get("num_beams", 1), options.get("num_return_sequences", 1))
        assert states_alive() - before == len(inputs.session.rows) == rows
    del inputs, _
    assert states_alive() <= before


def test_G5_a_plain_batch_holds_nothing(tiny_guide: Any) -> None:
    before = states_alive()
    inputs, *_ = generate(tiny_guide, CHATS, [None] * 4, max_new_tokens=3)
    assert inputs.session is None
    assert states_alive() == before
    assert torch.is_tensor(inputs["input_ids"])
