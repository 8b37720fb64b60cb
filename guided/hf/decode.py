"""Our own decode loop, plugged into ``generate`` as a ``custom_generate`` callable.

``generate`` prepares everything (cache, processors, criteria); the loop here is a generator of steps, so that a
caller can stream, stop early, or drain it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Step", "decode_steps", "start"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``tokens`` int ``[rows]`` as sampled, ``live`` bool ``[rows]``: rows that wrote this token."""

    tokens: torch.Tensor
    live: torch.Tensor


def start(model: Any, inputs: Any, **kwargs: Any) -> Iterator[Step]:
    """Let ``generate`` prepare and return the steps; nothing is computed before the first ``next``."""
    steps: Iterator[Step] = model.generate(**inputs, custom_generate=decode_steps, **kwargs)
    return steps


def decode_steps(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    **model_kwargs: Any,
) -> Iterator[Step]:
    """The steps of one static batch.  Rows finish by themselves; the loop ends with the last of them."""
    with torch.no_grad():
        unfinished = torch.ones(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        pad = generation_config._pad_token_tensor
        outputs = model._prefill(input_ids, generation_config, model_kwargs)
        while True:
            logits = outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=input_ids.device)
            model_kwargs = model._update_model_kwargs_for_generation(outputs, model_kwargs)
            del outputs
            scores = logits_processor(input_ids, logits)
            if generation_config.do_sample:
                tokens = torch.multinomial(scores.softmax(dim=-1), num_samples=1).squeeze(1)
            else:
                tokens = scores.argmax(dim=-1)
            if pad is not None:
                tokens = torch.where(unfinished, tokens, pad)
            input_ids = torch.cat([input_ids, tokens[:, None]], dim=-1)
            live = unfinished
            unfinished = unfinished & ~stopping_criteria(input_ids, None)
            yield Step(tokens, live)
            if not bool(unfinished.any()):
                return
            model_inputs = model.prepare_inputs_for_generation(input_ids, next_sequence_length=1, **model_kwargs)
            outputs = model(**model_inputs, return_dict=True)
