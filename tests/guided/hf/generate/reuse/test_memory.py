"""Memory of guidance: bounded per row and per beam, reported, and freed afterwards."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

from guided.bitmask import allocate_bitmask
from guided.state.state import GuidanceState
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


@pytest.mark.parametrize(("form", "size"), [(LONG, 1900), (None, 500)], ids=["array", "free text"])
def test_bytes_per_token_are_those_of_the_page(tiny_guide: Any, form: Any, size: int) -> None:
    """The row's own 16, and 8 of the call's history, which grows by halves."""
    call = GuidedCall(tiny_guide, ["x"], [tiny_guide.plan(response_format=form)])
    _, (message,) = call.run(max_new_tokens=size, min_new_tokens=size, do_sample=True)
    assert message.guidance.masks == message.guidance.commits == len(message.token_ids) == size
    session = call.inputs.session
    (row,) = session.rows
    kept = (row.state.tokens, row.state.log.positions, session._ids)
    assert 24 <= sum(map(sys.getsizeof, kept)) / size < 40


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
