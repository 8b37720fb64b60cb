"""Plans and messages are sent to other processes; all that lives in one says so, and names what to do instead."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import guided
from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import GuidedError
from tests.conftest import make_tiny_guide


@pytest.mark.parametrize("way", [pickle.dumps, lambda value: pickle.dumps([value], protocol=2)])
@pytest.mark.parametrize("kind", ["guide", "inputs", "engine", "state", "batch", "kwargs"])
def test_what_lives_in_one_process_says_so(tiny_guide: Any, kind: str, way: Any) -> None:
    plan = tiny_guide.plan(response_format=["a", "b"])
    inputs = checked_inputs(tiny_guide.context, ["x"], [plan])
    held = {
        "guide": tiny_guide,
        "inputs": inputs,
        "engine": tiny_guide.engine,
        "state": guided.GuidanceState(plan, tiny_guide.engine),
        "batch": tiny_guide.batch(["x"], response_format=["a", "b"]),
        "kwargs": generate_kwargs(tiny_guide.context, inputs, [plan]),
    }
    with pytest.raises(GuidedError, match="plans (and messages )?can be sent"):
        way(held[kind])


def test_plans_and_messages_are_sent(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=["a", "b"])
    (message,) = tiny_guide.generate(["x"], [plan], temperature=0, max_tokens=8)
    assert pickle.loads(pickle.dumps((plan, message))) == (plan, message)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_guide_shares_what_it_holds(tiny_guide: Any, way: Any) -> None:
    copied = way(tiny_guide)
    assert copied is not tiny_guide
    assert vars(copied) == vars(tiny_guide)
    assert copied.chat("x", response_format=["a"], temperature=0, max_tokens=4).parsed == "a"


def test_counters_build_no_engine() -> None:
    guide = make_tiny_guide()
    unbuilt = guide.stats().grammars
    assert "engine" not in vars(guide.context)
    assert guide.engine.cache_info() == unbuilt == guide.stats().grammars
