"""Probabilities of the options of a choice: one prefill of the prompt, then one batched pass over the options."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from grammars.plan.plan import Plan
from guided.engine.engine import Engine
from guided.hf.masks.logits_check import not_numbers
from guided.hf.model.context import ModelContext
from guided.sampling import ChoiceProbability
from special_tokens.errors import RequestError, shown

__all__ = ["choice_probabilities"]

#: Options per forward pass.
ROWS = 32


def choice_probabilities(context: ModelContext, prompt_ids: Sequence[int], plan: Plan) -> tuple[ChoiceProbability, ...]:
    """Return the probability of each option of ``plan``'s response as the whole answer to the prompt.

    An option's log-probability is the sum over its tokens (the tokenizer's own tokenization) and any of the plan's end
    tokens after them.  A special token that an option spells counts as ordinary text, split into pieces as under
    guidance.  Raises `GuidanceError` for logits that are NaN or all infinite.
    """
    assert plan.response is not None
    texts = plan.response.choices
    options = [_written(text, context.engine) for text in texts]
    ends = sorted(plan.end_ids())
    with torch.no_grad():
        logprobs = _logprobs(context.model, prompt_ids, options, ends)
    best = max(logprobs)
    for text, logprob in zip(texts, logprobs, strict=True):
        if math.isnan(logprob) or best == -math.inf:
            raise not_numbers(f"choice {shown(text)}")
    weights = [math.exp(logprob - best) for logprob in logprobs]
    return tuple(
        ChoiceProbability(text, weight / sum(weights), logprob, len(option))
        for text, option, logprob, weight in zip(texts, options, logprobs, weights, strict=True)
    )


def _written(text: str, engine: Engine) -> list[int]:
    """Tokenize ``text``; where it spells a marker, take the longest ordinary token at its start, then go on."""
    out: list[int] = []
    rest = text.encode("utf-8")
    while rest:
        ids = engine.ll_tokenizer.tokenize_bytes(rest)
        whole = next((i for i, token in enumerate(ids) if token in engine.tokens.marker_ids), len(ids))
        out += ids[:whole]
        rest = rest[sum(len(engine.token_bytes(token)) for token in ids[:whole]) :]
        if rest:
            pieces = engine.tokens_within(rest[: len(engine.token_bytes(ids[whole]))])
            if not pieces:
                raise RequestError(
                    f"{shown(text)} cannot be written without its marker",
                    place="response_format.choice",
                    expected="text",
                )
            out.append(pieces[-1])
            rest = rest[len(engine.token_bytes(pieces[-1])) :]
    return out


def _logprobs(
    model: Any, prompt_ids: Sequence[int], options: Sequence[Sequence[int]], ends: Sequence[int]
) -> list[float]:
    device = next(model.parameters()).device
    prompt = torch.tensor([list(prompt_ids)], device=device)
    read = DynamicCache(config=model.config)
    first = model(input_ids=prompt, past_key_values=read, use_cache=True, logits_to_keep=1).logits[0, -1]
    out: list[float] = []
    for at in range(0, len(options), ROWS):
        part = options[at : at + ROWS]
        cache = copy.deepcopy(read)
        cache.batch_repeat_interleave(len(part))
        longest = max(map(len, part))
        ids = torch.tensor([[*option, *[ends[0]] * (longest - len(option))] for option in part], device=device)
        rest = model(input_ids=ids, past_key_values=cache, use_cache=True).logits if longest else None
        for r, option in enumerate(part):
            steps = first[None] if rest is None else torch.cat([first[None], rest[r, : len(option)]])
            out.append(_option_logprob(steps.float().log_softmax(-1), option, ends))
    return out


def _option_logprob(logprobs: torch.Tensor, option: Sequence[int], ends: Sequence[int]) -> float:
    """``logprobs`` float ``[len(option) + 1, vocab]``: at each token of the option, and after the last."""
    written = sum(float(logprobs[i, token]) for i, token in enumerate(option))
    if not ends:
        return written
    return written + float(logprobs[-1, list(ends)].logsumexp(-1))
