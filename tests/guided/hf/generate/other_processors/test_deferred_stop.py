"""Deferred stop checks, as on Apple devices: one step more after everything has ended."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.generation import utils

from tests.judges.generation import CHATS, check_all, generate, greedy
from tests.made_up.models import forwards_of

MODE = ("deferred stop checks (mps)", "right", "the step after the end changes nothing; emulated on the CPU")

needs_deferred = pytest.mark.skipif(
    not hasattr(utils, "DeferredStopCheck"), reason="this transformers has no deferred stop checks"
)


@needs_deferred
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 1}], ids=["greedy", "sampled"])
def test_the_extra_step_leaves_no_trace(
    tiny_guide: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(utils.DeferredStopCheck, "is_supported", staticmethod(lambda *args, **kwargs: True))

    class DoneEvent:
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        def record(self) -> None: ...

        def synchronize(self) -> None: ...

    monkeypatch.setattr(torch, "Event", DoneEvent)
    names = ["json", "choice"]
    with forwards_of(tiny_guide.model) as calls:
        result = inputs, plans, out, messages = generate(tiny_guide, CHATS[:2], names, **options)
    check_all(tiny_guide, names, result)
    assert len(calls) == out.shape[1] - inputs.prompt_len + 1, "the extra step was taken"
    for r, message in enumerate(messages):
        expected = greedy(tiny_guide, inputs.prompt_ids[r], plans[r])
        assert list(message.token_ids) == expected
        assert message.guidance.masks == message.guidance.commits == len(expected)
