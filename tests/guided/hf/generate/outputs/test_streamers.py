"""Streamers of transformers, and one that cancels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import TextIteratorStreamer

from tests.judges.generation import CHATS, GuidedCall, check_all, generate

MODE = ("streamers", "right", "batch 1, as transformers has them; a streamer that raises cancels")


class Collector:
    def __init__(self, *, cancel_at: int | None = None) -> None:
        self.tokens: list[int] = []
        self.cancel_at = cancel_at

    def put(self, value: torch.Tensor) -> None:
        if value.dim() == 1:
            self.tokens += value.tolist()
        if self.cancel_at is not None and len(self.tokens) >= self.cancel_at:
            raise KeyboardInterrupt

    def end(self) -> None: ...


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 1}, {"prompt_lookup_num_tokens": 3}], ids=str)
def test_the_streamer_gets_the_tokens_of_the_answer(tiny_guide: Any, options: dict[str, Any]) -> None:
    collector = Collector()
    if "prompt_lookup_num_tokens" in options:
        collector.put = lambda value: collector.tokens.extend(value.flatten().tolist())  # type: ignore[method-assign]
    result = _inputs, _, _out, messages = generate(tiny_guide, CHATS[:1], ["json"], streamer=collector, **options)
    check_all(tiny_guide, ["json"], result)
    assert tuple(collector.tokens[-len(messages[0].token_ids) :]) == messages[0].token_ids


def test_the_text_streamer_gives_the_text(tiny_guide: Any) -> None:
    streamer = TextIteratorStreamer(tiny_guide.tokenizer, skip_prompt=True, skip_special_tokens=True)
    *_, messages = generate(tiny_guide, CHATS[:1], ["json"], streamer=streamer)
    assert "".join(streamer) == messages[0].content


def test_cancelling_leaves_the_objects_usable(tiny_guide: Any) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"])
    expected = call.generate()
    for at in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            call.generate(streamer=Collector(cancel_at=at))
        assert torch.equal(call.generate(), expected)
