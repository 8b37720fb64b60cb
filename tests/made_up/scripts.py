"""Answers that a model is made to write: a hook that puts the wanted token on top of its logits, place by place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

import guided
from guided.hf.generate.call import read_messages
from guided.hf.generate.inputs import checked_inputs

__all__ = ["read_everywhere", "write"]


@contextmanager
def write(guide: Any, chat: Any, script: Sequence[int]) -> Iterator[None]:
    """Inside, the guide's model answers ``chat`` with the token ids ``script``, as far as masks allow them.

    By the positions of the tokens that a forward is fed, so it serves any loop that feeds one row.
    """
    first = len(checked_inputs(guide.context, [chat]).prompt_ids[0])

    def put(module: Any, args: Any, kwargs: Any, output: Any) -> Any:
        positions = kwargs.get("position_ids")
        if positions is None:
            size = int(kwargs["input_ids"].shape[1])
            positions = torch.arange(size)[None]
        for column in range(output.logits.shape[1]):
            at = int(positions[0, column - output.logits.shape[1]]) + 1 - first
            if 0 <= at < len(script):
                output.logits[:, column, script[at]] = output.logits.max() + 10
        return output

    with guide.model.register_forward_hook(put, with_kwargs=True):
        yield


def read_everywhere(guide: Any, script: Sequence[int], row: guided.Stops | None = None) -> tuple[Any, ...]:
    """The messages of the answer ``script`` to "hi": of ``generate``, of our loop and of a stream, and its events.

    A row without a plan, or one of stops alone; a stream of the former has a stop that is never written.
    """
    inputs = checked_inputs(guide.context, ["hi"], [row])
    out = torch.tensor([[*inputs.prompt_ids[0], *script]])
    (read,) = read_messages(guide.context, out, inputs, [row])
    with write(guide, "hi", script):
        (own,) = guide.generate(["hi"], [row], temperature=0, max_tokens=len(script))
        stream = guide.stream("hi", row or guided.Stops(["never"]), temperature=0, max_tokens=len(script))
        events = list(stream)
    return read, own, stream.message, events
