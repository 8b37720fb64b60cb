"""Probabilities of the options of a choice: one prefill of the prompt, then one batched pass over the options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from grammars.plan.plan import Plan
from guided.engine.engine import Engine
from guided.hf.cache.kv_cache import RowKV
from guided.hf.cache.self_test import abilities_of
from guided.hf.loop.sampling import context_size
from guided.hf.masks.apply import not_numbers
from guided.hf.model.context import ModelContext
from guided.landing.options import token_limit
from guided.sampling import ChoiceProbability
from special_tokens.errors import RequestError, shown

__all__ = ["choice_probabilities"]

#: Options per forward pass.
ROWS = 32


def choice_probabilities(context: ModelContext, prompt_ids: Sequence[int], plan: Plan) -> tuple[ChoiceProbability, ...]:
    """Return the probability of each option of ``plan``'s response as the whole answer to the prompt.

    An option's log-probability is the sum over its tokens (the tokenizer's own tokenization) and any of the plan's end
    tokens after them.  A special token that an option spells counts as ordinary text, split into pieces as under
    guidance.  Raises `GuidanceError` for logits that are NaN or all infinite, `RequestError` past the context.
    """
    assert plan.response is not None
    texts = plan.response.choices
    options = [_written(text, context.engine) for text in texts]
    ends = sorted(plan.end_ids())
    room = token_limit(None, None, len(prompt_ids), context_size(context.model))
    longest = max(map(len, options))
    if longest > room:
        expected = f"at most {room}, which the context leaves"
        raise RequestError(f"a choice has {longest} tokens", place="messages", expected=expected)
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
    unwritten = text.encode("utf-8")
    while unwritten:
        ids = engine.ll_tokenizer.tokenize_bytes(unwritten)
        whole = next((i for i, token in enumerate(ids) if token in engine.tokens.marker_ids), len(ids))
        out += ids[:whole]
        unwritten = unwritten[sum(len(engine.token_bytes(token)) for token in ids[:whole]) :]
        if unwritten:
            pieces = engine.tokens_within(unwritten[: len(engine.token_bytes(ids[whole]))])
            if not pieces:
                raise RequestError(
                    f"{shown(text)} cannot be written without its marker",
                    place="response_format.choice",
                    expected="text",
                )
            out.append(pieces[-1])
            unwritten = unwritten[len(engine.token_bytes(pieces[-1])) :]
    return out


def _logprobs(
    model: Any, prompt_ids: Sequence[int], options: Sequence[Sequence[int]], ends: Sequence[int]
) -> list[float]:
    if not abilities_of(model).ragged:
        return [_whole(model, prompt_ids, option, ends) for option in options]
    cache = RowKV(model, 1)
    first = cache.feed([list(prompt_ids)])[0, -1:]
    prompt = cache.take(0)
    out: list[float] = []
    for at in range(0, len(options), ROWS):
        part = options[at : at + ROWS]
        if at:
            cache.select([])
            cache.put(prompt)
        cache.select([0] * len(part))
        longest = max(map(len, part))
        logits = cache.feed(part, keep=longest) if longest else first[None, :0].expand(len(part), -1, -1)
        for r, option in enumerate(part):
            steps = torch.cat([first, logits[r, longest - len(option) :]])
            out.append(_option_logprob(steps.float().log_softmax(-1), option, ends))
    return out


def _whole(model: Any, prompt_ids: Sequence[int], option: Sequence[int], ends: Sequence[int]) -> float:
    """Return the log-probability of one option from a forward over prompt and option, for models without such rows."""
    ids = torch.tensor([[*prompt_ids, *option]], device=next(model.parameters()).device)
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt_ids) - 1 :]
    return _option_logprob(logits.float().log_softmax(-1), option, ends)


def _option_logprob(logprobs: torch.Tensor, option: Sequence[int], ends: Sequence[int]) -> float:
    """``logprobs`` float ``[len(option) + 1, vocab]``: at each token of the option, and after the last."""
    written = sum(float(logprobs[i, token]) for i, token in enumerate(option))
    if not ends:
        return written
    return written + float(logprobs[-1, list(ends)].logsumexp(-1))
